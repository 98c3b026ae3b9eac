// An exception in one tower ends the step for all at once, applies nothing and frees every thread.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include "collective/shared_memory.h"
#include "collective/thread_meeting.h"
#include "models.h"
#include "strategy/engine.h"

namespace failure_test {

using namespace lockstep;

struct Bang : std::runtime_error {
  Bang() : std::runtime_error("bang") {}
};

/// Passes gradients on, or throws: a failure inside backward().
struct FailInBackward : torch::autograd::Function<FailInBackward> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw Bang();
  }
};

/// Counts down the calls of one tower, over all functions, and throws at the last.
class FaultyCollective : public collective::SharedMemory {
 public:
  FaultyCollective(int towers, int shards, int tower, int calls)
      : SharedMemory(std::make_unique<collective::ThreadMeeting>(towers, DeviceKind::cpu), shards),
        tower_(tower),
        calls_(calls) {}

  std::vector<char> reduce(int tower, std::span<const collective::ShardSum> mine, double divisor,
                           std::span<collective::GradientSlice> slices) override {
    count(tower);
    return SharedMemory::reduce(tower, mine, divisor, slices);
  }
  void gather(int tower) override {
    count(tower);
    SharedMemory::gather(tower);
  }
  double sum(int tower, std::span<const collective::SumTerms> lists) override {
    count(tower);
    return SharedMemory::sum(tower, lists);
  }

 private:
  void count(int tower) {
    if (tower == tower_ && calls_-- == 0) throw Bang();
  }
  const int tower_;
  int calls_;
};

MirroredOptions options(int devices, int shards) {
  return {.method = {.shards = shards,
                     .optimizer = Adam{},
                     .clip = {.global_norm = 1},
                     .moving_average = MovingAverage{.decay = 0.9}},
          .where = {.devices = cpu_devices(devices)}};
}

State without_gradients(State state) {
  state.gradients.clear();
  return state;
}

enum class Where { forward, backward };

/// Fails on the shard whose first row starts with 99.
struct FailingLoss {
  Where where;
  torch::Tensor operator()(models::ConvNet& model, const models::Batch& shard) const {
    const bool here = shard.first.flatten()[0].item<float>() == 99;
    if (here && where == Where::forward) throw Bang();
    auto output = model.forward(shard.first);
    if (here) output = FailInBackward::apply(output);
    return torch::nn::functional::cross_entropy(output, shard.second);
  }
};

TEST(Failure, InForwardOrBackwardNamesDeviceStepAndShardAndAppliesNothing) {
  for (const Where where : {Where::forward, Where::backward})
    for (const int devices : {1, 2, 4})
      for (int shard = 0; shard < 4; ++shard) {
        Mirrored<models::ConvNet> towers(options(devices, 4));
        const FailingLoss loss{where};
        towers.step(models::images(0, 8), loss);
        const State before = towers.state();
        models::Batch bad = models::images(1, 8);
        bad.first[2 * shard] = 99;
        try {
          towers.step(bad, loss);
          ADD_FAILURE() << "no error";
        } catch (const TowerError& error) {
          EXPECT_EQ(error.device, "cpu:" + std::to_string(shard * devices / 4));
          EXPECT_EQ(error.step, 1);
          EXPECT_EQ(error.shard, shard);
          EXPECT_EQ(error.stage, where == Where::forward ? "forward" : "backward");
          EXPECT_NE(std::string(error.what()).find("bang"), std::string::npos) << error.what();
          EXPECT_THROW(std::rethrow_exception(error.cause), Bang);
        }
        EXPECT_EQ(first_difference(without_gradients(before), without_gradients(towers.state())),
                  "");
      }
}

TEST(Failure, TheNextStepIsWhatItWouldHaveBeenWithoutIt) {
  Mirrored<models::ConvNet> smooth(options(3, 4)), bumpy(options(3, 4));
  const FailingLoss loss{Where::backward};
  for (int step = 0; step < 4; ++step) {
    smooth.step(models::images(step, 8), loss);
    models::Batch bad = models::images(step, 8);
    bad.first[4] = 99;
    EXPECT_THROW(bumpy.step(bad, loss), TowerError);
    bumpy.step(models::images(step, 8), loss);
  }
  EXPECT_EQ(first_difference(smooth.state(), bumpy.state()), "");
}

TEST(Failure, OfSeveralTowersAtOnceReportsOne) {
  Mirrored<models::ConvNet> towers(options(4, 4));
  models::Batch bad = models::images(0, 8);
  bad.first.fill_(99);
  EXPECT_THROW(towers.step(bad, FailingLoss{Where::forward}), TowerError);
  EXPECT_TRUE(towers.step(models::images(0, 8), FailingLoss{Where::forward}).applied);
}

/// A step of an engine whose collective fails at call `calls` of `tower`.
struct Bench {
  Bench(int towers, int tower, int calls)
      : models(static_cast<std::size_t>(towers)),
        engine(
            options(towers, 4),
            [this](lockstep::detail::Place place) {
              return models[place.index()] = std::make_shared<models::Mlp>();
            },
            lockstep::detail::Making::at_once,
            [=](int n, int shards) {
              return std::make_unique<FaultyCollective>(n, shards, tower, calls);
            }) {}

  void step() {
    const models::Batch batch = models::vectors(0);
    lockstep::detail::ShardsOf<models::Batch> shards(batch, 4);
    engine.step({shards, [&](lockstep::detail::Place place, int shard) {
                   const models::Batch& own = shards.part_at(shard);
                   return lockstep::detail::as_loss(
                       models::CrossEntropy{}(*models[place.index()], own), batch::rows(own));
                 }});
  }

  std::vector<std::shared_ptr<models::Mlp>> models;
  strategy::Engine engine;
};

TEST(Failure, AtEveryCallOfTheCollectiveBeforeTheUpdateAppliesNothing) {
  // Calls of one tower in a step: weights, losses, reduce, squares; then update and gather.
  for (const int towers : {1, 2, 3})
    for (int tower = 0; tower < towers; ++tower)
      for (int calls = 0; calls < 4; ++calls) {
        Bench bench(towers, tower, calls);
        const State before = bench.engine.state();
        try {
          bench.step();
          ADD_FAILURE() << "no error";
        } catch (const TowerError& error) {
          EXPECT_EQ(error.stage, "reduce");
          EXPECT_EQ(error.shard, -1);
          EXPECT_EQ(error.device, "cpu:" + std::to_string(tower));
        }
        EXPECT_EQ(
            first_difference(without_gradients(before), without_gradients(bench.engine.state())),
            "");
        bench.step();
        EXPECT_EQ(bench.engine.steps(), 1);
      }
}

TEST(Failure, WhileApplyingIsSaidAndNoFurtherStepPretends) {
  Bench bench(2, 1, 4);  // gather: the slices are updated
  EXPECT_THROW(bench.step(), TowerError);
  EXPECT_THROW(bench.step(), std::logic_error);
  EXPECT_THROW(bench.engine.state(), std::logic_error);
  EXPECT_THROW(bench.engine.run_tasks([] { return nullptr; }), std::logic_error);
}

TEST(Failure, WhileApplyingIsMendedByLoadingAState) {
  Bench bench(2, 1, 4);
  const State before = bench.engine.state();
  EXPECT_THROW(bench.step(), TowerError);
  bench.engine.load(before);
  EXPECT_EQ(first_difference(without_gradients(before), without_gradients(bench.engine.state())),
            "");
  Bench whole(2, 1, -1);  // never fails
  for (Bench* each : {&bench, &whole}) each->step();
  EXPECT_EQ(first_difference(whole.engine.state(), bench.engine.state()), "");
}

struct Uncut {
  Uncut shard(int, int) const { throw std::runtime_error("cannot be cut"); }
};

TEST(Failure, ABatchThatCannotBeSplitLeavesTheTowersUsable) {
  Mirrored<models::Mlp> towers(options(2, 2));
  const auto no_loss = [](models::Mlp&, const Uncut&) { return Loss{}; };
  EXPECT_THROW(towers.step(Uncut{}, no_loss), TowerError);
  const models::Batch scalar{torch::tensor(1.0), torch::tensor(1)};
  EXPECT_THROW(towers.step(scalar, models::CrossEntropy{}), ConfigError);
  EXPECT_TRUE(towers.step(models::vectors(0), models::CrossEntropy{}).applied);
}

}  // namespace failure_test
