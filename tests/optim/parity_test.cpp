// Updates against torch::optim and against TensorFlow's figures.

#include <gtest/gtest.h>

#include <functional>

#include "optim/arena_of_slices.h"

namespace parity_test {

using namespace lockstep;
using optim::Arena;
using optim::awkward_entries;

using MakePeer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

template <class Peer, class Options>
MakePeer peer(const Options& options) {
  return [options](std::vector<torch::Tensor> parameters) {
    return std::make_unique<Peer>(std::move(parameters), options);
  };
}

/// Whether a parameter has a gradient in a step.
using HasGradient = std::function<bool(std::size_t entry, std::int64_t step)>;

bool always(std::size_t, std::int64_t) { return true; }

/// The largest difference after 50 steps, relative to the parameter or to 1 if that is larger.
double distance_after_50_steps(const Optimizer& optimizer, const MakePeer& make, torch::Dtype dtype,
                               const HasGradient& has_gradient) {
  const auto entries = awkward_entries(dtype);
  Arena ours(entries, optimizer);
  std::vector<torch::Tensor> theirs;
  for (const arena::Entry& entry : entries)
    theirs.push_back(entry.tensor.clone().set_requires_grad(true));
  const auto other = make(theirs);
  std::vector<std::int64_t> numbers(theirs.size(), 0);
  std::vector<char> reached(theirs.size());
  for (std::int64_t step = 0; step < 50; ++step) {
    ours.draw_gradient(step);
    for (const arena::Seat& seat : ours.layout.seats) {
      reached[seat.entry] = has_gradient(seat.entry, step);
      theirs[seat.entry].mutable_grad() =
          reached[seat.entry] ? arena::view(ours.gradient, seat).clone() : torch::Tensor();
    }
    other->step();
    ours.apply(optimizer, {.updates = step, .numbers = numbers}, reached);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += reached[i];
  }
  double worst = 0;
  for (const arena::Seat& seat : ours.layout.seats) {
    const torch::Tensor peer = theirs[seat.entry].detach(),
                        own = arena::view(ours.parameters, seat);
    EXPECT_FALSE(torch::equal(own, entries[seat.entry].tensor)) << seat.name << " did not move";
    EXPECT_TRUE(own.isfinite().all().item<bool>()) << seat.name;  // max() below passes over NaN
    worst = std::max(worst, ((own - peer).abs() / peer.abs().clamp_min(1)).max().item<double>());
  }
  return worst;
}

/// Operations are grouped differently, so each of 50 updates may round by a few units in the last
/// place: 6e-8 of the value in float32, which partly cancel, and 1.1e-16 in float64.
void expect_parity(const Optimizer& optimizer, const MakePeer& make) {
  const auto now_and_then = [](std::size_t entry, std::int64_t step) {
    return entry % 3 != 1 || step % 3 == 2;
  };
  for (const HasGradient& has_gradient : std::vector<HasGradient>{always, now_and_then}) {
    EXPECT_LT(distance_after_50_steps(optimizer, make, torch::kFloat32, has_gradient), 1e-6);
    EXPECT_LT(distance_after_50_steps(optimizer, make, torch::kFloat64, has_gradient), 1e-14);
  }
}

TEST(SliceUpdate, SgdEqualsTorchOptim) {
  using Peer = torch::optim::SGD;
  using Options = torch::optim::SGDOptions;
  expect_parity(Sgd{.lr = 0.01}, peer<Peer>(Options(0.01)));
  expect_parity(Sgd{.lr = 0.01, .momentum = 0.9}, peer<Peer>(Options(0.01).momentum(0.9)));
  expect_parity(Sgd{.lr = 0.01, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
                peer<Peer>(Options(0.01).momentum(0.9).nesterov(true).weight_decay(0.1)));
  expect_parity(Sgd{.lr = 0.01, .weight_decay = 0.1}, peer<Peer>(Options(0.01).weight_decay(0.1)));
  expect_parity(Sgd{.lr = 0.01, .momentum = 0.9, .weight_decay = 0.1, .dampening = 0.3},
                peer<Peer>(Options(0.01).momentum(0.9).dampening(0.3).weight_decay(0.1)));
}

TEST(SliceUpdate, AdamEqualsTorchOptim) {
  using Options = torch::optim::AdamOptions;
  expect_parity(Adam{}, peer<torch::optim::Adam>(Options()));
  expect_parity(Adam{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-3, .weight_decay = 0.1},
                peer<torch::optim::Adam>(
                    Options(0.01).betas(std::make_tuple(0.8, 0.99)).eps(1e-3).weight_decay(0.1)));
  expect_parity(
      Adam{.lr = 0.01, .beta2 = 0.9, .amsgrad = true},
      peer<torch::optim::Adam>(Options(0.01).betas(std::make_tuple(0.9, 0.9)).amsgrad(true)));
}

TEST(SliceUpdate, AdamWEqualsTorchOptim) {
  using Options = torch::optim::AdamWOptions;
  expect_parity(AdamW{}, peer<torch::optim::AdamW>(Options()));
  expect_parity(AdamW{.lr = 0.01, .weight_decay = 0.3},
                peer<torch::optim::AdamW>(Options(0.01).weight_decay(0.3)));
  expect_parity(
      AdamW{.lr = 0.01, .beta2 = 0.9, .weight_decay = 0.3, .amsgrad = true},
      peer<torch::optim::AdamW>(
          Options(0.01).betas(std::make_tuple(0.9, 0.9)).weight_decay(0.3).amsgrad(true)));
}

TEST(SliceUpdate, RmsPropEqualsTorchOptim) {
  using Peer = torch::optim::RMSprop;
  using Options = torch::optim::RMSpropOptions;
  expect_parity(RmsProp{}, peer<Peer>(Options()));
  expect_parity(RmsProp{.lr = 0.003, .momentum = 0.9}, peer<Peer>(Options(0.003).momentum(0.9)));
  expect_parity(RmsProp{.lr = 0.003, .decay = 0.9, .centered = true},
                peer<Peer>(Options(0.003).alpha(0.9).centered(true)));
  expect_parity(
      RmsProp{.lr = 0.003, .epsilon = 1e-3, .momentum = 0.5, .centered = true, .weight_decay = 0.1},
      peer<Peer>(Options(0.003).eps(1e-3).momentum(0.5).centered(true).weight_decay(0.1)));
}

TEST(SliceUpdate, AdagradEqualsTorchOptim) {
  using Peer = torch::optim::Adagrad;
  using Options = torch::optim::AdagradOptions;
  expect_parity(Adagrad{}, peer<Peer>(Options()));
  expect_parity(
      Adagrad{.lr = 0.05, .lr_decay = 0.1, .initial_accumulator = 0.5, .weight_decay = 0.1},
      peer<Peer>(Options(0.05).lr_decay(0.1).initial_accumulator_value(0.5).weight_decay(0.1)));
}

// Figures of TensorFlow 2.21.0 on the CPU, in float32, printed by:
//   import tensorflow.compat.v1 as tf; tf.disable_eager_execution()
//   gradients = [[.1 * (i + 1) * (-1) ** i, .3 - .07 * i, 2 / (i + 1)] for i in range(10)]
//   for later in .05, .01:
//     for momentum in 0., .9:
//       for centered in False, True:
//         with tf.Graph().as_default(), tf.device('/cpu:0'), tf.Session() as s:
//           g, lr = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.float32)
//           w = tf.Variable([1., -2., .5])
//           rms = tf.train.RMSPropOptimizer(lr, .9, momentum, 1e-3, centered=centered)
//           step = rms.apply_gradients([(g, w)])
//           s.run(tf.global_variables_initializer())
//           for i in range(10): s.run(step, {g: gradients[i], lr: .05 if i < 5 else later})
//           print(later, momentum, centered, s.run(w).tolist())
struct TensorFlowRun {
  double later, momentum;
  bool centered;
  std::vector<double> weights;
};
const std::vector<TensorFlowRun> kTensorFlow = {
    {0.05, 0.0, false, {1.0304453372955322, -1.9710811376571655, 0.2198144644498825}},
    {0.05, 0.0, true, {1.0304988622665405, -1.9710427522659302, 0.20718131959438324}},
    {0.05, 0.9, false, {1.0085302591323853, -2.1201131343841553, -0.9378654360771179}},
    {0.05, 0.9, true, {1.0085022449493408, -2.120356321334839, -0.9921631813049316}},
    {0.01, 0.0, false, {0.9911799430847168, -2.029768466949463, 0.27877891063690186}},
    {0.01, 0.0, true, {0.9911763668060303, -2.029818058013916, 0.27077716588974}},
    {0.01, 0.9, false, {0.9331258535385132, -2.238016128540039, -0.7756997346878052}},
    {0.01, 0.9, true, {0.9330528974533081, -2.238389730453491, -0.8175829648971558}}};

TEST(SliceUpdate, TensorFlowsRmsPropEqualsItsFigures) {
  for (const TensorFlowRun& run : kTensorFlow) {
    RmsProp rms = tensorflow_rms_prop(0.05, 0.9, run.momentum, 1e-3);
    rms.centered = run.centered;
    Arena ours({{"w", torch::tensor({1.0F, -2.0F, 0.5F})}}, rms);
    for (int i = 0; i < 10; ++i) {
      if (i == 5) rms.lr = run.later;
      const std::vector<double> gradient = {0.1 * (i + 1) * (i % 2 == 0 ? 1 : -1), 0.3 - 0.07 * i,
                                            2.0 / (i + 1)};
      arena::view(ours.gradient, ours.layout.seats[0]).copy_(torch::tensor(gradient));
      ours.apply(rms, {.updates = i});
    }
    for (int i = 0; i < 3; ++i)  // 10 updates in float32: 6e-8 of a value up to 2 each
      EXPECT_NEAR(ours.parameters[i].item<double>(), run.weights[static_cast<std::size_t>(i)], 1e-6)
          << "later " << run.later << ", momentum " << run.momentum << ", centered "
          << run.centered;
  }
}

}  // namespace parity_test
