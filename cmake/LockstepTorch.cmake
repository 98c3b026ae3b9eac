# Finds LibTorch and defines lockstep::torch: headers, libtorch_cpu, libc10.
#
# LibTorch's own TorchConfig.cmake is not used: in a CUDA wheel it insists on a CUDA toolkit, which
# neither building nor running on the CPU needs. Looked for, in this order: LOCKSTEP_TORCH_ROOT,
# CMAKE_PREFIX_PATH (a LibTorch folder, or what `torch.utils.cmake_prefix_path` prints), the folder
# that scripts/setup fills, the system.

set(LOCKSTEP_TORCH_ROOT "" CACHE PATH "Folder of LibTorch: holds include/ and lib/")

set(_roots ${LOCKSTEP_TORCH_ROOT})
foreach(_prefix IN LISTS CMAKE_PREFIX_PATH)
  list(APPEND _roots ${_prefix} ${_prefix}/../..)
endforeach()
list(APPEND _roots ${LOCKSTEP_TORCH_HINT})

# The folders above in their order first, then (a second call does nothing if the first found it)
# the system: never headers from one and libraries from another.
foreach(_where IN ITEMS NO_DEFAULT_PATH "")
  find_path(LOCKSTEP_TORCH_API torch/torch.h HINTS ${_roots} ${_where}
            PATH_SUFFIXES include/torch/csrc/api/include torch/csrc/api/include)
  find_library(LOCKSTEP_TORCH_CPU torch_cpu HINTS ${_roots} ${_where} PATH_SUFFIXES lib)
  find_library(LOCKSTEP_TORCH_C10 c10 HINTS ${_roots} ${_where} PATH_SUFFIXES lib)
endforeach()
mark_as_advanced(LOCKSTEP_TORCH_API LOCKSTEP_TORCH_CPU LOCKSTEP_TORCH_C10)
if(NOT LOCKSTEP_TORCH_API OR NOT LOCKSTEP_TORCH_CPU OR NOT LOCKSTEP_TORCH_C10)
  message(FATAL_ERROR "LibTorch was not found. Run scripts/setup, or give your own with "
                      "-DCMAKE_PREFIX_PATH=/path/to/libtorch.")
endif()

if(NOT TARGET lockstep::torch)
  get_filename_component(_include ${LOCKSTEP_TORCH_API}/../../../.. ABSOLUTE)
  get_filename_component(_lib ${LOCKSTEP_TORCH_CPU} DIRECTORY)
  # The wheel keeps the two CUDA libraries that libtorch_cpu.so names beside itself.
  file(GLOB _nvidia ${_lib}/../../nvidia/*/lib)
  add_library(lockstep::torch INTERFACE IMPORTED)
  target_include_directories(lockstep::torch SYSTEM INTERFACE ${_include} ${LOCKSTEP_TORCH_API})
  target_link_libraries(lockstep::torch INTERFACE ${LOCKSTEP_TORCH_CPU} ${LOCKSTEP_TORCH_C10})
  foreach(_folder IN LISTS _nvidia)
    target_link_options(lockstep::torch INTERFACE "LINKER:-rpath-link,${_folder}")
  endforeach()
endif()
