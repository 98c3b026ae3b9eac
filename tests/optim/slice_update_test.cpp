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
    {"damped Sgd", Sgd{.momentum = 0.9, .weight_decay = 0.1, .dampening = 0.3}},
    {"Adam", Adam{.weight_decay = 0.1}},
    {"Adam with amsgrad", Adam{.weight_decay = 0.1, .amsgrad = true}},
    {"AdamW", AdamW{}},
    {"AdamW with amsgrad", AdamW{.amsgrad = true}},
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
    const Arena arena(awkward_entries(torch::kFloat32), optimizer, 3);
    const auto specs = optim::slots_of(optimizer);
    EXPECT_EQ(specs.size(), arena.updates[1].slots().size());
    for (const torch::Tensor& slot : arena.updates[1].slots())
      EXPECT_EQ(slot.numel(), arena.updates[1].range().size());
    return optim::names_of(specs);
  };
  EXPECT_EQ(names(Sgd{}), "none");
  EXPECT_EQ(names(Sgd{.momentum = 0.9}), "momentum");
  EXPECT_EQ(names(Adam{}), "exp_avg, exp_avg_sq");
  EXPECT_EQ(names(AdamW{.amsgrad = true}), "exp_avg, exp_avg_sq, max_exp_avg_sq");
  EXPECT_EQ(names(RmsProp{}), "mean_square");
  EXPECT_EQ(names(RmsProp{.momentum = 0.9, .centered = true}),
            "mean_square, mean_gradient, momentum");
  EXPECT_EQ(names(Adagrad{}), "sum");
}

/// One parameter of eight has a gradient in every third step, one never, and some are not selected.
struct Gaps {
  explicit Gaps(const Arena& arena) : numbers(arena.layout.seats.size(), 0) {}

  void apply(Arena& arena, const Optimizer& optimizer, std::int64_t step) {
    std::vector<char> reached(numbers.size(), 1), selected(numbers.size(), 1);
    reached[2] = step % 3 == 0;
    reached[5] = 0;
    selected[0] = reached[0] = step % 2 == 1;
    arena.draw_gradient(step);
    arena.apply(optimizer,
                {.updates = step, .average_keep = 0.9, .numbers = numbers, .selected = selected},
                reached);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += reached[i];
  }

  std::vector<std::int64_t> numbers;
};

const std::vector<Group> kGroups = {{"a.*", Adam{.amsgrad = true}},
                                    {"*.bias", RmsProp{.initial_mean_square = 1}},
                                    {"c.*", Sgd{.momentum = 0.9}}};

TEST(SliceUpdate, GroupsAndGapsGiveTheSameBitsHoweverCut) {
  const auto entries = awkward_entries(torch::kFloat32);
  for (const auto& [name, optimizer] : kOptimizers)
    for (const auto& groups : {std::vector<Group>{}, kGroups}) {
      const Method method{
          .optimizer = optimizer, .groups = groups, .moving_average = MovingAverage{}};
      Arena whole(entries, method, 1, 1);
      Gaps gaps(whole);
      for (int step = 0; step < 5; ++step) gaps.apply(whole, optimizer, step);
      for (const int parts : {2, 3, 5}) {
        Arena cut(entries, method, parts, 1);
        Gaps own(cut);
        for (int step = 0; step < 5; ++step) own.apply(cut, optimizer, step);
        EXPECT_TRUE(same_bits(cut.parameters, whole.parameters)) << name << parts;
        EXPECT_TRUE(same_bits(cut.slots(), whole.slots())) << name << parts;
        EXPECT_TRUE(same_bits(cut.average(), whole.average())) << name << parts;
      }
    }
}

TEST(SliceUpdate, AGroupDoesWhatItsOptimizerDoesAlone) {
  const auto entries = awkward_entries(torch::kFloat32);
  Arena grouped(entries, Method{.optimizer = Adagrad{}, .groups = kGroups}, 2, 1);
  run(grouped, Adagrad{}, 3);
  for (const arena::Seat& seat : grouped.layout.seats) {
    const std::size_t number = optim::terms_for(seat.name, grouped.method).optimizer;
    const Optimizer& own = optim::optimizer_of(grouped.method, number);
    Arena alone(entries, own);
    run(alone, own, 3);
    EXPECT_TRUE(
        torch::equal(arena::view(grouped.parameters, seat), arena::view(alone.parameters, seat)))
        << seat.name;
  }
}

TEST(SliceUpdate, WhatIsNotSelectedDoesNotMoveNorDoesItsAverage) {
  const auto entries = awkward_entries(torch::kFloat32);
  for (const auto& [name, optimizer] : kOptimizers) {
    Arena arena(entries, optimizer, 3, {}, true);
    run(arena, optimizer, 2);
    const torch::Tensor parameters = arena.parameters.clone(), average = arena.average(),
                        slots = arena.slots();
    const std::vector<char> none(entries.size(), 0);
    arena.draw_gradient(7);
    arena.apply(optimizer, {.updates = 2, .average_keep = 0.9, .selected = none}, none);
    EXPECT_TRUE(same_bits(arena.parameters, parameters)) << name;
    EXPECT_TRUE(same_bits(arena.average(), average)) << name;
    EXPECT_TRUE(same_bits(arena.slots(), slots)) << name;
    arena.apply(optimizer, {.updates = 2, .average_keep = 0.9}, none);  // selected, not reached
    EXPECT_TRUE(same_bits(arena.parameters, parameters)) << name;
    EXPECT_FALSE(same_bits(arena.average(), average)) << name;
  }
}

TEST(SliceUpdate, SlotsThatAreResetBeginAnew) {
  const auto entries = awkward_entries(torch::kFloat32);
  const Optimizer optimizer = RmsProp{.momentum = 0.9, .initial_mean_square = 0.5};
  Arena arena(entries, optimizer, 3), fresh(entries, optimizer, 3);
  run(arena, optimizer, 2);
  const torch::Tensor before = arena.slots();
  std::vector<char> chosen(entries.size(), 0);
  for (SliceUpdate& update : arena.updates) update.reset(arena.method, chosen);
  EXPECT_TRUE(same_bits(arena.slots(), before));
  chosen[2] = 1;
  for (SliceUpdate& update : arena.updates) update.reset(arena.method, chosen);
  const std::int64_t size = arena.layout.size;
  for (const arena::Seat& seat : arena.layout.seats)
    for (const std::int64_t slot : {0, 1}) {
      const auto of = [&](const torch::Tensor& all) {
        return all.narrow(0, slot * size + seat.offset, seat.numel);
      };
      EXPECT_TRUE(torch::equal(of(arena.slots()), of(seat.entry == 2 ? fresh.slots() : before)))
          << seat.name << slot;
    }
}

}  // namespace slice_update_test
