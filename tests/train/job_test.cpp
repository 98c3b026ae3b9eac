#include <gtest/gtest.h>
#include <lockstep/job.h>
#include <lockstep/verify.h>

#include "models.h"

namespace job_test {

using namespace lockstep;

/// Batch 0, 1, 2, ... without end.
struct Vectors : Stream<models::Batch> {
  std::optional<models::Batch> next() override { return models::vectors(at++); }
  Position position() const override { return {0, at}; }
  void seek(const Position& position) override { at = static_cast<int>(position[1]); }
  int at = 0;
};

template <class LossFn>
State trained(LossFn loss) {
  StrategyJob<Mirrored<models::Mlp>, models::Batch> job(
      std::make_unique<Mirrored<models::Mlp>>(
          MirroredOptions{.method = {.shards = 4, .optimizer = Sgd{.lr = 0.1}},
                          .where = {.devices = cpu_devices(2)}}),
      std::make_unique<Vectors>(), std::move(loss));
  for (int step = 0; step < 3; ++step) job.step();
  return job.strategy().state();
}

TEST(StrategyJob, TakesWhateverLossAStepTakes) {
  const State mean = trained(models::CrossEntropy{});
  const State sum = trained([](models::Mlp& model, const models::Batch& shard) {
    const auto rows = static_cast<double>(shard.first.size(0));
    return Loss{models::CrossEntropy{}(model, shard) * rows, rows};
  });
  EXPECT_EQ(first_difference(mean, sum), "");
  const std::function<Loss(models::Mlp&, const models::Batch&)> function =
      [](models::Mlp& model, const models::Batch& shard) {
        const auto rows = static_cast<double>(shard.first.size(0));
        return Loss{models::CrossEntropy{}(model, shard) * rows, rows};
      };
  EXPECT_EQ(first_difference(mean, trained(function)), "");
}

}  // namespace job_test
