// Updates of slices, cut in every way.

#include <gtest/gtest.h>

#include <cstring>

#include "optim/arena_of_slices.h"

namespace slice_update_test {

using namespace lockstep;
using optim::Arena;
using optim::awkward_entries;
using optim::Moment;
using optim::SliceUpdate;

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
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
  for (SliceUpdate& update : arena.updates) update.prepare_swap();
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

}  // namespace slice_update_test
