#include "sim/fallback.h"
#include "sim/kernels.h"

#include <ATen/ATen.h>

// LibTorch sends an LSTM or GRU on a PrivateUse1 device to these fused cells, which have no CPU
// kernel. Written with plain tensor operations, on CPU tensors.

namespace lockstep::sim {
namespace {

using at::Tensor;
using torch::jit::pop;
using torch::jit::push;
using torch::jit::Stack;

std::optional<Tensor> pop_optional(Stack* stack) { return pop(*stack).toOptional<Tensor>(); }

bool given(const std::optional<Tensor>& tensor) { return tensor && tensor->defined(); }

Tensor slope_of_sigmoid(const Tensor& y) { return y * (1 - y); }
Tensor slope_of_tanh(const Tensor& y) { return 1 - y * y; }

/// (input_gates, hidden_gates, cell, input_bias?, hidden_bias?) -> (hidden, cell, gates)
void lstm_cell(const c10::OperatorHandle&, Stack* stack) {
  const auto hidden_bias = pop_optional(stack), input_bias = pop_optional(stack);
  const Tensor cell = pop(*stack).toTensor();
  const Tensor hidden_gates = pop(*stack).toTensor(), input_gates = pop(*stack).toTensor();
  Tensor sum = input_gates + hidden_gates;
  if (given(input_bias)) sum = sum + *input_bias + *hidden_bias;
  const auto gates = sum.chunk(4, 1);
  const Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), candidate = gates[2].tanh(),
               out = gates[3].sigmoid();
  const Tensor new_cell = forget * cell + in * candidate;
  push(*stack, out * new_cell.tanh(), new_cell, at::cat({in, forget, candidate, out}, 1));
}

/// (grad_hidden?, grad_cell?, cell, new_cell, gates, has_bias) -> (grad_gates, grad_cell,
/// grad_bias)
void lstm_cell_backward(const c10::OperatorHandle&, Stack* stack) {
  const bool has_bias = pop(*stack).toBool();
  const Tensor workspace = pop(*stack).toTensor(), new_cell = pop(*stack).toTensor(),
               cell = pop(*stack).toTensor();
  const auto grad_cell = pop_optional(stack), grad_hidden = pop_optional(stack);
  if (!given(grad_cell) && !given(grad_hidden)) {
    push(*stack, Tensor(), Tensor(), Tensor());
    return;
  }
  const auto gates = workspace.chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &candidate = gates[2], &out = gates[3];
  const Tensor shape = new_cell.tanh();
  const Tensor from_hidden = given(grad_hidden) ? *grad_hidden : at::zeros_like(cell);
  Tensor through = from_hidden * out * slope_of_tanh(shape);
  if (given(grad_cell)) through = through + *grad_cell;
  const Tensor gradient = at::cat(
      {through * candidate * slope_of_sigmoid(in), through * cell * slope_of_sigmoid(forget),
       through * in * slope_of_tanh(candidate), from_hidden * shape * slope_of_sigmoid(out)},
      1);
  push(*stack, gradient, through * forget, has_bias ? gradient.sum(0) : Tensor());
}

/// (input_gates, hidden_gates, hidden, input_bias?, hidden_bias?) -> (hidden, workspace)
void gru_cell(const c10::OperatorHandle&, Stack* stack) {
  const auto hidden_bias = pop_optional(stack), input_bias = pop_optional(stack);
  const Tensor hidden = pop(*stack).toTensor();
  Tensor hidden_gates = pop(*stack).toTensor(), input_gates = pop(*stack).toTensor();
  if (given(input_bias)) {
    input_gates = input_gates + *input_bias;
    hidden_gates = hidden_gates + *hidden_bias;
  }
  const auto from_input = input_gates.chunk(3, 1), from_hidden = hidden_gates.chunk(3, 1);
  const Tensor reset = (from_input[0] + from_hidden[0]).sigmoid();
  const Tensor update = (from_input[1] + from_hidden[1]).sigmoid();
  const Tensor candidate = (from_input[2] + reset * from_hidden[2]).tanh();
  push(*stack, candidate + update * (hidden - candidate),
       at::cat({reset, update, candidate, hidden, from_hidden[2]}, 1));
}

/// (grad_hidden, workspace, has_bias) -> gradients of the five arguments of gru_cell
void gru_cell_backward(const c10::OperatorHandle&, Stack* stack) {
  const bool has_bias = pop(*stack).toBool();
  const auto saved = pop(*stack).toTensor().chunk(5, 1);
  const Tensor gradient = pop(*stack).toTensor();
  const Tensor &reset = saved[0], &update = saved[1], &candidate = saved[2], &hidden = saved[3],
               &from_hidden = saved[4];
  const Tensor to_update = gradient * (hidden - candidate) * slope_of_sigmoid(update);
  const Tensor to_candidate = gradient * (1 - update) * slope_of_tanh(candidate);
  const Tensor to_reset = to_candidate * from_hidden * slope_of_sigmoid(reset);
  const Tensor to_input = at::cat({to_reset, to_update, to_candidate}, 1);
  const Tensor to_hidden = at::cat({to_reset, to_update, to_candidate * reset}, 1);
  push(*stack, to_input, to_hidden, gradient * update, has_bias ? to_input.sum(0) : Tensor(),
       has_bias ? to_hidden.sum(0) : Tensor());
}

}  // namespace

void register_cells(torch::Library& aten) {
  using torch::CppFunction;
  aten.impl("_thnn_fused_lstm_cell", CppFunction::makeFromBoxedFunction<&run_as<&lstm_cell>>());
  aten.impl("_thnn_fused_lstm_cell_backward_impl",
            CppFunction::makeFromBoxedFunction<&run_as<&lstm_cell_backward>>());
  aten.impl("_thnn_fused_gru_cell", CppFunction::makeFromBoxedFunction<&run_as<&gru_cell>>());
  aten.impl("_thnn_fused_gru_cell_backward",
            CppFunction::makeFromBoxedFunction<&run_as<&gru_cell_backward>>());
}

}  // namespace lockstep::sim
