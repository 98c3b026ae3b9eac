#pragma once

// The squares of a gradient, block by block, on the device that has it.

#include <torch/torch.h>

namespace lockstep::collective {

/// The sum of the squares of each block of `flat`, as doubles on its device. A block's sum does not
/// depend on what is around it; on the CPU and on simulated devices it is that of Lanes.
torch::Tensor block_squares(const torch::Tensor& flat);

/// How GPUs do it: halves added to halves, with elementwise additions only, which round alike in
/// every shape. A reduction of LibTorch's may sum in another order when there are more blocks.
torch::Tensor block_squares_by_halves(const torch::Tensor& flat);

}  // namespace lockstep::collective
