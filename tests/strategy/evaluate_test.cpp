#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "models.h"

namespace evaluate_test {

using namespace lockstep;

MirroredOptions options(int devices) {
  return {.method = {.shards = 4, .optimizer = Sgd{.lr = 0.1}},
          .where = {.devices = cpu_devices(devices)}};
}

std::vector<models::Batch> batches() {
  std::vector<models::Batch> result;
  for (int i = 0; i < 11; ++i) result.push_back(models::images(100 + i, 3 + i % 4));
  return result;
}

Metrics accuracy(models::ConvNet& model, const models::Batch& batch) {
  const auto output = model.forward(batch.first);
  const auto rows = static_cast<double>(batch.first.size(0));
  return {{"accuracy", {(output.argmax(1) == batch.second).sum().item<double>(), rows}},
          {"entropy", {models::CrossEntropy{}(model, batch).item<double>() * rows, rows}}};
}

TEST(Evaluate, CountsEverySampleOnce) {
  double rows = 0;
  for (const auto& batch : batches()) rows += static_cast<double>(batch.first.size(0));
  Mirrored<models::ConvNet> towers(options(3));
  EXPECT_EQ(towers.evaluate(batches(), accuracy)["accuracy"].weight, rows);
}

TEST(Evaluate, GivesTheSameBitsOnAnyNumberOfDevices) {
  const auto metrics_on = [](int devices) {
    Mirrored<models::ConvNet> towers(options(devices));
    for (int step = 0; step < 3; ++step) towers.step(models::images(step), models::CrossEntropy{});
    return towers.evaluate(batches(), accuracy);
  };
  const Metrics one = metrics_on(1);
  for (const int devices : {2, 3, 5}) {
    const Metrics many = metrics_on(devices);
    for (const auto& [name, mean] : one) {
      EXPECT_EQ(mean.sum, many.at(name).sum) << name;
      EXPECT_EQ(mean.weight, many.at(name).weight) << name;
    }
  }
}

TEST(Evaluate, RunsWithoutGradientsInEvaluationModeAndLeavesTheModesAsTheyWere) {
  Mirrored<models::ConvNet> towers(options(2));
  towers.model().norm->eval();  // a frozen batch norm
  const State before = towers.state();
  std::atomic<int> wrong = 0;
  towers.evaluate(batches(), [&](models::ConvNet& model, const models::Batch& batch) {
    wrong += torch::GradMode::is_enabled() || model.is_training();
    return accuracy(model, batch);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(towers.model().is_training());
  EXPECT_FALSE(towers.model().norm->is_training());
  EXPECT_EQ(first_difference(before, towers.state()), "");
}

TEST(Evaluate, WhatAMetricWritesToBuffersIsNotKept) {
  Mirrored<models::ConvNet> towers(options(2));
  const State before = towers.state();
  towers.evaluate(batches(), [](models::ConvNet& model, const models::Batch& batch) {
    model.norm->running_mean.add_(1);
    return accuracy(model, batch);
  });
  EXPECT_EQ(first_difference(before, towers.state()), "");
}

TEST(Evaluate, UsesEveryTower) {
  Mirrored<models::ConvNet> towers(options(2));
  std::mutex mutex;
  std::set<const void*> used;
  towers.evaluate(batches(), [&](models::ConvNet& model, const models::Batch& batch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::scoped_lock lock(mutex);
    used.insert(&model);
    return accuracy(model, batch);
  });
  EXPECT_EQ(used.size(), 2U);
}

TEST(Evaluate, AFailureReachesTheCallerAndTheNextOneWorks) {
  Mirrored<models::ConvNet> towers(options(2));
  const auto fail = [](models::ConvNet&, const models::Batch&) -> Metrics {
    throw std::runtime_error("bang");
  };
  try {
    towers.evaluate(batches(), fail);
    ADD_FAILURE() << "no error";
  } catch (const TowerError& error) {
    EXPECT_EQ(error.stage, "evaluate");
  }
  EXPECT_GT(towers.evaluate(batches(), accuracy)["accuracy"].weight, 0);
}

TEST(Evaluate, AnEmptyRangeGivesAnEmptyResult) {
  Mirrored<models::ConvNet> towers(options(2));
  EXPECT_TRUE(towers.evaluate(std::vector<models::Batch>{}, accuracy).empty());
}

TEST(MovingAverage, IsSwappedInForAnEvaluationAndBackExactly) {
  MirroredOptions how = options(3);
  how.method.moving_average = MovingAverage{.decay = 0.5};
  Mirrored<models::Mlp> towers(how);
  for (int step = 0; step < 5; ++step) towers.step(models::vectors(step), models::CrossEntropy{});
  const State before = towers.state();
  towers.with_averaged_weights([&] {
    for (std::size_t i = 0; i < before.parameters.size(); ++i) {
      const torch::Tensor inside = towers.model().named_parameters()[before.parameters[i].name];
      EXPECT_TRUE(torch::equal(inside, before.averages[i].value));
      EXPECT_FALSE(torch::equal(inside, before.parameters[i].value));
    }
    EXPECT_EQ(first_difference(before, towers.state()), "");
  });
  EXPECT_EQ(first_difference(before, towers.state()), "");
  EXPECT_THROW(towers.with_averaged_weights([] { throw std::runtime_error("bang"); }),
               std::runtime_error);
  EXPECT_EQ(first_difference(before, towers.state()), "");
  Mirrored<models::Mlp> fresh(how);
  fresh.with_averaged_weights([&] {
    EXPECT_THROW(fresh.step(models::vectors(0), models::CrossEntropy{}), std::logic_error);
  });
  towers.with_averaged_weights([&] {
    EXPECT_THROW(towers.step(models::vectors(0), models::CrossEntropy{}), std::logic_error);
  });
}

TEST(MovingAverage, FollowsTensorFlowsWarmUpRule) {
  MirroredOptions how = options(2);
  how.method.moving_average = MovingAverage{.decay = 0.3, .warm_up = true};
  Mirrored<models::Mlp> towers(how);
  auto expected = towers.state().parameters;
  for (int step = 0; step < 8; ++step) {
    towers.step(models::vectors(step), models::CrossEntropy{});
    const double keep = std::min(0.3, (1.0 + step) / (10.0 + step));
    const State state = towers.state();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      torch::Tensor& average = expected[i].value;
      average = average * keep + state.parameters[i].value * (1 - keep);
      // The same numbers in another order of operations.
      EXPECT_TRUE(torch::allclose(average, state.averages[i].value, 1e-5, 1e-7));
    }
  }
}

TEST(MovingAverage, StartsFromWeightsThatWereWrittenBeforeTheFirstStep) {
  MirroredOptions how = options(2);
  how.method.moving_average = MovingAverage{.decay = 1};  // keeps what it starts from
  Mirrored<models::Mlp> towers(how);
  {
    const torch::NoGradGuard no_grad;
    towers.model().first->weight.fill_(0.25);
  }
  towers.step(models::vectors(0), models::CrossEntropy{});
  EXPECT_TRUE((towers.state().averages[0].value == 0.25).all().item<bool>());
}

TEST(MovingAverage, ThatWasNotAskedForIsAnError) {
  Mirrored<models::Mlp> towers(options(2));
  EXPECT_THROW(towers.with_averaged_weights([] {}), ConfigError);
}

}  // namespace evaluate_test
