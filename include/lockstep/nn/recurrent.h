#pragma once

// A layer of LSTM or GRU cells over whole sequences: one matrix product for all inputs, one per
// step for the state, and in backward() one for each weight over all steps.

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace lockstep::nn {

enum class Cell { lstm, gru };

/// {hidden}, or {hidden, cell} of an LSTM: [rows, hidden], or of many steps [time, rows, hidden].
using CellState = std::vector<torch::Tensor>;

/// Blocks of `hidden` rows in the weights. LSTM: in, forget, candidate, out, as torch has them.
/// GRU: `bias` has four blocks, candidate, reset, update, and what reset is multiplied with;
/// `weight_input` has the first three of them and `weight_hidden` the last three.
/// Weights start uniform in +-1/sqrt(columns), biases at 0, that of an LSTM's forget gate at 1.
/// On CUDA the steps are launched one by one; cuDNN's fused layers would be faster there.
struct Recurrent : torch::nn::Module {
  Recurrent(Cell cell, std::int64_t inputs, std::int64_t hidden);

  /// The state after every step, from inputs [time, rows, inputs]; starts at zero without `start`.
  /// The first tensor is the layer's output. Under autocast in its lower precision. backward()
  /// needs the outputs: if one was changed in place, it throws LibTorch's error. There is no second
  /// derivative: with create_graph it throws ConfigError.
  CellState forward(const torch::Tensor& inputs, const CellState& start = {});

  const Cell cell;
  torch::Tensor weight_input, weight_hidden, bias;
};

/// The state of each row after its last token: `lengths` is int64 [rows], at least 1. Rows may be
/// padded behind that.
CellState state_after(const CellState& steps, const torch::Tensor& lengths);

/// Turns each row of a sequence, [time, rows, size], round: its first `lengths` steps in the
/// opposite order, padding where it was.
torch::Tensor reversed(const torch::Tensor& steps, const torch::Tensor& lengths);

}  // namespace lockstep::nn
