# lockstep_embed_recipes(SOURCE FILE...): writes the C++ source SOURCE, which has the texts of the
# recipes FILE... in it, by the name of the file (apps/recipe/built_in.h). A recipe that changes is
# embedded anew by the next build.
function(lockstep_embed_recipes source)
  set(entries "")
  list(SORT ARGN)
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND entries "      {\"${name}\", R\"recipe(${text})recipe\"},\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  set(content "// Written by cmake/EmbedRecipes.cmake.
#include \"recipe/built_in.h\"

namespace lockstep::apps {

std::vector<Embedded> embedded_recipes() {
  return {
${entries}  };
}

}  // namespace lockstep::apps
")
  set(before "")
  if(EXISTS ${source})
    file(READ ${source} before)
  endif()
  if(NOT before STREQUAL content)
    file(WRITE ${source} "${content}")
  endif()
endfunction()
