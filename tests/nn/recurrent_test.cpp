// A recurrent layer against LibTorch's own, and its gradients against autograd's of plain steps.

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/kernels/cells.h>
#include <lockstep/nn/recurrent.h>

#include <ATen/autocast_mode.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "second_derivative.h"

namespace recurrent_test {

using namespace lockstep;
using namespace lockstep::nn;
using torch::Tensor;

constexpr std::int64_t kTime = 7, kRows = 3, kInputs = 5, kHidden = 6;

/// One step after the other in plain tensor operations.
CellState plain(const Recurrent& layer, const Tensor& inputs, CellState state) {
  const std::int64_t size = layer.weight_hidden.size(1);
  std::vector<std::vector<Tensor>> steps(state.size());
  for (const Tensor& x : inputs.unbind(0)) {
    const Tensor from_input = x.matmul(layer.weight_input.t());
    const Tensor from_state = state[0].matmul(layer.weight_hidden.t());
    if (layer.cell == Cell::lstm) {
      const auto gates = (from_input + from_state + layer.bias).chunk(4, 1);
      state[1] = gates[1].sigmoid() * state[1] + gates[0].sigmoid() * gates[2].tanh();
      state[0] = gates[3].sigmoid() * state[1].tanh();
    } else {
      const auto bias = layer.bias.split(size), x_part = from_input.split(size, 1),
                 h_part = from_state.split(size, 1);
      const Tensor reset = (x_part[1] + h_part[0] + bias[1]).sigmoid();
      const Tensor update = (x_part[2] + h_part[1] + bias[2]).sigmoid();
      const Tensor candidate = (x_part[0] + bias[0] + reset * (h_part[2] + bias[3])).tanh();
      state[0] = (1 - update) * candidate + update * state[0];
    }
    for (std::size_t i = 0; i < state.size(); ++i) steps[i].push_back(state[i]);
  }
  CellState result;
  for (const auto& of_state : steps) result.push_back(torch::stack(of_state));
  return result;
}

struct Case {
  explicit Case(Cell cell, torch::ScalarType type = torch::kFloat64)
      : layer(cell, kInputs, kHidden) {
    torch::manual_seed(4);
    for (Tensor parameter : layer.parameters()) torch::nn::init::uniform_(parameter, -1, 1);
    layer.to(type);
    const auto like = torch::dtype(type);
    inputs = torch::randn({kTime, kRows, kInputs}, like).requires_grad_();
    start.push_back(torch::randn({kRows, kHidden}, like).requires_grad_());
    if (cell == Cell::lstm) start.push_back(torch::randn({kRows, kHidden}, like).requires_grad_());
    for (std::size_t i = 0; i < start.size(); ++i)
      factors.push_back(torch::randn({kTime, kRows, kHidden}, like));
  }

  /// Gradients of a sum that weighs every number of every state.
  std::vector<Tensor> gradients(const CellState& steps) const {
    std::vector<Tensor> of = {inputs, layer.weight_input, layer.weight_hidden, layer.bias};
    of.insert(of.end(), start.begin(), start.end());
    Tensor sum = (steps[0] * factors[0]).sum();
    if (steps.size() > 1) sum = sum + (steps[1] * factors[1]).sum();
    return torch::autograd::grad({sum}, of);
  }

  Recurrent layer;
  Tensor inputs;
  CellState start;
  std::vector<Tensor> factors;
};

void expect_all_close(const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                      double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), expected[i].sizes());
    EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), tolerance) << "tensor " << i;
  }
}

class RecurrentCell : public testing::TestWithParam<Cell> {};
INSTANTIATE_TEST_SUITE_P(Each, RecurrentCell, testing::Values(Cell::lstm, Cell::gru),
                         [](const auto& cell) {
                           return cell.param == Cell::lstm ? "lstm" : "gru";
                         });

TEST_P(RecurrentCell, EqualsPlainStepsAndTheirGradientsInDoublePrecision) {
  Case one(GetParam());
  const CellState found = one.layer.forward(one.inputs, one.start);
  const CellState expected = plain(one.layer, one.inputs, one.start);
  expect_all_close(found, expected, 1e-10);
  expect_all_close(one.gradients(found), one.gradients(expected), 1e-10);
}

TEST_P(RecurrentCell, EqualsPlainStepsAndTheirGradientsInSinglePrecision) {
  Case one(GetParam(), torch::kFloat32);
  const CellState found = one.layer.forward(one.inputs, one.start);
  const CellState expected = plain(one.layer, one.inputs, one.start);
  expect_all_close(found, expected, 2e-6);                                // numbers of about 1
  expect_all_close(one.gradients(found), one.gradients(expected), 5e-5);  // of up to about 30
}

TEST_P(RecurrentCell, StartsAtZeroWithoutAState) {
  Case one(GetParam());
  CellState zeros;
  for (const Tensor& part : one.start) zeros.push_back(torch::zeros_like(part));
  expect_all_close(one.layer.forward(one.inputs), one.layer.forward(one.inputs, zeros), 0);
}

TEST_P(RecurrentCell, GradientsWithoutAStateAreThoseOfOneOfZeros) {
  for (const auto type : {torch::kFloat64, torch::kFloat32})
    for (const std::int64_t time : {std::int64_t{1}, kTime}) {
      SCOPED_TRACE(testing::Message() << type << ", steps " << time);
      Case one(GetParam(), type);
      const Tensor inputs = one.inputs.narrow(0, 0, time),
                   factors = one.factors[0].narrow(0, 0, time);
      CellState zeros;
      for (const Tensor& part : one.start) zeros.push_back(torch::zeros_like(part));
      const auto gradients = [&](const CellState& steps) {
        return torch::autograd::grad(
            {(steps[0] * factors).sum()},
            {one.inputs, one.layer.weight_input, one.layer.weight_hidden, one.layer.bias});
      };
      expect_all_close(gradients(one.layer.forward(inputs)),
                       gradients(plain(one.layer, inputs, zeros)),
                       type == torch::kFloat64 ? 1e-10 : 5e-5);
    }
}

TEST_P(RecurrentCell, InputsWithoutGradientGiveTheSameGradientsOfTheWeights) {
  Case one(GetParam());
  const auto gradients = [&](const Tensor& inputs) {
    const Tensor sum = one.layer.forward(inputs)[0].sum();
    return torch::autograd::grad({sum}, one.layer.parameters());
  };
  expect_all_close(gradients(one.inputs.detach()), gradients(one.inputs), 0);
}

TEST_P(RecurrentCell, BackwardTwiceGivesTheSame) {
  Case one(GetParam(), torch::kFloat32);
  const Tensor sum = one.layer.forward(one.inputs, one.start)[0].sum();
  const auto first = torch::autograd::grad({sum}, {one.inputs}, {}, true);
  expect_all_close(torch::autograd::grad({sum}, {one.inputs}), first, 0);
}

/// Whether LibTorch says that backward() finds a tensor changed.
bool refused_as_changed(const std::function<void()>& backward) {
  try {
    backward();
    return false;
  } catch (const c10::Error& error) {
    return std::string(error.what()).find("modified by an inplace operation") != std::string::npos;
  }
}

TEST_P(RecurrentCell, AnOutputChangedInPlaceIsRefusedByBackward) {
  for (std::size_t i = 0; i < Case(GetParam()).start.size(); ++i) {
    Case one(GetParam());
    const CellState steps = one.layer.forward(one.inputs, one.start);
    const Tensor sum = steps[i].mul_(2).sum();
    EXPECT_TRUE(refused_as_changed([&] { sum.backward(); })) << "output " << i;
  }
}

TEST_P(RecurrentCell, InputsAndWeightsChangedInPlaceAreRefusedByBackward) {
  Case one(GetParam());
  for (const std::size_t changed : {0u, 1u, 2u}) {
    const Tensor inputs = one.inputs * 1;
    const Tensor sum = one.layer.forward(inputs, one.start)[0].sum();
    const torch::NoGradGuard no_gradients;
    std::vector<Tensor>{inputs, one.layer.weight_input, one.layer.weight_hidden}[changed].mul_(2);
    EXPECT_TRUE(refused_as_changed([&] { sum.backward(); })) << "tensor " << changed;
  }
}

TEST_P(RecurrentCell, WhatItHasCopiedMayBeChangedInPlace) {
  Case one(GetParam());
  const Tensor inputs = (one.inputs * 1).transpose(0, 1).contiguous().transpose(0, 1);
  CellState start;
  for (const Tensor& part : one.start) start.push_back(part * 1);
  const CellState expected = one.layer.forward(one.inputs, one.start);
  const CellState found = one.layer.forward(inputs, start);
  {
    const torch::NoGradGuard no_gradients;
    inputs.mul_(2);
    for (const Tensor& part : start) part.mul_(2);
  }
  expect_all_close(one.gradients(found), one.gradients(expected), 0);
}

TEST_P(RecurrentCell, RefusesASecondDerivativeAndSaysWhatHasOne) {
  Case one(GetParam(), torch::kFloat32);
  const Tensor sum = one.layer.forward(one.inputs, one.start)[0].sum();
  try {
    torch::autograd::grad({sum}, {one.inputs}, {}, /*retain_graph=*/true, /*create_graph=*/true);
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("torch::nn::LSTM"), std::string::npos);
  }
}

TEST_P(RecurrentCell, NoRowsAreFine) {
  Case one(GetParam(), torch::kFloat32);
  const CellState steps = one.layer.forward(torch::zeros({kTime, 0, kInputs}));
  EXPECT_EQ(steps[0].sizes(), torch::IntArrayRef({kTime, 0, kHidden}));
  steps[0].sum().backward();
  EXPECT_EQ(one.layer.weight_hidden.grad().abs().max().item<float>(), 0);
}

TEST_P(RecurrentCell, WhatIsNoNumberStaysNoNumber) {
  Case one(GetParam(), torch::kFloat32);
  Tensor inputs = one.inputs.detach().clone();
  inputs[2][1][0] = std::numeric_limits<float>::quiet_NaN();
  const Tensor outputs = one.layer.forward(inputs)[0];
  EXPECT_TRUE(outputs.slice(0, 2).select(1, 1).isnan().all().item<bool>());
  EXPECT_FALSE(outputs.select(1, 0).isnan().any().item<bool>());
}

TEST_P(RecurrentCell, RunsUnderAutocast) {
  Case one(GetParam(), torch::kFloat32);
  const CellState whole = one.layer.forward(one.inputs, one.start);
  at::autocast::set_autocast_enabled(torch::kCPU, true);
  const CellState lower = one.layer.forward(one.inputs, one.start);
  at::autocast::set_autocast_enabled(torch::kCPU, false);
  EXPECT_EQ(lower[0].scalar_type(), torch::kBFloat16);
  expect_all_close({lower[0].to(torch::kFloat32)}, {whole[0]}, 0.1);
  lower[0].to(torch::kFloat32).sum().backward();
  EXPECT_EQ(one.layer.bias.grad().scalar_type(), torch::kFloat32);
}

TEST(Recurrent, EqualsLibTorchsLstm) {
  torch::nn::LSTM theirs(kInputs, kHidden);
  Recurrent layer(Cell::lstm, kInputs, kHidden);
  const torch::NoGradGuard no_gradients;
  const auto named = theirs->named_parameters();
  layer.weight_input.copy_(named["weight_ih_l0"]);
  layer.weight_hidden.copy_(named["weight_hh_l0"]);
  layer.bias.copy_(named["bias_ih_l0"] + named["bias_hh_l0"]);
  const Tensor inputs = torch::randn({kTime, kRows, kInputs});
  const auto [outputs, last] = theirs(inputs);
  const CellState found = layer.forward(inputs);
  expect_all_close({found[0], found[1][kTime - 1]}, {outputs, std::get<1>(last)[0]}, 1e-6);
}

TEST(Recurrent, EqualsLibTorchsGruWithItsBlocksInOurOrder) {
  torch::nn::GRU theirs(kInputs, kHidden);
  Recurrent layer(Cell::gru, kInputs, kHidden);
  const torch::NoGradGuard no_gradients;
  const auto named = theirs->named_parameters();
  const auto input = named["weight_ih_l0"].split(kHidden);  // reset, update, candidate
  const auto input_bias = named["bias_ih_l0"].split(kHidden),
             hidden_bias = named["bias_hh_l0"].split(kHidden);
  layer.weight_input.copy_(torch::cat({input[2], input[0], input[1]}));
  layer.weight_hidden.copy_(named["weight_hh_l0"]);
  layer.bias.copy_(torch::cat({input_bias[2], input_bias[0] + hidden_bias[0],
                               input_bias[1] + hidden_bias[1], hidden_bias[2]}));
  const Tensor inputs = torch::randn({kTime, kRows, kInputs});
  expect_all_close(layer.forward(inputs), {std::get<0>(theirs(inputs))}, 1e-6);
}

/// Activations of the loops on floats, over all magnitudes, against double precision.
TEST(RecurrentCells, ActivationsAreRightToAFewUlps) {
  const Tensor exponents = torch::linspace(-30, 2.5, 4000, torch::kFloat64);
  const Tensor magnitudes = torch::pow(10, exponents).to(torch::kFloat32);
  const Tensor x = torch::cat({magnitudes, -magnitudes, torch::zeros({8})}).unsqueeze(0);
  // An LSTM with `in` and `forget` of x, and its candidate; the cell before it is 0.
  Tensor gates = torch::cat({x, x, x, x}, 1).contiguous();
  Tensor cell = torch::zeros_like(x), new_cell = torch::empty_like(x),
         hidden = torch::empty_like(x);
  kernels::lstm_step(gates, cell, new_cell, hidden);
  const auto found = gates.chunk(4, 1);
  const auto relative = [](const Tensor& value, const Tensor& truth) {
    const Tensor scale = truth.abs().clamp_min(std::numeric_limits<float>::min());
    return ((value.to(torch::kFloat64) - truth).abs() / scale).max().item<double>();
  };
  const Tensor exact = x.to(torch::kFloat64);
  const Tensor cut = exact.clamp(-87, 87);  // sigmoid(-87) is 1.6e-38
  EXPECT_LT(relative(found[0], cut.sigmoid()), 1e-6);
  EXPECT_LT(relative(found[2], exact.tanh()), 5e-7);
}

TEST(RecurrentCells, ThreadsDoNotChangeABit) {
  const Tensor gates = torch::randn({100, 4 * 301}), cell = torch::randn({100, 301});
  const auto step = [&](int threads) {
    torch::set_num_threads(threads);
    Tensor own = gates.clone(), new_cell = torch::empty_like(cell),
           hidden = torch::empty_like(cell);
    kernels::lstm_step(own, cell, new_cell, hidden);
    Tensor d_gates = torch::empty_like(gates), d_cell = cell.clone();
    kernels::lstm_step_back(own, cell, new_cell, d_gates, hidden, d_cell);
    return torch::cat({own, d_gates, new_cell, hidden, d_cell}, 1);
  };
  const Tensor two = step(2), one = step(1);
  EXPECT_TRUE(torch::equal(one, two));
}

TEST(StateAfter, IsThatOfEachRowsLastToken) {
  const Tensor steps = torch::arange(12).view({4, 3, 1}).to(torch::kFloat32);
  const CellState found = state_after({steps, -steps}, torch::tensor({1, 4, 2}));
  EXPECT_TRUE(torch::equal(found[0].flatten(), torch::tensor({0., 10., 5.}).to(torch::kFloat32)));
  EXPECT_TRUE(torch::equal(found[1], -found[0]));
}

TEST(Reversed, TurnsRowsRoundAndLeavesPaddingWhereItIs) {
  const Tensor steps = torch::tensor({{1, 1}, {2, 2}, {3, 0}}).unsqueeze(2).to(torch::kFloat64);
  const Tensor lengths = torch::tensor({3, 2});
  const Tensor found = reversed(steps, lengths);
  const Tensor expected = torch::tensor({{3, 2}, {2, 1}, {1, 0}}).to(torch::kFloat64);
  EXPECT_TRUE(torch::equal(found.squeeze(2), expected));
  EXPECT_TRUE(torch::equal(reversed(found, lengths), steps));
}

TEST(Reversed, ReversesItsGradient) {
  const Tensor steps = torch::randn({3, 2, 4}).requires_grad_(), factors = torch::randn({3, 2, 4});
  const Tensor lengths = torch::tensor({3, 2});
  (reversed(steps, lengths) * factors).sum().backward();
  EXPECT_TRUE(torch::equal(steps.grad(), reversed(factors, lengths)));
}

TEST(Reversed, GivesTheGradientOfWhatItsOutputIsChangedToInPlace) {
  const Tensor steps = torch::randn({3, 2, 4}).requires_grad_(), factors = torch::randn({3, 2, 4});
  const Tensor lengths = torch::tensor({3, 2});
  const Tensor turned = reversed(steps, lengths);
  turned.mul_(2);
  (turned * factors).sum().backward();
  EXPECT_TRUE(torch::equal(steps.grad(), reversed(2 * factors, lengths)));
}

TEST(Reversed, HasItsSecondDerivative) {
  const Tensor lengths = torch::tensor({3, 2});
  const Tensor factors = torch::randn({3, 2, 4}, torch::kFloat64);
  expect_second_derivative(
      [&](const Tensor& steps) { return (reversed(steps, lengths).pow(3) * factors).sum(); },
      torch::randn({3, 2, 4}, torch::kFloat64));
}

TEST(StateAfter, HasItsSecondDerivative) {
  const Tensor lengths = torch::tensor({3, 2});
  const Tensor factors = torch::randn({2, 4}, torch::kFloat64);
  expect_second_derivative(
      [&](const Tensor& steps) {
        return (state_after({steps}, lengths)[0].pow(3) * factors).sum();
      },
      torch::randn({3, 2, 4}, torch::kFloat64));
}

TEST(Recurrent, RefusesSizesThatMakeNoLayer) {
  EXPECT_THROW(Recurrent(Cell::lstm, 0, 4), ConfigError);
  EXPECT_THROW(Recurrent(Cell::gru, 4, 0), ConfigError);
  Recurrent layer(Cell::lstm, 3, 4);
  EXPECT_THROW(layer.forward(torch::zeros({2, 5, 2})), std::logic_error);
}

}  // namespace recurrent_test
