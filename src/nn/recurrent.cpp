#include <lockstep/error.h>
#include <lockstep/nn/recurrent.h>

#include <ATen/autocast_mode.h>

#include <cmath>

#include <lockstep/kernels/cells.h>
#include <lockstep/kernels/products.h>

namespace lockstep::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kBlocks = 4;  // of a step's gates

/// What of the gates comes from the inputs and what from the state: all of an LSTM's, and three
/// blocks of a GRU's each, the first and the last.
Tensor of_inputs(Cell cell, const Tensor& gates) {
  return cell == Cell::lstm ? gates : gates.narrow(1, 0, gates.size(1) / kBlocks * 3);
}
Tensor of_state(Cell cell, const Tensor& gates) {
  const std::int64_t block = gates.size(1) / kBlocks;
  return cell == Cell::lstm ? gates : gates.narrow(1, block, 3 * block);
}

struct Layer : torch::autograd::Function<Layer> {
  static variable_list forward(AutogradContext* ctx, Cell cell, const Tensor& inputs,
                               const Tensor& weight_input, const Tensor& weight_hidden,
                               const Tensor& bias, const std::optional<Tensor>& hidden_start,
                               const std::optional<Tensor>& cell_start) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    const std::int64_t time = inputs.size(0), rows = inputs.size(1);
    const Tensor dense = inputs.contiguous();  // `inputs` itself, or a copy that nobody else has
    const Tensor flat = dense.view({time * rows, inputs.size(2)});
    Tensor gates = bias.expand({time * rows, bias.size(0)}).clone();
    kernels::add_product(flat, weight_input.t(), of_inputs(cell, gates));
    gates = gates.view({time, rows, bias.size(0)});
    const auto room_from = [&](const std::optional<Tensor>& start) {
      Tensor steps = at::empty({time + 1, rows, weight_hidden.size(1)}, gates.options());
      start ? steps[0].copy_(*start) : steps[0].zero_();
      return steps;
    };
    const Tensor hidden = room_from(hidden_start);
    const Tensor cells = cell == Cell::lstm ? room_from(cell_start) : Tensor();
    const std::int64_t first = hidden_start ? 0 : 1;  // with a state that is not 0
    const kernels::PackedMatrix recurring(weight_hidden.t());
    for (std::int64_t t = 0; t < time; ++t) {
      const Tensor now = gates[t];
      if (t >= first) recurring.add_product(hidden[t], of_state(cell, now));
      if (cell == Cell::lstm)
        kernels::lstm_step(now, cells[t], cells[t + 1], hidden[t + 1]);
      else
        kernels::gru_step(now, hidden[t], hidden[t + 1]);
    }
    ctx->saved_data["cell"] = static_cast<std::int64_t>(cell);
    ctx->saved_data["first"] = first;
    ctx->set_materialize_grads(false);
    variable_list steps = {hidden.narrow(0, 1, time)};
    if (cells.defined()) steps.push_back(cells.narrow(0, 1, time));
    // The outputs are the caller's too: saved as such, a change in place is found.
    variable_list saved = {dense, weight_input, weight_hidden, gates, hidden, cells};
    saved.insert(saved.end(), steps.begin(), steps.end());
    ctx->save_for_backward(std::move(saved));
    return steps;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (torch::GradMode::is_enabled())
      throw ConfigError(
          "a lockstep::Recurrent layer has no second derivative, which create_graph asks for: use "
          "torch::nn::LSTM or torch::nn::GRU there.");
    const auto cell = static_cast<Cell>(ctx->saved_data["cell"].toInt());
    const std::int64_t first = ctx->saved_data["first"].toInt();
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &weight_input = saved[1], &weight_hidden = saved[2];
    const Tensor &gates = saved[3], &hidden = saved[4], &cells = saved[5];
    const std::int64_t time = gates.size(0), rows = gates.size(1);
    const Tensor flat = saved[0].view({time * rows, saved[0].size(2)});

    const kernels::PackedMatrix recurring(weight_hidden);
    const Tensor d_gates = at::empty_like(gates);
    Tensor d_hidden = at::zeros_like(hidden[0]);
    Tensor d_cell = cells.defined() ? at::zeros_like(cells[0]) : Tensor();
    for (std::int64_t t = time - 1; t >= 0; --t) {
      if (grads[0].defined()) d_hidden.add_(grads[0][t]);
      if (d_cell.defined() && grads[1].defined()) d_cell.add_(grads[1][t]);
      const Tensor d_now = d_gates[t];
      if (cell == Cell::lstm)
        kernels::lstm_step_back(gates[t], cells[t], cells[t + 1], d_now, d_hidden, d_cell);
      else
        kernels::gru_step_back(gates[t], hidden[t], d_now, d_hidden);
      if (t < first) break;
      if (cell == Cell::gru)  // beside what goes to the state before past the gates
        recurring.add_product(of_state(cell, d_now), d_hidden);
      else
        recurring.product_into(d_now, d_hidden);
    }

    const Tensor d_flat = d_gates.view({time * rows, gates.size(2)});
    const Tensor d_from_inputs = of_inputs(cell, d_flat), d_from_state = of_state(cell, d_flat);
    const auto needs = [ctx](std::size_t tensor) { return ctx->needs_input_grad(tensor); };
    variable_list result(7);
    if (needs(0))
      result[1] = kernels::product(d_from_inputs, weight_input).view({time, rows, flat.size(1)});
    if (needs(1)) result[2] = kernels::product(d_from_inputs.t(), flat);
    if (needs(2))
      result[3] = kernels::product(d_from_state.narrow(0, first * rows, (time - first) * rows).t(),
                                   hidden.narrow(0, first, time - first).flatten(0, 1));
    if (needs(3)) result[4] = d_flat.sum(0);
    if (first == 0 && needs(4)) result[5] = d_hidden;
    if (first == 0 && cells.defined() && needs(5)) result[6] = d_cell;
    return result;
  }
};

/// Its own backward(): each step goes where the other came from, and none is there twice.
struct Swap : torch::autograd::Function<Swap> {
  static Tensor forward(AutogradContext* ctx, const Tensor& steps, const Tensor& order) {
    ctx->save_for_backward({order});
    const at::AutoDispatchBelowADInplaceOrView
        plain;  // no view, which nobody could change in place
    return swapped(steps, order);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {swapped(grads[0], ctx->get_saved_variables()[0]), Tensor()};
  }
  static Tensor swapped(const Tensor& steps, const Tensor& order) {
    return steps.reshape({-1, steps.size(2)}).index_select(0, order).view(steps.sizes());
  }
};

void start_uniform(Tensor& weight) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  torch::nn::init::uniform_(weight, -bound, bound);
}

}  // namespace

Recurrent::Recurrent(Cell kind, std::int64_t inputs, std::int64_t hidden) : cell(kind) {
  if (inputs < 1 || hidden < 1)
    throw ConfigError("a recurrent layer from " + std::to_string(inputs) + " to " +
                      std::to_string(hidden) + " numbers makes no network: give each at least 1");
  const std::int64_t from_each = cell == Cell::lstm ? 4 : 3;
  weight_input = register_parameter("weight_input", torch::empty({from_each * hidden, inputs}));
  weight_hidden = register_parameter("weight_hidden", torch::empty({from_each * hidden, hidden}));
  bias = register_parameter("bias", torch::zeros({kBlocks * hidden}));
  start_uniform(weight_input);
  start_uniform(weight_hidden);
  const torch::NoGradGuard no_gradients;
  if (cell == Cell::lstm) bias.narrow(0, hidden, hidden).fill_(1);
}

CellState Recurrent::forward(const Tensor& inputs, const CellState& start) {
  check(inputs.dim() == 3 && inputs.size(2) == weight_input.size(1),
        "the inputs of a recurrent layer are [time, rows, inputs]");
  const auto device = inputs.device().type();
  const bool lower = at::autocast::is_autocast_enabled(device);
  const auto dtype = lower ? at::autocast::get_autocast_dtype(device) : weight_hidden.scalar_type();
  const auto cast = [dtype](const Tensor& tensor) { return tensor.to(dtype); };
  std::optional<Tensor> hidden, memory;
  if (!start.empty()) hidden = cast(start[0]);
  if (!start.empty() && cell == Cell::lstm) memory = cast(start[1]);
  const c10::impl::ExcludeDispatchKeyGuard all_cast(c10::autocast_dispatch_keyset);
  return Layer::apply(cell, cast(inputs), cast(weight_input), cast(weight_hidden), cast(bias),
                      hidden, memory);
}

CellState state_after(const CellState& steps, const Tensor& lengths) {
  CellState state;
  for (const Tensor& of_all : steps) {
    const Tensor last = (lengths - 1).view({1, -1, 1}).expand({1, -1, of_all.size(2)});
    state.push_back(of_all.gather(0, last).squeeze(0));
  }
  return state;
}

Tensor reversed(const Tensor& steps, const Tensor& lengths) {
  const std::int64_t time = steps.size(0), rows = steps.size(1);
  const Tensor at = torch::arange(time, lengths.options()).unsqueeze(1);
  const Tensor from = torch::where(at < lengths, lengths - 1 - at, at);
  const Tensor order = from * rows + torch::arange(rows, lengths.options());
  return Swap::apply(steps, order.flatten());
}

}  // namespace lockstep::nn
