# lockstep_discover_suites(TARGET): the tests of a googletest program as tests of ctest, one for each
# suite: a process for each single test would spend a quarter of a second on loading LibTorch.
# Run as a script after the program was built, this file lists its suites into FILE.

if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND ${PROGRAM} --gtest_list_tests
    OUTPUT_VARIABLE listed RESULT_VARIABLE failed TIMEOUT 60)
  if(failed)
    message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: ${failed}")
  endif()
  string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${listed}")
  set(tests "")
  foreach(suite ${suites})
    string(REGEX REPLACE "[\n.]" "" suite "${suite}")
    string(APPEND tests "add_test([[${suite}]] [[${PROGRAM}]] [[--gtest_filter=${suite}.*]])\n"
      "set_tests_properties([[${suite}]] PROPERTIES TIMEOUT 300)\n")
  endforeach()
  file(WRITE ${FILE} "${tests}")
  return()
endif()

function(lockstep_discover_suites target)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${file}
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${target}> -D FILE=${file}
            -P ${PROJECT_SOURCE_DIR}/cmake/TestSuites.cmake)
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  file(WRITE ${include} "if(EXISTS [[${file}]])\n  include([[${file}]])\nelse()\n"
    "  add_test([[${target} was not built]] false)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()
