#pragma once

// NCCL: how bytes move between GPUs. nccl_absent.cpp stands in for it in a build without CUDA.

#include <memory>
#include <vector>

#include "collective/transport.h"

namespace lockstep::collective {

/// Tower i is on GPU gpus[i]; its stream must be of that GPU. The caller keeps tensors alive until
/// the streams are done with them. After abort() the next call begins anew. All GPUs are of
/// this process: a move that crosses is a ConfigError, and a sum is left. Throws ConfigError
/// without CUDA, and if NCCL cannot start on these GPUs.
std::unique_ptr<Transport> make_nccl(const std::vector<int>& gpus);

}  // namespace lockstep::collective
