# Finds LibTorch's CUDA half, the CUDA runtime and NCCL; defines lockstep::cuda if all are there, and
# LOCKSTEP_WITH_CUDA: whether the library is to be built with them.
#
# No CUDA toolkit is needed: NVIDIA's packages on PyPI, which the torch wheel requires, hold headers
# and libraries. Looked for, in this order: LOCKSTEP_CUDA_ROOT, beside LibTorch, the folder that
# `scripts/setup --cuda` fills. The system is looked at only if LOCKSTEP_CUDA is ON: a toolkit that
# happens to be there need not be the one of this LibTorch.

set(LOCKSTEP_CUDA_ROOT "" CACHE PATH "Folder of NVIDIA's packages: holds cu13/, nccl/ and others")
set(LOCKSTEP_WITH_CUDA OFF)
if(NOT LOCKSTEP_CUDA)
  return()
endif()

get_filename_component(_torch_lib ${LOCKSTEP_TORCH_CPU} DIRECTORY)
get_filename_component(_beside ${_torch_lib}/../../nvidia ABSOLUTE)
set(_packages)
foreach(_root IN ITEMS ${LOCKSTEP_CUDA_ROOT} ${_beside} ${LOCKSTEP_CUDA_HINT})
  file(GLOB _found LIST_DIRECTORIES true ${_root}/*)
  list(APPEND _packages ${_found})
endforeach()
set(_default_path NO_DEFAULT_PATH)
if(LOCKSTEP_CUDA STREQUAL "ON")
  set(_default_path)
endif()

find_library(LOCKSTEP_TORCH_CUDA torch_cuda HINTS ${_torch_lib} NO_DEFAULT_PATH)
find_library(LOCKSTEP_TORCH_C10_CUDA c10_cuda HINTS ${_torch_lib} NO_DEFAULT_PATH)
# The packages' libraries have no plain .so beside libx.so.13.
foreach(_where IN ITEMS NO_DEFAULT_PATH "${_default_path}")
  find_path(LOCKSTEP_CUDA_INCLUDE crt/host_config.h HINTS ${_packages} ${_where} PATH_SUFFIXES include)
  find_path(LOCKSTEP_NCCL_INCLUDE nccl.h HINTS ${_packages} ${_where} PATH_SUFFIXES include)
  find_library(LOCKSTEP_CUDART NAMES libcudart.so.13 cudart HINTS ${_packages} ${_where} PATH_SUFFIXES lib)
  find_library(LOCKSTEP_NCCL NAMES libnccl.so.2 nccl HINTS ${_packages} ${_where} PATH_SUFFIXES lib)
endforeach()
set(_needed LOCKSTEP_TORCH_CUDA LOCKSTEP_TORCH_C10_CUDA LOCKSTEP_CUDA_INCLUDE LOCKSTEP_NCCL_INCLUDE
    LOCKSTEP_CUDART LOCKSTEP_NCCL)
mark_as_advanced(${_needed})

set(_missing)
foreach(_each IN LISTS _needed)
  if(NOT ${_each})
    list(APPEND _missing ${_each})
  endif()
endforeach()
if(_missing)
  if(LOCKSTEP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LOCKSTEP_CUDA is ON, and these were not found: ${_missing}. Run "
                        "`scripts/setup --cuda`, or see docs/cuda.md.")
  endif()
  return()
endif()
if(LOCKSTEP_CUDA STREQUAL "ON" OR EXISTS /proc/driver/nvidia/version)
  set(LOCKSTEP_WITH_CUDA ON)
endif()

if(NOT TARGET lockstep::cuda)
  add_library(lockstep::cuda INTERFACE IMPORTED)
  target_include_directories(lockstep::cuda SYSTEM INTERFACE ${LOCKSTEP_CUDA_INCLUDE} ${LOCKSTEP_NCCL_INCLUDE})
  # libtorch_cuda.so registers its kernels when it is loaded: needed even if no symbol of it is.
  # In one word, which CMake keeps together.
  target_link_libraries(lockstep::cuda INTERFACE
    lockstep::torch -Wl,--push-state,--no-as-needed,${LOCKSTEP_TORCH_CUDA},--pop-state
    ${LOCKSTEP_TORCH_C10_CUDA} ${LOCKSTEP_CUDART} ${LOCKSTEP_NCCL})
  # An old-style rpath holds for the libraries that libtorch_cuda.so names as well.
  target_link_options(lockstep::cuda INTERFACE LINKER:--disable-new-dtags)
  foreach(_package IN LISTS _packages)
    if(EXISTS ${_package}/lib)
      target_link_options(lockstep::cuda INTERFACE "LINKER:-rpath,${_package}/lib")
    endif()
  endforeach()
endif()
