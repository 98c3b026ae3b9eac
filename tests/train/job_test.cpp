#include <gtest/gtest.h>
#include <lockstep/async.h>
#include <lockstep/input.h>
#include <lockstep/job.h>
#include <lockstep/pipeline.h>
#include <lockstep/verify.h>

#include "input/shares.h"
#include "models.h"
#include "train/small_job.h"

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

using lockstep::testing::Mlp;
using lockstep::testing::PointBatch;
using lockstep::testing::Points;

static_assert(TakesPortions<Mirrored<Mlp>, PointBatch>);
static_assert(!TakesPortions<Mirrored<Mlp>, std::vector<torch::Tensor>>);
static_assert(!TakesPortions<Async<Mlp>, PointBatch>);  // on one machine: whole batches
static_assert(!TakesPortions<Pipeline<Mlp>, PointBatch>);

/// One process of several, without the others: computes its shards alone, and applies nothing.
struct Alone : Mirrored<Mlp> {
  using Mirrored::Mirrored;

  struct Staged {
    PointBatch batch;
    Portion portion;
  };
  Staged stage(PointBatch batch, const Portion& portion) {
    ++staged;
    return {std::move(batch), portion};
  }
  Staged stage(PointBatch batch) { return stage(std::move(batch), {}); }

  template <class LossFn>
  StepReport step(Staged& now, const LossFn& loss, const StepOptions&) {
    const int shards = method().shards;
    lockstep::detail::ShardsOf<PointBatch> parts(now.batch, shards, now.portion);
    StepReport report;
    for (int shard = share.first; shard < share.end; ++shard) {
      const std::int64_t rows = parts.load(shard, torch::kCPU);
      *report.rows += rows;
      torch::manual_seed(shard);
      if (rows > 0) losses[shard].push_back(loss(model(), parts.part_at(shard)).sum.detach());
    }
    return report;
  }

  Share share{4, 0, 4};
  std::map<int, std::vector<torch::Tensor>> losses;  ///< by shard
  int staged = 0;
};

using AloneJob = StrategyJob<Alone, PointBatch>;

/// 26 points in batches of 12, the last of 2: fewer than shards.
std::unique_ptr<AloneJob> alone(const tests::Counted<Points>& points) {
  return std::make_unique<AloneJob>(
      std::make_unique<Alone>(MirroredOptions{.method = {.shards = 4, .seed = 5},
                                              .where = {.devices = cpu_devices(1)}}),
      input::prefetch(input::batch(input::shuffle(points, 3), 12), {.workers = 2, .epochs = 2}),
      [](Mlp& model, const PointBatch& shard) {
        // Without its batch norm, which needs two rows in every shard.
        const auto logits =
            model.two(torch::dropout(torch::relu(model.one(shard.data)), 0.3, true));
        const auto loss = torch::cross_entropy_loss(logits, shard.target, {}, at::Reduction::Sum);
        return Loss{loss, static_cast<double>(shard.data.size(0))};
      });
}

/// By shard; adds the rows that were computed.
std::map<int, std::vector<torch::Tensor>> losses_of(const Share& share, std::int64_t& rows) {
  const tests::Counted<Points> points(Points{26});
  const auto job = alone(points);
  job->strategy().share = share;
  job->share({4, 0, 0});
  points.taken();
  job->share(share);
  while (const auto report = job->step()) rows += *report->rows;
  std::int64_t made = 0;
  for (const int count : points.taken()) made += count;
  const Portion usual{share, 12}, last{share, 2};
  EXPECT_EQ(made, 4 * usual.range().size() + 2 * last.range().size());
  return job->strategy().losses;
}

TEST(StrategyJob, ShardsOfASharedInputHaveTheLossesOfTheWhole) {
  std::int64_t all = 0;
  const auto whole = losses_of({4, 0, 4}, all);
  EXPECT_EQ(all, 52);
  for (const auto& shares : {tests::shares_of(4, {2}), tests::shares_of(4, {1, 2})}) {
    std::int64_t rows = 0;
    for (const Share& share : shares)
      for (const auto& [shard, losses] : losses_of(share, rows))
        EXPECT_TRUE(tests::identical(losses, whole.at(shard))) << "shard " << shard;
    EXPECT_EQ(rows, all);
  }
}

TEST(StrategyJob, AShareThatChangesDropsWhatWasReadAhead) {
  const tests::Counted<Points> points(Points{26});
  const auto job = alone(points), other = alone(points);
  other->step();
  other->strategy().losses.clear();
  other->step();

  job->step();
  EXPECT_EQ(job->strategy().staged, 2);  // one ahead
  const Position before = job->position();
  const Share half{4, 2, 4};
  job->share(half);
  job->share(half);  // nothing new
  EXPECT_EQ(job->position(), before);
  job->strategy().share = half;
  job->strategy().losses.clear();
  job->strategy().staged = 0;
  EXPECT_EQ(job->step()->rows, 6);
  EXPECT_EQ(job->strategy().staged, 2);
  for (const int shard : {2, 3})
    EXPECT_TRUE(tests::identical(job->strategy().losses.at(shard).front(),
                                 other->strategy().losses.at(shard).front()));
  EXPECT_EQ(job->position(), other->position());
  EXPECT_THROW(job->share({4, 3, 5}), std::logic_error);
}

TEST(StrategyJob, AnInputOfWholeBatchesIsCutAsEver) {
  StrategyJob<Mirrored<models::Mlp>, models::Batch> job(
      std::make_unique<Mirrored<models::Mlp>>(
          MirroredOptions{.method = {.shards = 4, .optimizer = Sgd{.lr = 0.1}},
                          .where = {.devices = cpu_devices(2)}}),
      std::make_unique<Vectors>(), models::CrossEntropy{});
  job.share({4, 0, 2});  // another process has the others; here all are computed
  for (int step = 0; step < 3; ++step) job.step();
  EXPECT_EQ(first_difference(job.strategy().state(), trained(models::CrossEntropy{})), "");
}

}  // namespace job_test
