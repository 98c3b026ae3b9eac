// The loss contract: (sum, weight), divided once.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <cmath>

#include "models.h"

namespace loss_test {

using namespace lockstep;

MirroredOptions options(int devices, int shards) {
  return {.method = {.shards = shards, .optimizer = Sgd{.lr = 0.1}},
          .where = {.devices = cpu_devices(devices)}};
}

/// Cross entropy over the tokens whose target is not 0, as sum and count.
Loss masked(models::Tied& model, const models::Batch& shard) {
  const auto target = shard.second.flatten();
  const auto losses = torch::nn::functional::cross_entropy(
      model.forward(shard.first).flatten(0, 1), target,
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
  const auto mask = target != 0;
  return {(losses * mask).sum(), mask.sum().item<double>()};
}

/// Gradients of one step of `loss` on `batch`.
template <class Model, class LossFn>
std::vector<NamedTensor> gradients(int devices, int shards, const models::Batch& batch,
                                   const LossFn& loss) {
  Mirrored<Model> towers(options(devices, shards));
  towers.step(batch, loss);
  return towers.state().gradients;
}

template <class Model, class LossFn>
void expect_one_batch(int shards, const models::Batch& batch, const LossFn& loss) {
  const auto whole = gradients<Model>(1, 1, batch, loss);
  const auto parts = gradients<Model>(2, shards, batch, loss);
  for (std::size_t i = 0; i < whole.size(); ++i)
    // Only the order of float32 sums differs.
    EXPECT_TRUE(torch::allclose(whole[i].value, parts[i].value, 1e-4, 1e-7)) << whole[i].name;
}

TEST(Loss, UnevenShardsOfAMeanEqualOneBatch) {
  expect_one_batch<models::Mlp>(4, models::vectors(0, 7), models::CrossEntropy{});
}

TEST(Loss, EmptyShardsOfAMeanEqualOneBatch) {
  expect_one_batch<models::Mlp>(8, models::vectors(0, 3), models::CrossEntropy{});
}

TEST(Loss, MaskedTokensInUnevenNumbersEqualOneBatch) {
  models::Batch batch = models::sentences(0, 6);
  batch.second.index_put_({torch::indexing::Slice(0, 2), torch::indexing::Slice(1)}, 0);
  expect_one_batch<models::Tied>(3, batch, masked);
}

TEST(Loss, TheReportedLossIsThatOfTheWholeBatch) {
  const models::Batch batch = models::vectors(1, 13);
  Mirrored<models::Mlp> one(options(1, 1)), many(options(3, 5));
  const StepReport whole = one.step(batch, models::CrossEntropy{});
  const StepReport parts = many.step(batch, models::CrossEntropy{});
  EXPECT_NEAR(whole.loss, parts.loss, 1e-6);
  EXPECT_EQ(parts.weight, 13);
  EXPECT_EQ(parts.rows, 13);
  double sum = 0;
  for (const TowerReport& tower : parts.towers) sum += tower.loss * tower.weight;
  EXPECT_NEAR(sum / 13, parts.loss, 1e-9);
}

TEST(Loss, LossesOfTowersAverageToTheTotalByTheirWeights) {
  models::Batch batch = models::sentences(0, 6);
  batch.second.index_put_({torch::indexing::Slice(0, 2), torch::indexing::Slice(1)}, 0);
  Mirrored<models::Tied> towers(options(3, 3));
  const StepReport report = towers.step(batch, masked);
  double sum = 0, weight = 0;
  for (const TowerReport& tower : report.towers) {
    sum += tower.loss * tower.weight;
    weight += tower.weight;
  }
  EXPECT_EQ(weight, report.weight);
  EXPECT_GT(weight, *report.rows) << "tokens, not rows";
  EXPECT_NEAR(sum / weight, report.loss, 1e-6);
}

TEST(Loss, AStepWithoutWeightAppliesNothingAndIsCounted) {
  models::Batch batch = models::sentences(0, 4);
  batch.second.zero_();  // all masked
  Mirrored<models::Tied> towers(options(2, 2));
  const State before = towers.state();
  const StepReport report = towers.step(batch, masked);
  EXPECT_FALSE(report.applied);
  EXPECT_EQ(towers.skipped(), 1);
  EXPECT_EQ(towers.steps(), 1);
  EXPECT_EQ(first_difference(before, towers.state()), "");
  EXPECT_TRUE(towers.step(models::sentences(1, 4), masked).applied);
}

TEST(Loss, AnEmptyBatchAppliesNothing) {
  Mirrored<models::Mlp> towers(options(2, 4));
  EXPECT_FALSE(towers.step(models::vectors(0, 0), models::CrossEntropy{}).applied);
}

template <class LossFn>
std::string message_of(const LossFn& loss) {
  Mirrored<models::Mlp> towers(options(2, 2));
  try {
    towers.step(models::vectors(0), loss);
  } catch (const TowerError& error) {
    return error.what();
  }
  return "";
}

TEST(Loss, ThatIsNotAScalarIsRefused) {
  const auto message = message_of(
      [](models::Mlp& model, const models::Batch& shard) { return model.forward(shard.first); });
  EXPECT_NE(message.find("one element"), std::string::npos) << message;
}

TEST(Loss, ThatDependsOnNoParameterIsRefused) {
  const auto message = message_of([](models::Mlp& model, const models::Batch& shard) {
    return model.forward(shard.first).mean().detach();
  });
  EXPECT_NE(message.find("does not depend"), std::string::npos) << message;
}

TEST(Loss, WithANegativeWeightIsRefused) {
  const auto message = message_of([](models::Mlp& model, const models::Batch& shard) {
    return Loss{model.forward(shard.first).sum(), -1};
  });
  EXPECT_NE(message.find("weight"), std::string::npos) << message;
}

constexpr int kPoison = 77;  // a class that no row has

/// A batch in which one row makes the loss, or only its gradient, infinite.
models::Batch poisoned(int row) {
  models::Batch batch = models::vectors(0, 8);
  batch.second[row] = kPoison;
  return batch;
}

struct PoisonedLoss {
  bool in_loss = true;
  torch::Tensor operator()(models::Mlp& model, const models::Batch& shard) const {
    const auto mean = models::CrossEntropy{}(model, {shard.first, shard.second.clamp_max(4)});
    if (!(shard.second == kPoison).any().item<bool>()) return mean;
    // The square root has an innocent value at 0 and an infinite slope.
    return in_loss ? mean / 0 : mean + torch::sqrt(model.first->weight.sum() * 0);
  }
};

class NonFiniteTest : public testing::TestWithParam<bool> {};

TEST_P(NonFiniteTest, IsRefusedWithTowerShardAndStepAndNothingApplied) {
  const PoisonedLoss loss{GetParam()};
  // Rows 0..7 in 8 shards: a tower adds up several.
  for (const int devices : {1, 2, 3})
    for (const int row : {0, 5, 7}) {
      Mirrored<models::Mlp> towers(options(devices, 8));
      towers.step(models::vectors(9, 8), loss);
      const State before = towers.state();
      try {
        towers.step(poisoned(row), loss);
        ADD_FAILURE() << "no error";
      } catch (const TowerError& error) {
        EXPECT_EQ(error.shard, row);
        EXPECT_EQ(error.step, 1);
        const int tower = devices == 1 ? 0 : devices == 2 ? row / 4 : row < 2 ? 0 : row < 5 ? 1 : 2;
        EXPECT_EQ(error.device, "cpu:" + std::to_string(tower));
        EXPECT_THROW(std::rethrow_exception(error.cause), NonFiniteError);
      }
      EXPECT_EQ(towers.steps(), 1);
      State after = towers.state();
      after.gradients = before.gradients;  // what was computed is not what was applied
      EXPECT_EQ(first_difference(before, after), "");
      EXPECT_TRUE(towers.step(models::vectors(9, 8), loss).applied);
    }
}

TEST_P(NonFiniteTest, IsSkippedAndCountedOnRequest) {
  const PoisonedLoss loss{GetParam()};
  MirroredOptions how = options(3, 8);
  how.method.non_finite = NonFinite::skip;
  Mirrored<models::Mlp> towers(how);
  const State before = towers.state();
  const StepReport report = towers.step(poisoned(5), loss);
  EXPECT_FALSE(report.applied);
  EXPECT_FALSE(std::isfinite(GetParam() ? report.loss : report.gradient_norm));
  EXPECT_EQ(towers.skipped(), 1);
  State after = towers.state();
  after.gradients = before.gradients;
  EXPECT_EQ(first_difference(before, after), "");
  EXPECT_TRUE(towers.step(models::vectors(9, 8), loss).applied);
  EXPECT_EQ(towers.skipped(), 1);
}

INSTANTIATE_TEST_SUITE_P(LossAndGradient, NonFiniteTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Loss" : "Gradient"; });

/// The sum over rows with a weight that most of them lack: of rows whose first number is above 100.
Loss rare(models::Mlp& model, const models::Batch& shard) {
  const double weight = (shard.first.select(1, 0) > 100).sum().item<double>();
  return Loss{model.forward(shard.first).square().sum(), weight}.at_least_one();
}

TEST(Loss, OfABatchWithoutWeightIsDividedByOneWhereTheLossSaysSo) {
  const models::Batch batch = models::vectors(0, 3);
  Mirrored<models::Mlp> one(options(1, 8));
  const StepReport whole = one.step(batch, rare);
  EXPECT_TRUE(whole.applied);
  EXPECT_EQ(whole.weight, 1);
  EXPECT_GT(whole.loss, 0);
  for (const int devices : {2, 3, 8}) {  // some have empty shards only
    Mirrored<models::Mlp> many(options(devices, 8));
    const StepReport parts = many.step(batch, rare);
    EXPECT_EQ(parts.loss, whole.loss) << devices;
    EXPECT_EQ(many.compute(batch, rare).weight, 1);
    for (const TowerReport& tower : parts.towers) EXPECT_TRUE(std::isnan(tower.loss));
    for (std::size_t i = 0; i < one.state().parameters.size(); ++i)
      EXPECT_TRUE(torch::equal(one.state().parameters[i].value, many.state().parameters[i].value));
  }
  Mirrored<models::Mlp> without(options(2, 8));
  EXPECT_FALSE(without
                   .step(batch,
                         [](models::Mlp& model, const models::Batch& shard) {
                           return Loss{rare(model, shard).sum, 0};
                         })
                   .applied);
}

TEST(Loss, WithWeightIsDividedByItWhetherOrNotItIsAtLeastOne) {
  models::Batch batch = models::vectors(0, 6);
  batch.first.index_put_({torch::indexing::Slice(0, 2), 0}, 101);
  Mirrored<models::Mlp> towers(options(3, 3)), plain(options(3, 3));
  const StepReport report = towers.step(batch, rare);
  EXPECT_EQ(report.weight, 2);
  const StepReport same = plain.step(batch, [](models::Mlp& model, const models::Batch& shard) {
    Loss loss = rare(model, shard);
    return Loss{loss.sum, loss.weight};
  });
  EXPECT_EQ(report.loss, same.loss);
}

}  // namespace loss_test
