// Batches that are staged before their step.

#include <mutex>
#include <thread>

#include "on_sim.h"

namespace stage_test {

using namespace on_sim;

/// Cannot be cut at all, or cannot leave the CPU.
struct Stubborn {
  torch::Tensor data, target;
  bool cuts = true;
  Stubborn shard(int i, int n) const {
    if (!cuts) throw ConfigError("cannot be cut");
    return {batch::part(data, i, n), batch::part(target, i, n)};
  }
  std::int64_t rows() const { return data.size(0); }
};

const auto kLoss = [](models::Mlp& model, const Stubborn& shard) {
  return models::CrossEntropy{}(model, {shard.data, shard.target});
};

Stubborn stubborn(int step, bool cuts = true) {
  const auto [data, target] = models::vectors(step);
  return {data, target, cuts};
}

template <class Towers>
std::string refusal(Towers& towers, const Stubborn& batch) {
  try {
    towers.stage(batch);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Stage, ThrowsWhatTheBatchThrowsAndTheTowersGoOn) {
  Mirrored<models::Mlp> towers(options(cpu_devices(3))), others(options(cpu_devices(3)));
  EXPECT_EQ(refusal(towers, stubborn(0, false)), "cannot be cut");
  EXPECT_EQ(towers.steps(), 0);
  towers.step(towers.stage(stubborn(0)), kLoss);
  others.step(stubborn(0), kLoss);
  EXPECT_EQ(first_difference(others.state(), towers.state()), "");
}

TEST(Stage, ThrowsForABatchThatCannotGetToTheDevice) {
  sim::configure({.devices = 2});
  Mirrored<models::Mlp> towers(options(sim_devices(2)));
  EXPECT_NE(refusal(towers, stubborn(0)).find("to(torch::Device)"), std::string::npos);
}

/// Counts how often it is cut, and by whom.
struct Counted {
  torch::Tensor data, target;
  std::vector<std::thread::id>* cutters;
  Counted shard(int i, int n) const {
    static std::mutex mutex;
    const std::scoped_lock lock(mutex);
    cutters->push_back(std::this_thread::get_id());
    return {batch::part(data, i, n), batch::part(target, i, n), cutters};
  }
  std::int64_t rows() const { return data.size(0); }
};

TEST(Stage, OnTheCpuTheCallersThreadCutsEachShardOnce) {
  Mirrored<models::Mlp> towers(options(cpu_devices(3)));
  std::vector<std::thread::id> cutters;
  const auto [data, target] = models::vectors(0);
  auto staged = towers.stage(Counted{data, target, &cutters});
  const std::vector<std::thread::id> expected(static_cast<std::size_t>(towers.method().shards),
                                              std::this_thread::get_id());
  EXPECT_EQ(cutters, expected);
  towers.step(std::move(staged), [](models::Mlp& model, const Counted& shard) {
    return models::CrossEntropy{}(model, {shard.data, shard.target});
  });
  EXPECT_EQ(cutters, expected);
}

/// Stages a batch while sim:1 fails, and steps on it.
void expect_replayed(sim::Fault::Kind kind, std::size_t towers_left) {
  sim::configure({.devices = 3});
  const Trained expected = train<models::Mlp>(
      options(sim_devices(3)), [](int step) { return models::vectors(step); }, 2);
  sim::configure({.devices = 3});
  MirroredOptions how = options(sim_devices(3));
  how.where.on_device_failure = OnDeviceFailure::replay;
  Mirrored<models::Mlp> towers(how);
  towers.step(models::vectors(0), models::CrossEntropy{});
  const sim::Usage used = sim::usage(1);
  const bool lost = kind == sim::Fault::Kind::lost;
  sim::inject({.kind = kind, .device = 1, .at = lost ? used.operators : used.allocations});
  auto staged = towers.stage(models::vectors(1));
  const StepReport report = towers.step(std::move(staged), models::CrossEntropy{});
  EXPECT_EQ(report.towers.size(), towers_left);
  EXPECT_EQ(first_difference(expected.state, towers.state()), "");
}

TEST(Stage, LeavesADeviceThatIsLostToTheStep) { expect_replayed(sim::Fault::Kind::lost, 2); }

TEST(Stage, LeavesADeviceThatIsOutOfMemoryToTheStep) {
  expect_replayed(sim::Fault::Kind::out_of_memory, 3);
}

struct Masked {
  torch::Tensor data, target, mask;
  auto tensors() { return std::tie(mask, data, target); }
};

TEST(Stage, AnUndefinedTensorStaysUndefinedOnTheDevice) {
  sim::configure({.devices = 2});
  Mirrored<models::Mlp> towers(options(sim_devices(2)));
  const auto [data, target] = models::vectors(0);
  const auto loss = [](models::Mlp& model, const Masked& shard) {
    EXPECT_FALSE(shard.mask.defined());
    return models::CrossEntropy{}(model, {shard.data, shard.target});
  };
  EXPECT_EQ(towers.step(towers.stage(Masked{data, target, {}}), loss).rows, 16);
}

}  // namespace stage_test
