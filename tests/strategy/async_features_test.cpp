// What works in synchronous training works in asynchronous training, or is refused by name.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <cmath>

#include "models.h"
#include "refusal.h"

namespace async_features_test {

using namespace lockstep;

AsyncOptions options(int devices, Asynchrony async = {.delay = 2}) {
  return {.method = {.shards = 2, .optimizer = Sgd{.lr = 0.1, .momentum = 0.9}, .async = async},
          .where = {.devices = cpu_devices(devices)}};
}

/// Takes `steps` steps with `each(towers, step)` before each; all updates are applied at the end.
template <class Model, class Each, class LossFn>
State train(const AsyncOptions& how, const Each& each, const LossFn& loss, int steps = 12) {
  Async<Model> towers(how);
  for (int step = 0; step < steps; ++step) {
    each(towers, step);
    towers.step(models::vectors(step), loss, {});
  }
  while (towers.finish()) {
  }
  return towers.state();
}

/// The same on 1, 2 and 3 devices; returns what it is.
template <class Model, class Each, class LossFn>
State expect_same(AsyncOptions how, const Each& each, const LossFn& loss) {
  const State one = train<Model>(how, each, loss);
  for (const int devices : {2, 3}) {
    how.where.devices = cpu_devices(devices);
    EXPECT_EQ(first_difference(one, train<Model>(how, each, loss)), "") << devices;
  }
  return one;
}

template <class Program>
void expect_told(const Program& program, const std::string& text) {
  const std::string message = refusal::message_of(program);
  EXPECT_NE(message.find(text), std::string::npos) << message;
}

const auto kNothing = [](auto&, int) {};

TEST(AsyncFeatures, EveryOptimizerAndGroupIsTheSameOnAnyDevices) {
  for (const Optimizer& optimizer : std::vector<Optimizer>{
           Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}, AdamW{}, Adagrad{},
           RmsProp{.momentum = 0.9, .centered = true}, tensorflow_rms_prop(0.01, 0.9, 0.9, 1.0)}) {
    AsyncOptions how = options(1);
    how.method.optimizer = optimizer;
    how.method.groups = {{.pattern = "second.*", .optimizer = Adam{.lr = 1e-3}}};
    how.method.rules = {{.pattern = "*.bias", .lr_factor = 2, .weight_decay = 0}};
    how.method.clip = {.per_shard_norm = 0.5};
    EXPECT_FALSE(expect_same<models::Mlp>(how, kNothing, models::CrossEntropy{}).slots.empty());
  }
}

TEST(AsyncFeatures, Float16AndItsScaleAreTheSameOnAnyDevices) {
  AsyncOptions how = options(1);
  how.method.precision = Precision::float16;
  how.method.loss_scaling = {.initial = 65536.0 * 64, .growth_interval = 3};
  const State state = expect_same<models::Mlp>(how, kNothing, models::CrossEntropy{});
  EXPECT_LT(state.updates, state.steps);  // the first scales overflow
  EXPECT_EQ(state.older.size(), 2u);
  EXPECT_GT(state.older.front().loss_scale, 0);
  how.method.precision = Precision::bfloat16;
  expect_same<models::Mlp>(how, kNothing, models::CrossEntropy{});
}

TEST(AsyncFeatures, MetricsOutputsAndTotalsComeOut) {
  Async<models::Mlp> towers(options(2));
  std::vector<StepResult> reports;
  for (int step = 0; step < 6; ++step)
    if (auto report =
            towers.step(models::vectors(step), [](models::Mlp& model, const models::Batch& shard) {
              const auto out = model.forward(shard.first);
              return Loss::mean(torch::nn::functional::cross_entropy(out, shard.second))
                  .metric("rows", static_cast<double>(shard.first.size(0)))
                  .output("logits", out);
            }))
      reports.push_back(std::move(*report));
  while (auto report = towers.finish()) reports.push_back(std::move(*report));
  ASSERT_EQ(reports.size(), 6u);
  for (const StepResult& report : reports) {
    EXPECT_EQ(report.outputs.at("logits").size(0), 16);
    EXPECT_EQ(report.metrics.at("rows"), 8);
    EXPECT_EQ(report.rows, 16);
    EXPECT_EQ(report.towers.size(), 1u);
    EXPECT_TRUE(report.applied);
  }
}

TEST(AsyncFeatures, ALossOverTheWholeBatchIsTheSameOnAnyDevices) {
  const auto contrast = whole_batch(
      [](models::Mlp& model, const models::Batch& shard) { return model.forward(shard.first); },
      [](const torch::Tensor& rows) {
        return torch::matmul(rows, rows.t()).log_softmax(1).diagonal().mean().neg();
      });
  expect_same<models::Mlp>(options(1), kNothing, contrast);
}

TEST(AsyncFeatures, AStepMayBeAboutSomeParameters) {
  const auto run = [](int devices) {
    Async<models::Mlp> towers(options(devices));
    for (int step = 0; step < 12; ++step)
      towers.step(models::vectors(step), models::CrossEntropy{},
                  {.update = step % 2 == 0 ? "first.*" : "second.*"});
    while (towers.finish()) {
    }
    return towers.state();
  };
  const State one = run(1);
  EXPECT_EQ(one.updates_of.at("first.weight"), 6);
  EXPECT_EQ(first_difference(one, run(3)), "");
}

TEST(AsyncFeatures, WhatIsDoneToTheModelBetweenStepsCountsFromTheNextStepOn) {
  const auto each = [](Async<models::Mlp>& towers, int step) {
    const torch::NoGradGuard no_grad;
    if (step == 3) towers.model().first->weight.mul_(0.5);
    if (step == 4) towers.set_trainable("first.*", false);
    if (step == 5) towers.set_learning_rate(0.01);
    if (step == 6) towers.model().second->weight.requires_grad_(false);
    if (step == 7) towers.set_trainable("*", true);
    if (step == 8) towers.reset_slots("second.*");
    if (step == 9) towers.set_optimizer(Sgd{.lr = 0.2, .momentum = 0.5});
    if (step == 10) towers.model().eval();
  };
  const State changed = expect_same<models::Mlp>(options(1), each, models::CrossEntropy{});
  const State plain = train<models::Mlp>(options(1), kNothing, models::CrossEntropy{});
  EXPECT_NE(first_difference(plain, changed), "");
}

TEST(AsyncFeatures, WeightsWrittenBeforeTheFirstUpdateCountForAllBatches) {
  const auto run = [](int devices, bool late) {
    Async<models::ConvNet> towers(options(devices));
    const auto write = [&] {
      const torch::NoGradGuard no_grad;
      towers.model().head->weight.fill_(0.5);
      towers.model().norm->running_mean.fill_(2);
    };
    if (!late) write();
    for (int step = 0; step < 6; ++step) {
      towers.step(models::images(step), models::CrossEntropy{});
      if (late && step == 1) write();  // two batches were begun, none is applied
    }
    while (towers.finish()) {
    }
    return towers.state();
  };
  const State early = run(1, false);
  for (int repeat = 0; repeat < 5; ++repeat) EXPECT_EQ(first_difference(early, run(3, true)), "");
}

/// A frozen tensor that the loss reads, and the caller writes between steps: a teacher.
struct Student : torch::nn::Module {
  Student() {
    own = register_module("own", torch::nn::Linear(12, 5));
    teacher = register_parameter("teacher", torch::ones({5}), /*requires_grad=*/false);
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return dropout(own(x)) * teacher; }
  torch::nn::Linear own = nullptr;
  torch::nn::Dropout dropout = nullptr;
  torch::Tensor teacher;
};

TEST(AsyncFeatures, AFrozenTensorWrittenBetweenStepsIsTheSameOnAnyDevices) {
  const auto each = [](Async<Student>& towers, int step) {
    const torch::NoGradGuard no_grad;
    if (step % 3 == 2) towers.model().teacher.mul_(0.9);
    if (step == 7) towers.model().dropout->eval();
  };
  const State written = expect_same<Student>(options(1), each, models::CrossEntropy{});
  EXPECT_LT(written.frozen.front().value.max().item<float>(), 0.9);
}

TEST(AsyncFeatures, AnOldReferenceThatIsWrittenIsRefused) {
  Async<models::Mlp> towers(options(2));
  models::Mlp& model = towers.model();
  for (int step = 0; step < 5; ++step) towers.step(models::vectors(step), models::CrossEntropy{});
  {
    const torch::NoGradGuard no_grad;
    model.first->weight.mul_(2);
  }
  expect_told([&] { towers.step(models::vectors(5), models::CrossEntropy{}); },
              "call model() again");
}

TEST(AsyncFeatures, CompensationIsItsFormula) {
  const auto once = [](double lambda, int devices) {
    AsyncOptions how = options(devices, {.delay = 1, .compensation = lambda});
    how.method.shards = 1;
    how.method.optimizer = Sgd{.lr = 0.5};
    std::vector<State> states;
    Async<models::Mlp> towers(how);
    for (int step = 0; step < 2; ++step) towers.step(models::vectors(step), models::CrossEntropy{});
    states.push_back(towers.state());
    while (towers.finish()) {
    }
    states.push_back(towers.state());
    return states;
  };
  // Both batches are computed with the first weights. The second gradient is late by one update.
  const auto plain = once(0, 1), with = once(0.3, 2);
  EXPECT_EQ(plain[0].steps, 1);
  EXPECT_EQ(first_difference(plain[0], with[0]), "");
  for (std::size_t i = 0; i < plain[1].parameters.size(); ++i) {
    const torch::Tensor now = plain[0].parameters[i].value,
                        then = plain[0].older[0].parameters[i].value;
    const torch::Tensor g = plain[1].gradients[i].value;
    const torch::Tensor expected = now - 0.5 * (g + 0.3 * g * g * (now - then));
    EXPECT_TRUE(torch::allclose(with[1].parameters[i].value, expected, 1e-5, 1e-7));
    EXPECT_FALSE(torch::equal(with[1].parameters[i].value, plain[1].parameters[i].value));
  }
}

TEST(AsyncFeatures, ALossThatThrowsFailsInItsTurnAndNothingOfItIsApplied) {
  const auto source = [](int step) { return models::vectors(step); };
  for (const int devices : {1, 3}) {
    Async<models::Mlp> towers(options(devices));
    int reported = 0;
    try {
      for (int step = 0; step < 10; ++step)
        reported += towers
                        .step(source(step),
                              [step](models::Mlp& model, const models::Batch& shard) {
                                if (step == 6) throw std::runtime_error("a bad batch");
                                return models::CrossEntropy{}(model, shard);
                              })
                        .has_value();
      FAIL();
    } catch (const TowerError& error) {
      EXPECT_EQ(error.step, 6);
      EXPECT_EQ(error.shard, 0);
      EXPECT_NE(std::string(error.what()).find("a bad batch"), std::string::npos);
    }
    EXPECT_EQ(reported, 6);
    EXPECT_EQ(towers.steps(), 6);
    EXPECT_FALSE(towers.finish());  // forgotten
    for (int step = 7; step < 10; ++step) towers.step(source(step), models::CrossEntropy{});
    while (towers.finish()) {
    }
    EXPECT_EQ(towers.steps(), 9);
  }
}

TEST(AsyncFeatures, WhatIsNotFiniteIsRefusedOrSkippedInItsTurn) {
  const auto bad = [](int step) {
    return [step](models::Mlp& model, const models::Batch& shard) {
      return models::CrossEntropy{}(model, shard) * (step == 4 ? NAN : 1.0);
    };
  };
  for (const NonFinite reaction : {NonFinite::refuse, NonFinite::skip}) {
    AsyncOptions how = options(3);
    how.method.non_finite = reaction;
    Async<models::Mlp> towers(how);
    const auto run = [&] {
      for (int step = 0; step < 8; ++step) towers.step(models::vectors(step), bad(step));
      while (towers.finish()) {
      }
    };
    if (reaction == NonFinite::skip) {
      run();
      EXPECT_EQ(towers.skipped(), 1);
      EXPECT_EQ(towers.steps(), 8);
    } else {
      EXPECT_THROW(run(), TowerError);
      EXPECT_EQ(towers.steps(), 4);
    }
  }
}

TEST(AsyncFeatures, InFreeOrderEveryBatchIsAppliedOnceAndStalenessIsBounded) {
  for (const std::optional<int> bound :
       {std::optional<int>(), std::optional<int>(0), std::optional<int>(1)}) {
    AsyncOptions how = options(3, {.order = Order::free, .staleness = bound});
    how.method.optimizer = Sgd{.lr = 0.05};
    Async<models::Mlp> towers(how);
    std::int64_t updates = 0, most = 0;
    double first = 0, last = 0;
    const auto count = [&](const std::optional<StepResult>& report) {
      if (!report) return false;
      EXPECT_EQ(report->step, updates++);
      most = std::max(most, report->staleness.value());
      if (report->step == 0) first = report->loss;
      last = report->loss;
      return true;
    };
    for (int step = 0; step < 60; ++step)
      count(towers.step(models::vectors(step % 4), models::CrossEntropy{}));
    while (count(towers.finish())) {
    }
    EXPECT_EQ(updates, 60);
    EXPECT_LE(most, bound.value_or(60));
    EXPECT_LT(last, first);  // it learns four batches by heart
    how.where.devices = cpu_devices(2);
    Async<models::Mlp> other(how);
    other.load(towers.state());
    EXPECT_EQ(other.steps(), 60);
    other.step(models::vectors(0), models::CrossEntropy{});
    EXPECT_TRUE(other.finish());
  }
}

TEST(AsyncFeatures, OneDeviceInFreeOrderIsMirroredBitForBit) {
  const auto source = [](int step) { return models::vectors(step); };
  Async<models::Mlp> free(options(1, {.order = Order::free}));
  MirroredOptions how = options(1);
  how.method.async.reset();
  Mirrored<models::Mlp> mirrored(how);
  for (int step = 0; step < 10; ++step) {
    free.step(source(step), models::CrossEntropy{});
    mirrored.step(source(step), models::CrossEntropy{});
  }
  while (free.finish()) {
  }
  EXPECT_EQ(first_difference(mirrored.state(), free.state()), "");
}

TEST(AsyncFeatures, AStateOfMirroredGoesOn) {
  MirroredOptions how = options(2);
  how.method.async.reset();
  Mirrored<models::Mlp> mirrored(how);
  for (int step = 0; step < 5; ++step) mirrored.step(models::vectors(step), models::CrossEntropy{});
  const auto run = [&](int devices) {
    Async<models::Mlp> towers(options(devices));
    towers.load(mirrored.state());
    EXPECT_EQ(towers.steps(), 5);
    for (int step = 5; step < 12; ++step)
      towers.step(models::vectors(step), models::CrossEntropy{});
    while (towers.finish()) {
    }
    return towers.state();
  };
  const State one = run(1);
  EXPECT_EQ(first_difference(one, run(3)), "");
  Mirrored<models::Mlp> back(how);
  back.load(one);
  EXPECT_EQ(back.steps(), 12);
}

TEST(AsyncFeatures, WhatMakesNoSenseIsRefused) {
  const auto made = [](const AsyncOptions& how) { Async<models::Mlp> towers(how); };
  AsyncOptions how = options(1, {.delay = -1});
  expect_told([&] { made(how); }, "async.delay is -1");
  how = options(1, {.staleness = 2});
  expect_told([&] { made(how); }, "async.staleness bounds Order::free");
  how = options(1, {.order = Order::free, .staleness = -2});
  expect_told([&] { made(how); }, "async.staleness is -2");
  how = options(1, {.compensation = -1});
  expect_told([&] { made(how); }, "async.compensation");
  how = options(1);
  how.where.balance = Balance::automatic;
  expect_told([&] { made(how); }, "balance = automatic");
  expect_told([&] { Mirrored<models::Mlp> towers(options(1)); }, "method.async is of Async");
}

TEST(AsyncFeatures, MoreDevicesThanTheDelayHasWorkForAreTold) {
  Async<models::Mlp> towers(options(4, {.delay = 1}));
  std::vector<std::string> notes;
  for (int step = 0; step < 3; ++step)
    if (const auto report = towers.step(models::vectors(step), models::CrossEntropy{}))
      notes.insert(notes.end(), report->notes.begin(), report->notes.end());
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return note.find("2 of the 4 devices have work") != std::string::npos;
  }));
}

}  // namespace async_features_test
