#pragma once

// NCCL: how bytes move between GPUs. nccl_absent.cpp stands in for it in a build without CUDA.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "collective/transport.h"

namespace lockstep::collective {

/// The GPUs of this process, among those of several.
struct NcclRanks {
  std::vector<int> gpus;
  int first = 0;  ///< tower that is on the first of them
  int total = 0;  ///< towers of all processes
  /// Hands what the process with tower 0 passes in to all of them. They call it together.
  std::function<std::vector<std::byte>(std::vector<std::byte>)> from_first = nullptr;
};

/// Tower i is on GPU gpus[i]; its stream must be of that GPU. The caller keeps tensors alive until
/// the streams are done with them. After abort() the next call begins anew. All GPUs are of
/// this process: a move that crosses is a ConfigError, and a sum is left. Throws ConfigError
/// without CUDA, and if NCCL cannot start on these GPUs.
std::unique_ptr<Transport> make_nccl(const std::vector<int>& gpus);

/// One communicator over the GPUs of all processes, which make it together. After abort() it is of
/// no use any more: make another.
std::unique_ptr<Transport> make_nccl(const NcclRanks& ranks);

}  // namespace lockstep::collective
