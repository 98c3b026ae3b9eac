// A machine that is lost, at every call of a step: the others take the step again, to the same
// bits.

#include <atomic>

#include "models.h"
#include "on_machines.h"

namespace machines_replay_test {

using namespace on_machines;

constexpr int kSteps = 4, kMachines = 3;
constexpr std::int64_t kNever = 1 << 30;

/// A machine that vanishes at one of its calls to others.
class Mortal : public Machines {
 public:
  Mortal(std::shared_ptr<Machines> inner, std::int64_t at) : inner_(std::move(inner)), at_(at) {}

  std::int64_t calls() const { return calls_; }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name(int rank) const override { return inner_->name(rank); }
  std::int64_t generation() const override { return inner_->generation(); }
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    count();
    return inner_->all_gather(mine);
  }
  std::unique_ptr<Transfer> send(int to, std::uint32_t tag,
                                 std::span<const std::byte> bytes) override {
    count();
    return inner_->send(to, tag, bytes);
  }
  std::unique_ptr<Transfer> receive(int from, std::uint32_t tag,
                                    std::span<std::byte> bytes) override {
    count();
    return inner_->receive(from, tag, bytes);
  }
  void abort(const std::string& why) noexcept override { inner_->abort(why); }
  std::optional<Trouble> trouble() const override { return inner_->trouble(); }
  void regroup() override { inner_->regroup(); }

 private:
  void count() {
    if (calls_++ == at_) machines::vanish(*inner_);
  }

  const std::shared_ptr<Machines> inner_;
  const std::int64_t at_;
  std::atomic<std::int64_t> calls_ = 0;
};

MirroredOptions replaying(std::shared_ptr<Machines> machine, int devices = 2) {
  MirroredOptions how = options(devices, 6, std::move(machine));
  how.where.on_device_failure = OnDeviceFailure::replay;
  return how;
}

using Towers = Mirrored<models::ConvNet>;

State without_gradients(State state) {
  state.gradients.clear();
  return state;
}

State of_one_device() {
  Towers towers(options(1, 6, nullptr));
  for (int step = 0; step < kSteps; ++step)
    towers.step(models::images(step), models::CrossEntropy{});
  return without_gradients(towers.state());
}

/// Trains on this machine to the end. Returns how often a step was taken again.
int train(Towers& towers) {
  int again = 0;
  while (towers.steps() < kSteps) try {
      towers.step(models::images(static_cast<int>(towers.steps())), models::CrossEntropy{});
    } catch (const std::exception&) {
      const auto state = towers.rescue(std::current_exception());
      if (!state) throw;
      towers.load(*state);
      ++again;
    }
  return again;
}

/// Calls of the second machine until its second step is over, and in its third.
std::pair<std::int64_t, std::int64_t> calls_of_third_step() {
  std::pair<std::int64_t, std::int64_t> calls;
  run(machines::threads(kMachines), [&](const auto& machine) {
    const auto own = std::make_shared<Mortal>(machine, kNever);
    Towers towers(replaying(own));
    for (int step = 0; step < 3; ++step) {
      towers.step(models::images(step), models::CrossEntropy{});
      if (own->rank() == 1) (step < 2 ? calls.first : calls.second) = own->calls();
    }
  });
  return calls;
}

TEST(MachinesReplay, ALossAtEveryCallOfAStepChangesNothing) {
  const State expected = of_one_device();
  const auto [begin, end] = calls_of_third_step();
  ASSERT_GT(end, begin + 5);
  for (std::int64_t at = begin; at < end; ++at) {
    SCOPED_TRACE("lost at call " + std::to_string(at - begin) + " of " +
                 std::to_string(end - begin));
    const auto thrown = run_all(machines::threads(kMachines), [&](const auto& machine) {
      const bool lost = machine->rank() == 1;
      const auto own = std::make_shared<Mortal>(machine, lost ? at : kNever);
      Towers towers(replaying(own));
      EXPECT_EQ(train(towers), 1);
      EXPECT_EQ(own->size(), kMachines - 1);
      EXPECT_EQ(first_difference(expected, without_gradients(towers.state())), "");
    });
    EXPECT_EQ(what(thrown[0]), "");
    EXPECT_NE(thrown[1], nullptr);
    EXPECT_EQ(what(thrown[2]), "");
  }
}

TEST(MachinesReplay, TheLastOneGoesOnAlone) {
  const State expected = of_one_device();
  const std::int64_t middle = calls_of_third_step().first + 3;
  const auto thrown = run_all(machines::threads(kMachines), [&](const auto& machine) {
    const int rank = machine->rank();
    // The third is lost when the others have gone on without the second.
    const auto own = std::make_shared<Mortal>(machine, rank == 1   ? middle
                                                       : rank == 2 ? middle + 20
                                                                   : kNever);
    Towers towers(replaying(own));
    EXPECT_EQ(train(towers), 2);
    EXPECT_EQ(own->size(), 1);
    EXPECT_EQ(first_difference(expected, without_gradients(towers.state())), "");
  });
  EXPECT_EQ(what(thrown[0]), "");
}

TEST(MachinesReplay, WhatTheCallerChangedBetweenStepsIsReplayed) {
  const auto change = [](Towers& towers) {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : towers.model().parameters()) parameter.mul_(0.5);
    towers.reset_slots("*");
    towers.set_trainable("*bias", false);
  };
  const auto steps = [](Towers& towers, int begin, int end) {
    for (int step = begin; step < end; ++step)
      towers.step(models::images(step), models::CrossEntropy{});
  };
  Towers alone(options(1, 6, nullptr));
  steps(alone, 0, 2);
  change(alone);
  steps(alone, 2, kSteps);
  const State expected = without_gradients(alone.state());
  const auto thrown = run_all(machines::threads(2), [&](const auto& machine) {
    Towers towers(replaying(machine));
    steps(towers, 0, 2);
    change(towers);
    const auto vanishing = [&](auto& model, const auto& shard) {
      if (machine->rank() == 1) machines::vanish(*machine);
      return models::CrossEntropy{}(model, shard);
    };
    try {
      towers.step(models::images(2), vanishing);
      ADD_FAILURE() << "no error";
    } catch (const TowerError&) {
      const auto state = towers.rescue(std::current_exception());
      ASSERT_TRUE(state);
      towers.load(*state);
    }
    EXPECT_EQ(train(towers), 0);
    EXPECT_EQ(first_difference(expected, without_gradients(towers.state())), "");
  });
  EXPECT_EQ(what(thrown[0]), "");
}

TEST(MachinesReplay, TwoNeighboursTakeTheirSlotsWithThem) {
  const auto thrown = run_all(machines::threads(kMachines), [&](const auto& machine) {
    Towers towers(replaying(machine));
    const auto vanishing = [&](auto& model, const auto& shard) {
      if (machine->rank() > 0) machines::vanish(*machine);
      return models::CrossEntropy{}(model, shard);
    };
    towers.step(models::images(0), models::CrossEntropy{});
    try {
      towers.step(models::images(1), vanishing);
    } catch (const TowerError&) {
      if (machine->rank() == 0) {
        while (machine->trouble()->lost.size() < 2) std::this_thread::yield();
        EXPECT_FALSE(towers.rescue(std::current_exception()).has_value());
      }
    }
  });
  EXPECT_EQ(what(thrown[0]), "");
}

TEST(MachinesReplay, AnErrorOfTheLossIsNotTakenAgain) {
  run(machines::threads(2), [&](const auto& machine) {
    Towers towers(replaying(machine));
    const auto failing = [&](auto& model, const auto& shard) {
      if (machine->rank() == 1) throw std::runtime_error("a bad row");
      return models::CrossEntropy{}(model, shard);
    };
    try {
      towers.step(models::images(0), failing);
      ADD_FAILURE() << "no error";
    } catch (const TowerError&) {
      EXPECT_FALSE(towers.rescue(std::current_exception()).has_value());
    }
    EXPECT_TRUE(towers.step(models::images(0), models::CrossEntropy{}).applied);
  });
}

}  // namespace machines_replay_test
