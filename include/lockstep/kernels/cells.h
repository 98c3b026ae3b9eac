#pragma once

// One step of LSTM and GRU cells, all rows at once, without the matrix products: gates are [rows, 4
// hidden] in the blocks that lockstep/nn/recurrent.h names, the rest is [rows, hidden]. In
// single precision on a CPU in one pass over memory, else by LibTorch. Without gradients: a step
// has its own way back.

#include <ATen/ATen.h>

namespace lockstep::kernels {

/// Activates `gates` in place; writes the new cell and hidden state.
void lstm_step(const at::Tensor& gates, const at::Tensor& cell, const at::Tensor& new_cell,
               const at::Tensor& new_hidden);

/// Writes the gradient of the gates before they were activated. In place: `d_cell` from the new
/// cell's gradient to the old one's.
void lstm_step_back(const at::Tensor& gates, const at::Tensor& cell, const at::Tensor& new_cell,
                    const at::Tensor& d_gates, const at::Tensor& d_hidden,
                    const at::Tensor& d_cell);

/// Activates `gates` in place, but for the last block; writes the new hidden state.
void gru_step(const at::Tensor& gates, const at::Tensor& hidden, const at::Tensor& new_hidden);

/// Writes the gradient of the gates before they were activated. In place: `d_hidden` from the new
/// hidden state's gradient to the old one's, as far as it goes past the gates.
void gru_step_back(const at::Tensor& gates, const at::Tensor& hidden, const at::Tensor& d_gates,
                   const at::Tensor& d_hidden);

}  // namespace lockstep::kernels
