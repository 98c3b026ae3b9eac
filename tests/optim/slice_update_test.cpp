// Updates of slices: against torch::optim, against TensorFlow's figures, and cut in other ways.

#include "optim/slice_update.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace {

using namespace lockstep;
using optim::Moment;
using optim::SliceUpdate;

using Numels = std::vector<std::pair<std::string, std::int64_t>>;

/// Seats begin at odd multiples of 128 bytes too, and slices are cut inside them.
std::vector<arena::Entry> awkward_entries(torch::Dtype dtype) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{1});
  std::vector<arena::Entry> entries;
  for (const auto& [layer, numel] : Numels{{"a", 4001}, {"b", 8197}, {"c", 12288}, {"d", 20380}}) {
    entries.push_back({layer + ".weight", torch::randn({numel}, random).to(dtype)});
    entries.push_back({layer + ".bias", torch::randn({numel % 37 + 1}, random).to(dtype)});
  }
  return entries;
}

/// An arena of parameters, cut into `parts` slices with an update each, on a tower of `threads`.
struct Arena {
  Arena(const std::vector<arena::Entry>& entries, const Optimizer& optimizer, int parts = 1,
        std::vector<ParameterRule> parameter_rules = {}, bool averaged = false, int threads = 1)
      : layout(arena::layouts(entries)[0]), rules(std::move(parameter_rules)) {
    at::set_num_threads(threads);
    parameters = arena::allocate(layout, torch::kCPU);
    gradient = torch::zeros_like(parameters);
    for (const arena::Seat& seat : layout.seats)
      arena::view(parameters, seat).copy_(entries[seat.entry].tensor);
    for (int part = 0; part < parts; ++part) {
      const arena::Slice range = arena::slice_of(layout, part, parts);
      updates.emplace_back(layout, range, parameters.narrow(0, range.begin, range.size()),
                           gradient.narrow(0, range.begin, range.size()), optimizer, rules,
                           averaged);
    }
  }

  /// The gradient that belongs to step `number` and to nothing else; gaps stay zero.
  void draw_gradient(std::int64_t number) {
    auto random =
        at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(100 + number));
    for (const arena::Seat& seat : layout.seats)
      arena::view(gradient, seat).copy_(torch::randn({seat.numel}, random));
  }

  void apply(const Optimizer& optimizer, const Moment& moment) {
    for (SliceUpdate& update : updates) update.apply(optimizer, moment);
  }

  torch::Tensor average() const {
    std::vector<torch::Tensor> parts;
    for (const SliceUpdate& update : updates) parts.push_back(update.average());
    return torch::cat(parts);
  }

  torch::Tensor slots() const {
    std::vector<torch::Tensor> parts;
    for (std::size_t slot = 0; slot < updates[0].slots().size(); ++slot)
      for (const SliceUpdate& update : updates) parts.push_back(update.slots()[slot].value);
    return parts.empty() ? torch::empty({0}) : torch::cat(parts);
  }

  arena::Layout layout;
  std::vector<ParameterRule> rules;
  torch::Tensor parameters, gradient;
  std::vector<SliceUpdate> updates;
};

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

using MakePeer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

template <class Peer, class Options>
MakePeer peer(const Options& options) {
  return [options](std::vector<torch::Tensor> parameters) {
    return std::make_unique<Peer>(std::move(parameters), options);
  };
}

/// The largest difference after 50 steps, relative to the parameter or to 1 if that is larger.
double distance_after_50_steps(const Optimizer& optimizer, const MakePeer& make,
                               torch::Dtype dtype) {
  const auto entries = awkward_entries(dtype);
  Arena ours(entries, optimizer);
  std::vector<torch::Tensor> theirs;
  for (const arena::Entry& entry : entries)
    theirs.push_back(entry.tensor.clone().set_requires_grad(true));
  const auto other = make(theirs);
  for (std::int64_t step = 0; step < 50; ++step) {
    ours.draw_gradient(step);
    for (const arena::Seat& seat : ours.layout.seats)
      theirs[seat.entry].mutable_grad() = arena::view(ours.gradient, seat).clone();
    other->step();
    ours.apply(optimizer, {.updates = step});
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
  EXPECT_LT(distance_after_50_steps(optimizer, make, torch::kFloat32), 1e-6);
  EXPECT_LT(distance_after_50_steps(optimizer, make, torch::kFloat64), 1e-14);
}

TEST(SliceUpdate, SgdEqualsTorchOptim) {
  using Peer = torch::optim::SGD;
  using Options = torch::optim::SGDOptions;
  expect_parity(Sgd{.lr = 0.01}, peer<Peer>(Options(0.01)));
  expect_parity(Sgd{.lr = 0.01, .momentum = 0.9}, peer<Peer>(Options(0.01).momentum(0.9)));
  expect_parity(Sgd{.lr = 0.01, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1},
                peer<Peer>(Options(0.01).momentum(0.9).nesterov(true).weight_decay(0.1)));
  expect_parity(Sgd{.lr = 0.01, .weight_decay = 0.1}, peer<Peer>(Options(0.01).weight_decay(0.1)));
}

TEST(SliceUpdate, AdamEqualsTorchOptim) {
  using Options = torch::optim::AdamOptions;
  expect_parity(Adam{}, peer<torch::optim::Adam>(Options()));
  expect_parity(Adam{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-3, .weight_decay = 0.1},
                peer<torch::optim::Adam>(
                    Options(0.01).betas(std::make_tuple(0.8, 0.99)).eps(1e-3).weight_decay(0.1)));
}

TEST(SliceUpdate, AdamWEqualsTorchOptim) {
  using Options = torch::optim::AdamWOptions;
  expect_parity(AdamW{}, peer<torch::optim::AdamW>(Options()));
  expect_parity(AdamW{.lr = 0.01, .weight_decay = 0.3},
                peer<torch::optim::AdamW>(Options(0.01).weight_decay(0.3)));
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

const std::vector<ParameterRule> kRules = {
    {.pattern = "*.bias", .lr_factor = 2, .weight_decay = 0.0},
    {.pattern = "b.*", .lr_factor = 0.5},
    {.pattern = "d.*", .weight_decay = 0.2}};

void run(Arena& arena, const Optimizer& optimizer, std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    arena.draw_gradient(step);
    arena.apply(optimizer,
                {.updates = step, .clip_factor = step % 2 ? 0.7 : 1, .average_keep = 0.9});
  }
}

const std::vector<std::pair<const char*, Optimizer>> kOptimizers = {
    {"Sgd", Sgd{.weight_decay = 0.1}},
    {"Sgd with momentum", Sgd{.momentum = 0.9, .nesterov = true, .weight_decay = 0.1}},
    {"Adam", Adam{.weight_decay = 0.1}},
    {"AdamW", AdamW{}},
    {"RmsProp", RmsProp{.weight_decay = 0.1}},
    {"RmsProp with momentum", RmsProp{.momentum = 0.9, .weight_decay = 0.1}},
    {"centered RmsProp", RmsProp{.momentum = 0.9, .centered = true, .weight_decay = 0.1}},
    {"TensorFlow's RmsProp", tensorflow_rms_prop(0.01, 0.9, 0.9)},
    {"Adagrad", Adagrad{.lr_decay = 0.1, .initial_accumulator = 0.1, .weight_decay = 0.1}}};

void expect_same_bits_however_cut(torch::Dtype dtype, const std::vector<ParameterRule>& rules,
                                  int threads) {
  const auto entries = awkward_entries(dtype);
  for (const auto& [name, optimizer] : kOptimizers) {
    Arena whole(entries, optimizer, 1, rules, true, threads);
    run(whole, optimizer, 3);
    for (const int parts : {2, 3, 5}) {
      Arena cut(entries, optimizer, parts, rules, true, threads);
      run(cut, optimizer, 3);
      EXPECT_TRUE(same_bits(cut.parameters, whole.parameters)) << name << ", " << parts << " parts";
      EXPECT_TRUE(same_bits(cut.slots(), whole.slots())) << name << ", " << parts << " parts";
      EXPECT_TRUE(same_bits(cut.average(), whole.average())) << name << ", " << parts << " parts";
    }
  }
}

TEST(SliceUpdate, SlicesCutInAnyWayGiveTheSameBits) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kHalf})
    expect_same_bits_however_cut(dtype, {}, 1);
}

TEST(SliceUpdate, SlicesCutInAnyWayGiveTheSameBitsWithRules) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kHalf})
    expect_same_bits_however_cut(dtype, kRules, 1);
}

TEST(SliceUpdate, SlicesCutInAnyWayGiveTheSameBitsWithThreads) {
  expect_same_bits_however_cut(torch::kFloat32, kRules, 3);
}

TEST(SliceUpdate, RulesHoldForTheirParametersOnly) {
  const auto entries = awkward_entries(torch::kFloat32);
  Arena plain(entries, Sgd{.lr = 0.5}),
      ruled(entries, Sgd{.lr = 0.5}, 2,
            {{.pattern = "a.weight", .lr_factor = 0}, {.pattern = "*.bias", .lr_factor = 2}});
  plain.draw_gradient(0);
  ruled.draw_gradient(0);
  plain.apply(Sgd{.lr = 0.5}, {});
  ruled.apply(Sgd{.lr = 0.5}, {});
  for (const arena::Seat& seat : plain.layout.seats) {
    const torch::Tensor before = entries[seat.entry].tensor,
                        found = arena::view(ruled.parameters, seat);
    torch::Tensor expected = arena::view(plain.parameters, seat);
    if (seat.name == "a.weight") expected = before;
    if (seat.name.ends_with(".bias")) expected = before - arena::view(plain.gradient, seat);
    EXPECT_TRUE(torch::equal(found, expected)) << seat.name;
  }
}

TEST(SliceUpdate, TheClipFactorMultipliesTheGradient) {
  const auto entries = awkward_entries(torch::kFloat32);
  for (const auto& [name, optimizer] : kOptimizers) {
    Arena clipped(entries, optimizer), scaled(entries, optimizer);
    clipped.draw_gradient(0);
    scaled.draw_gradient(0);
    scaled.gradient.mul_(0.3);
    clipped.apply(optimizer, {.clip_factor = 0.3});
    scaled.apply(optimizer, {});
    EXPECT_TRUE(same_bits(clipped.parameters, scaled.parameters)) << name;
  }
}

TEST(SliceUpdate, TheMovingAverageFollowsItsFormula) {
  Arena arena(awkward_entries(torch::kFloat64), Sgd{.lr = 0.1}, 2, {}, true);
  arena.parameters.mul_(2);  // before the first update the caller may write the weights
  torch::Tensor expected = arena.parameters.clone();
  for (std::int64_t step = 0; step < 10; ++step) {
    const double keep = 0.9 - 0.05 * static_cast<double>(step);
    arena.draw_gradient(step);
    arena.apply(Sgd{.lr = 0.1}, {.updates = step, .average_keep = keep});
    expected = keep * expected + (1 - keep) * arena.parameters;
  }
  // Ten roundings of 1.1e-16 of values up to about 10.
  EXPECT_LT((arena.average() - expected).abs().max().item<double>(), 1e-14);
  EXPECT_GT((arena.average() - arena.parameters).abs().max().item<double>(), 1e-3);
}

TEST(SliceUpdate, SwappingTheAverageTwiceIsExact) {
  Arena arena(awkward_entries(torch::kFloat32), Adam{}, 3, kRules, true);
  run(arena, Adam{}, 2);
  const torch::Tensor parameters = arena.parameters.clone(), average = arena.average();
  for (SliceUpdate& update : arena.updates) update.swap_average();
  EXPECT_TRUE(same_bits(arena.parameters, average));
  EXPECT_TRUE(same_bits(arena.average(), parameters));
  for (SliceUpdate& update : arena.updates) update.swap_average();
  EXPECT_TRUE(same_bits(arena.parameters, parameters));
  EXPECT_TRUE(same_bits(arena.average(), average));
}

TEST(SliceUpdate, SlotsAreNamedAndAsLongAsTheSlice) {
  const auto names = [](const Optimizer& optimizer) {
    Arena arena(awkward_entries(torch::kFloat32), optimizer, 3);
    std::string result;
    for (const optim::Slot& slot : arena.updates[1].slots()) {
      EXPECT_EQ(slot.value.numel(), arena.updates[1].range().size());
      result += slot.name + " ";
    }
    return result;
  };
  EXPECT_EQ(names(Sgd{}), "");
  EXPECT_EQ(names(Sgd{.momentum = 0.9}), "momentum ");
  EXPECT_EQ(names(Adam{}), "exp_avg exp_avg_sq ");
  EXPECT_EQ(names(RmsProp{}), "mean_square ");
  EXPECT_EQ(names(RmsProp{.momentum = 0.9, .centered = true}),
            "mean_square mean_gradient momentum ");
  EXPECT_EQ(names(Adagrad{}), "sum ");
}

}  // namespace
