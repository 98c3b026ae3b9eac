#pragma once

// All that is asked of CUDA besides collectives: cuda.cpp asks, and cuda_absent.cpp stands in for
// it in a build without CUDA. Words are made of the answers elsewhere. Throws what LibTorch throws.

#include <lockstep/gpu.h>

#include <cstdint>
#include <string>

namespace lockstep::gpu {

struct CudaFacts {
  bool built = false;           ///< with CUDA
  int driver = 0;               ///< the newest CUDA it knows, 13020 for 13.2; 0: there is no driver
  int runtime = 0;              ///< the CUDA that this program was built with
  bool driver_too_old = false;  ///< for the runtime
  int gpus = 0;                 ///< visible to this process
  std::string error = {};       ///< any other that counting them met
};

CudaFacts cuda_facts();
Info cuda_info(int number);
void cuda_limit_memory(int number, double fraction);
Usage cuda_usage(int number);
void cuda_reset_peak(int number);

/// Gives LibTorch a kernel for every operator that has none for CUDA: run_on_cpu of placement.h.
void cuda_install_fallback();

}  // namespace lockstep::gpu
