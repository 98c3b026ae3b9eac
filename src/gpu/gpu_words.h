#pragma once

// What CUDA says of this machine, in words. Plain functions of their arguments.

#include <optional>
#include <string>
#include <string_view>

#include "gpu/cuda.h"

namespace lockstep::gpu {

/// One clause without a full stop, such as "no NVIDIA driver is installed"; empty if there is a
/// GPU. `visible` is the value of CUDA_VISIBLE_DEVICES, if that is set.
std::string why_no_gpu(const CudaFacts& facts, std::optional<std::string_view> visible);

}  // namespace lockstep::gpu
