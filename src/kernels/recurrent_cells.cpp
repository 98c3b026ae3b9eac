#include <lockstep/kernels/cells.h>

#include <array>

#include "kernels/recurrent_loops.h"

namespace lockstep::kernels {
namespace {

using at::Tensor;

/// Whether the loops of recurrent_loops.h will do: then one pass over memory instead of ten.
bool plain_floats(const Tensor& gates) {
  return gates.is_cpu() && gates.scalar_type() == at::kFloat && gates.is_contiguous();
}

CellSize size_of(const Tensor& gates) { return {gates.size(0), gates.size(1) / 4}; }
const float* in(const Tensor& tensor) { return tensor.const_data_ptr<float>(); }
float* out(const Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }

std::array<Tensor, 4> blocks(const Tensor& gates) {
  const std::int64_t size = gates.size(1) / 4;
  return {gates.narrow(1, 0, size), gates.narrow(1, size, size), gates.narrow(1, 2 * size, size),
          gates.narrow(1, 3 * size, size)};
}

/// into *= the slope of the sigmoid (of tanh) at where it is `y`.
void through_sigmoid(Tensor& into, const Tensor& y) { at::sigmoid_backward_out(into, into, y); }
void through_tanh(Tensor& into, const Tensor& y) { at::tanh_backward_out(into, into, y); }

}  // namespace

void lstm_step(const Tensor& gates, const Tensor& cell, const Tensor& new_cell,
               const Tensor& new_hidden) {
  if (plain_floats(gates))
    return lstm_loop(size_of(gates), out(gates), in(cell), out(new_cell), out(new_hidden));
  gates.narrow(1, 0, 2 * cell.size(1)).sigmoid_();
  const auto [enter, forget, candidate, leave] = blocks(gates);
  candidate.tanh_();
  leave.sigmoid_();
  Tensor into = new_cell;
  at::mul_out(into, forget, cell).addcmul_(enter, candidate);
  into = new_hidden;
  at::tanh_out(into, new_cell).mul_(leave);
}

void lstm_step_back(const Tensor& gates, const Tensor& cell, const Tensor& new_cell,
                    const Tensor& d_gates, const Tensor& d_hidden, const Tensor& d_cell) {
  if (plain_floats(gates))
    return lstm_loop_back(size_of(gates), in(gates), in(cell), in(new_cell), out(d_gates),
                          in(d_hidden), out(d_cell));
  const auto [enter, forget, candidate, leave] = blocks(gates);
  auto [d_enter, d_forget, d_candidate, d_leave] = blocks(d_gates);
  const Tensor squashed = new_cell.tanh();
  at::mul_out(d_leave, d_hidden, squashed);
  through_sigmoid(d_leave, leave);
  d_cell.add_(at::tanh_backward(d_hidden * leave, squashed));
  at::mul_out(d_enter, d_cell, candidate);
  through_sigmoid(d_enter, enter);
  at::mul_out(d_forget, d_cell, cell);
  through_sigmoid(d_forget, forget);
  at::mul_out(d_candidate, d_cell, enter);
  through_tanh(d_candidate, candidate);
  d_cell.mul_(forget);
}

void gru_step(const Tensor& gates, const Tensor& hidden, const Tensor& new_hidden) {
  if (plain_floats(gates)) return gru_loop(size_of(gates), out(gates), in(hidden), out(new_hidden));
  const auto [candidate, reset, update, recurring] = blocks(gates);
  reset.sigmoid_();
  update.sigmoid_();
  candidate.addcmul_(reset, recurring).tanh_();
  Tensor into = new_hidden;
  at::sub_out(into, hidden, candidate).mul_(update).add_(candidate);
}

void gru_step_back(const Tensor& gates, const Tensor& hidden, const Tensor& d_gates,
                   const Tensor& d_hidden) {
  if (plain_floats(gates))
    return gru_loop_back(size_of(gates), in(gates), in(hidden), out(d_gates), out(d_hidden));
  const auto [candidate, reset, update, recurring] = blocks(gates);
  auto [d_candidate, d_reset, d_update, d_recurring] = blocks(d_gates);
  at::sub_out(d_update, hidden, candidate).mul_(d_hidden);
  through_sigmoid(d_update, update);
  at::sub_out(d_candidate, d_hidden, d_hidden * update);
  through_tanh(d_candidate, candidate);
  at::mul_out(d_reset, d_candidate, recurring);
  through_sigmoid(d_reset, reset);
  at::mul_out(d_recurring, d_candidate, reset);
  d_hidden.mul_(update);
}

}  // namespace lockstep::kernels
