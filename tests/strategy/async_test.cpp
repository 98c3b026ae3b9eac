// Asynchronous training in which the delay defines the mathematics: the number of devices never
// changes the result, bit for bit.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>
#include <lockstep/sim.h>

#include "models.h"

namespace async_test {

using namespace lockstep;

constexpr int kSteps = 14;

AsyncOptions options(const std::vector<Device>& devices, int delay, int shards = 2) {
  return {.method = {.shards = shards,
                     .optimizer = Adam{.lr = 1e-2, .weight_decay = 1e-3},
                     .clip = {.global_norm = 0.1},
                     .moving_average = MovingAverage{.decay = 0.9, .warm_up = true},
                     .seed = 7,
                     .async = Asynchrony{.delay = delay}},
          .where = {.devices = devices}};
}

struct Trained {
  State state;
  std::vector<double> losses, norms;
  std::vector<std::int64_t> staleness;
};

void add(Trained& run, const StepResult& report) {
  EXPECT_EQ(report.step, static_cast<std::int64_t>(run.losses.size()));
  run.losses.push_back(report.loss);
  run.norms.push_back(report.gradient_norm);
  run.staleness.push_back(report.staleness.value());
}

template <class Model, class Source>
Trained train(const AsyncOptions& how, const Source& source, int steps = kSteps) {
  Async<Model> towers(how);
  Trained run;
  for (int step = 0; step < steps; ++step)
    if (const auto report = towers.step(source(step), models::CrossEntropy{})) add(run, *report);
  while (const auto report = towers.finish()) add(run, *report);
  run.state = towers.state();
  return run;
}

void expect_equal(const Trained& expected, const Trained& found, const std::string& what) {
  EXPECT_EQ(expected.losses, found.losses) << what;
  EXPECT_EQ(expected.norms, found.norms) << what;
  EXPECT_EQ(expected.staleness, found.staleness) << what;
  EXPECT_EQ(first_difference(expected.state, found.state), "") << what;
}

template <class Model, class Source>
void expect_equal_on_any_number_of_devices(const Source& source) {
  for (const int delay : {0, 1, 3}) {
    const Trained one = train<Model>(options(cpu_devices(1), delay), source);
    EXPECT_EQ(one.losses.size(), static_cast<std::size_t>(kSteps));
    EXPECT_NE(one.losses.front(), one.losses.back());
    for (const int devices : {2, 3, 4}) {
      const Trained many = train<Model>(options(cpu_devices(devices), delay), source);
      expect_equal(one, many, std::to_string(devices) + " devices, delay " + std::to_string(delay));
    }
  }
}

TEST(Async, AnMlpIsTheSameBitForBitOn1To4Devices) {
  expect_equal_on_any_number_of_devices<models::Mlp>(
      [](int step) { return models::vectors(step); });
}

TEST(Async, AConvnetWithBatchNormIsTheSameBitForBitOn1To4Devices) {
  expect_equal_on_any_number_of_devices<models::ConvNet>(
      [](int step) { return models::images(step, 5 + step % 9); });
}

TEST(Async, AnLstmWithDropoutAndAttentionIsTheSameBitForBitOn1To4Devices) {
  expect_equal_on_any_number_of_devices<models::Attention>(
      [](int step) { return models::sentences(step, step % 3 == 0 ? 16 : 3); });
}

TEST(Async, WithoutDelayIsMirroredBitForBit) {
  const auto source = [](int step) { return models::images(step, 5 + step % 9); };
  const Trained async = train<models::ConvNet>(options(cpu_devices(3), 0), source);
  MirroredOptions how = options(cpu_devices(2), 0);
  how.method.async.reset();
  Mirrored<models::ConvNet> towers(how);
  for (std::size_t step = 0; step < async.losses.size(); ++step) {
    const auto report = towers.step(source(static_cast<int>(step)), models::CrossEntropy{});
    EXPECT_EQ(report.loss, async.losses[step]);
    EXPECT_EQ(report.gradient_norm, async.norms[step]);
  }
  EXPECT_EQ(first_difference(towers.state(), async.state), "");
}

TEST(Async, ADelayIsAnotherResultAndIsWhatItSays) {
  const auto source = [](int step) { return models::vectors(step); };
  const Trained none = train<models::Mlp>(options(cpu_devices(2), 0), source);
  const Trained three = train<models::Mlp>(options(cpu_devices(2), 3), source);
  EXPECT_NE(none.losses, three.losses);
  EXPECT_EQ(three.staleness, (std::vector<std::int64_t>{0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(none.staleness, std::vector<std::int64_t>(kSteps, 0));
}

/// SGD written down: update u has the gradient of batch u at the weights before update u - delay.
TEST(Async, EqualsTheFormulaWrittenDown) {
  constexpr int kDelay = 2;
  AsyncOptions how = options(cpu_devices(3), kDelay, 1);
  how.method.optimizer = Sgd{.lr = 0.1};
  how.method.clip = {};
  how.method.moving_average.reset();
  Async<models::Mlp> towers(how);
  models::Mlp plain;
  std::vector<std::vector<torch::Tensor>> versions(1);
  {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : towers.model().parameters())
      versions[0].push_back(parameter.clone());
  }
  for (int step = 0; step < kSteps; ++step)
    towers.step(models::vectors(step), models::CrossEntropy{});
  while (towers.finish()) {
  }
  for (int step = 0; step < kSteps; ++step) {
    const auto& then = versions[static_cast<std::size_t>(std::max(0, step - kDelay))];
    const auto parameters = plain.parameters();
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        parameters[i].copy_(then[i]);
        parameters[i].mutable_grad() = torch::Tensor();
      }
    }
    models::CrossEntropy{}(plain, models::vectors(step)).backward();
    std::vector<torch::Tensor> next;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      next.push_back(versions.back()[i] - 0.1 * parameters[i].grad());
    versions.push_back(next);
  }
  const auto trained = towers.model().parameters();
  for (std::size_t i = 0; i < trained.size(); ++i)
    EXPECT_TRUE(torch::allclose(trained[i], versions.back()[i], 1e-5, 1e-6)) << i;
}

TEST(Async, AStateGoesOnExactlyOnOtherDevices) {
  const auto source = [](int step) { return models::images(step); };
  const Trained whole = train<models::ConvNet>(options(cpu_devices(2), 3), source);
  Async<models::ConvNet> first(options(cpu_devices(3), 3));
  for (int step = 0; step < 9; ++step) first.step(source(step), models::CrossEntropy{});
  const State state = first.state();  // three batches are begun and not applied
  EXPECT_EQ(state.steps, 6);
  EXPECT_EQ(state.older.size(), 3u);
  Async<models::ConvNet> second(options(cpu_devices(1), 3));
  second.load(state);
  EXPECT_EQ(first_difference(state,
                             [&] {
                               State again = second.state();
                               again.gradients = state.gradients;
                               return again;
                             }()),
            "");
  for (int step = 6; step < kSteps; ++step) second.step(source(step), models::CrossEntropy{});
  while (second.finish()) {
  }
  EXPECT_EQ(first_difference(whole.state, second.state()), "");
}

TEST(Async, EvaluationAndSavingInTheMiddleChangeNothing) {
  const auto source = [](int step) { return models::images(step); };
  const Trained plain = train<models::ConvNet>(options(cpu_devices(2), 2), source);
  Async<models::ConvNet> towers(options(cpu_devices(2), 2));
  Trained run;
  for (int step = 0; step < kSteps; ++step) {
    if (const auto report = towers.step(source(step), models::CrossEntropy{})) add(run, *report);
    const auto evaluate = [&] {
      std::vector<models::Batch> batches;
      for (int i = 0; i < 5; ++i) batches.push_back(models::images(100 + i));
      return towers.evaluate(batches, [](models::ConvNet& model, const models::Batch& batch) {
        return Metrics{{"loss", {models::CrossEntropy{}(model, batch).item<double>(), 1}}};
      });
    };
    if (step % 4 == 1) evaluate();
    if (step % 4 == 2) towers.with_averaged_weights(evaluate);
    if (step % 4 == 3) towers.state();
    towers.model();
  }
  while (const auto report = towers.finish()) add(run, *report);
  run.state = towers.state();
  expect_equal(plain, run, "with evaluations");
}

}  // namespace async_test
