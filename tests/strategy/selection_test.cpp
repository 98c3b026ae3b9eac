// Which parameters a step is about, and gradients for an optimizer of the caller's own.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <sstream>

#include "models.h"
#include "on_sim.h"
#include "refusal.h"

namespace selection_test {

using namespace lockstep;
using refusal::message_of;

std::vector<std::vector<Device>> places() {
  return {cpu_devices(1), cpu_devices(2), cpu_devices(4), on_sim::sim_devices(2),
          on_sim::sim_devices(3)};
}

MirroredOptions on(std::vector<Device> devices, const Optimizer& optimizer) {
  return {.method = {.shards = 4, .optimizer = optimizer, .seed = 5},
          .where = {.devices = std::move(devices)}};
}

const auto loss_of = models::CrossEntropy{};

State trained(std::vector<Device> devices) {
  MirroredOptions how = on(std::move(devices), AdamW{.lr = 0.05, .weight_decay = 0.1});
  how.method.moving_average = MovingAverage{.decay = 0.5};
  Mirrored<models::Mlp> towers(how);
  for (int step = 0; step < 5; ++step)
    towers.step(models::vectors(step), loss_of,
                {.update = step % 2 == 0 ? "first.*" : "second.*", .phase = "one"});
  return towers.state();
}

TEST(Selection, IsTheSameOnAnyDevices) {
  const State one = trained(cpu_devices(1));
  for (const auto& devices : places()) EXPECT_EQ(first_difference(one, trained(devices)), "");
}

TEST(Selection, WhatTheStepIsNotAboutIsNotTouched) {
  for (const auto& devices : places()) {
    MirroredOptions how = on(devices, AdamW{.lr = 0.05, .weight_decay = 0.1});
    how.method.moving_average = MovingAverage{.decay = 0.5};
    Mirrored<models::Mlp> towers(how);
    towers.step(models::vectors(0), loss_of);
    const State before = towers.state();
    const StepResult result =
        towers.step(models::vectors(1), loss_of, {.update = "second.*", .phase = "head"});
    EXPECT_EQ(result.phase, "head");
    EXPECT_TRUE(result.notes.empty()) << result.notes.front();
    const State after = towers.state();
    const auto unchanged = [](const auto& a, const auto& b) {
      std::vector<std::string> names;
      for (std::size_t i = 0; i < a.size(); ++i)
        if (torch::equal(a[i].value, b[i].value)) names.push_back(a[i].name);
      return names;
    };
    EXPECT_EQ(unchanged(before.parameters, after.parameters),
              (std::vector<std::string>{"first.weight", "first.bias"}));
    EXPECT_EQ(unchanged(before.averages, after.averages),
              (std::vector<std::string>{"first.weight", "first.bias"}));
    for (const std::string& name : unchanged(before.slots, after.slots))
      EXPECT_EQ(name.rfind("first.", 0), 0U) << name;
    EXPECT_EQ(unchanged(before.slots, after.slots).size(), 4U);
    for (const torch::Tensor& parameter : towers.model().parameters())
      EXPECT_TRUE(parameter.requires_grad());
  }
}

/// Counts how often autograd comes by.
TEST(Selection, NoBackwardIsRunForTheOthers) {
  Mirrored<models::Mlp> towers(on(cpu_devices(1), Sgd{}));
  std::atomic<int> visits = 0;
  const auto counting = [&](models::Mlp& model, const models::Batch& shard) {
    auto hidden = torch::relu(model.first(shard.first));
    if (hidden.requires_grad())
      hidden.register_hook([&](const torch::Tensor& grad) {
        ++visits;
        return grad;
      });
    return torch::nn::functional::cross_entropy(model.second(hidden), shard.second);
  };
  towers.step(models::vectors(0), counting, {.update = "second.*"});
  EXPECT_EQ(visits, 0);
  towers.step(models::vectors(0), counting, {.update = "first.*"});
  EXPECT_EQ(visits, 4);
}

TEST(Selection, APatternWithoutATrainableParameterIsRefused) {
  Mirrored<models::Mlp> towers(on(cpu_devices(2), Sgd{}));
  const auto step = [&] { towers.step(models::vectors(0), loss_of, {.update = "third.*"}); };
  refusal::expect_refused(message_of(step), "third.*", "first.weight");
  refusal::expect_refused(message_of([&] { towers.set_trainable("third.*", true); }), "third.*",
                          "first.weight");
  towers.set_trainable("second.*", false);
  const auto frozen = [&] { towers.step(models::vectors(0), loss_of, {.update = "second.*"}); };
  refusal::expect_refused(message_of(frozen), "second.*", "no trainable parameter");
  EXPECT_TRUE(towers.step(models::vectors(0), loss_of).applied);
}

TEST(Trainable, FrozenParametersStayAndAreTrainedAgain) {
  std::optional<State> first;
  for (const auto& devices : places()) {
    Mirrored<models::Mlp> towers(on(devices, Adam{.lr = 0.05, .weight_decay = 0.1}));
    towers.step(models::vectors(0), loss_of);
    towers.set_trainable("first.*", false);
    const torch::Tensor before = towers.model().first->weight.detach().clone();
    for (int step = 1; step < 4; ++step) towers.step(models::vectors(step), loss_of);
    EXPECT_TRUE(torch::equal(before, towers.model().first->weight.detach()));
    EXPECT_FALSE(towers.model().first->weight.requires_grad());
    towers.model().first->weight.set_requires_grad(true);  // by hand: the same
    towers.model().first->bias.set_requires_grad(true);
    towers.step(models::vectors(4), loss_of);
    EXPECT_FALSE(torch::equal(before, towers.model().first->weight.detach()));
    if (!first) first = towers.state();
    EXPECT_EQ(first_difference(*first, towers.state()), "");
  }
}

TEST(Trainable, IsPartOfTheState) {
  const auto train = [](Mirrored<models::Mlp>& towers, int begin, int end) {
    for (int step = begin; step < end; ++step) {
      if (step == 2) towers.set_trainable("first.*", false);
      towers.step(models::vectors(step), loss_of);
    }
  };
  const MirroredOptions how = on(cpu_devices(2), Adam{.lr = 0.05});
  Mirrored<models::Mlp> whole(how), begun(how), resumed(how);
  train(whole, 0, 6);
  train(begun, 0, 4);
  resumed.load(begun.state());
  EXPECT_FALSE(resumed.model().first->weight.requires_grad());
  train(resumed, 4, 6);
  EXPECT_EQ(first_difference(whole.state(), resumed.state()), "");
  resumed.load(Mirrored<models::Mlp>(how).state());
  EXPECT_TRUE(resumed.model().first->weight.requires_grad());
}

/// Adam of torch::optim on the gradients that a strategy hands out.
State by_hand(std::vector<Device> devices, const Clip& clip = {}) {
  MirroredOptions how = on(std::move(devices), Sgd{});
  how.method.clip = clip;
  Mirrored<models::Mlp> towers(how);
  torch::optim::Adam optimizer(towers.model().parameters(), torch::optim::AdamOptions(0.05));
  torch::optim::StepLR schedule(optimizer, 2, 0.5);
  for (int step = 0; step < 5; ++step) {
    EXPECT_TRUE(towers.gradients(models::vectors(step), loss_of).applied);
    optimizer.step();
    schedule.step();
  }
  EXPECT_EQ(towers.skipped(), 0);
  return towers.state();
}

TEST(Gradients, AreForAnyOptimizerOnAnyDevices) {
  const State one = by_hand(cpu_devices(1)),
              clipped = by_hand(cpu_devices(1), {.global_norm = 0.1});
  for (const auto& devices : places()) {
    EXPECT_EQ(first_difference(one, by_hand(devices)), "");
    EXPECT_EQ(first_difference(clipped, by_hand(devices, {.global_norm = 0.1})), "");
  }
  EXPECT_NE(first_difference(one, clipped), "");
}

TEST(Gradients, AreThoseOfAStep) {
  for (const auto& devices : places()) {
    MirroredOptions how = on(devices, Sgd{.lr = 0});
    how.method.clip = {.global_norm = 0.1};
    Mirrored<models::Mlp> towers(how), others(how);
    const StepResult found = towers.gradients(models::vectors(0), loss_of);
    const StepResult expected = others.step(models::vectors(0), loss_of);
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.gradient_norm, expected.gradient_norm);
    const auto gradients = others.state().gradients;
    for (const auto& parameter : towers.model().named_parameters())
      for (const NamedTensor& gradient : gradients) {
        if (gradient.name != parameter.key()) continue;
        EXPECT_TRUE(torch::equal(parameter.value().grad().cpu(), gradient.value)) << gradient.name;
      }
    EXPECT_FALSE(others.model().first->weight.grad().defined());
  }
}

TEST(Gradients, AParameterWithoutOneHasNone) {
  Mirrored<models::Mlp> towers(on(cpu_devices(2), Sgd{}));
  towers.gradients(models::vectors(0), loss_of);
  EXPECT_TRUE(towers.model().first->weight.grad().defined());
  towers.gradients(models::vectors(0), loss_of, {.update = "second.*"});
  EXPECT_FALSE(towers.model().first->weight.grad().defined());
  EXPECT_TRUE(towers.model().second->weight.grad().defined());
}

TEST(Gradients, WorkWithLbfgs) {
  std::optional<State> first;
  for (const auto& devices : places()) {
    Mirrored<models::Mlp> towers(on(devices, Sgd{}));
    torch::optim::LBFGS optimizer(towers.model().parameters(), torch::optim::LBFGSOptions(0.5));
    double begin = 0, end = 0;
    for (int step = 0; step < 4; ++step) {
      const auto loss = optimizer.step(
          [&] { return torch::tensor(towers.gradients(models::vectors(0), loss_of).loss); });
      (step == 0 ? begin : end) = loss.item<double>();
    }
    EXPECT_LT(end, 0.5 * begin);
    if (!first) first = towers.state();
    EXPECT_EQ(first_difference(*first, towers.state()), "");
  }
}

TEST(Gradients, TheCallersOptimizerIsSavedByTheCaller) {
  const MirroredOptions how = on(cpu_devices(2), Sgd{});
  const auto adam = [](Mirrored<models::Mlp>& towers) {
    return torch::optim::Adam(towers.model().parameters(), torch::optim::AdamOptions(0.05));
  };
  const auto train = [](auto& towers, auto& optimizer, int begin, int end) {
    for (int step = begin; step < end; ++step) {
      towers.gradients(models::vectors(step), loss_of);
      optimizer.step();
    }
  };
  Mirrored<models::Mlp> whole(how), begun(how), resumed(how);
  auto whole_optimizer = adam(whole), begun_optimizer = adam(begun), optimizer = adam(resumed);
  train(whole, whole_optimizer, 0, 6);
  train(begun, begun_optimizer, 0, 3);
  std::stringstream file;
  torch::save(begun_optimizer, file);
  resumed.load(begun.state());
  torch::load(optimizer, file);
  train(resumed, optimizer, 3, 6);
  EXPECT_EQ(first_difference(whole.state(), resumed.state()), "");
}

TEST(Gradients, OfABadStepAreNoneOrAnError) {
  MirroredOptions how = on(cpu_devices(2), Sgd{});
  const auto bad = [](models::Mlp& model, const models::Batch& shard) {
    return loss_of(model, shard) / 0.0;
  };
  Mirrored<models::Mlp> refusing(how);
  EXPECT_THROW(refusing.gradients(models::vectors(0), bad), TowerError);
  how.method.non_finite = NonFinite::skip;
  Mirrored<models::Mlp> skipping(how);
  EXPECT_FALSE(skipping.gradients(models::vectors(0), bad).applied);
  EXPECT_FALSE(skipping.model().first->weight.grad().defined());
  EXPECT_EQ(skipping.skipped(), 1);
}

TEST(Gradients, MovingAveragesAreRefused) {
  MirroredOptions how = on(cpu_devices(2), Sgd{});
  how.method.moving_average = MovingAverage{};
  Mirrored<models::Mlp> towers(how);
  const std::string message = message_of([&] { towers.gradients(models::vectors(0), loss_of); });
  EXPECT_NE(message.find("moving_average"), std::string::npos) << message;
}

/// Wherever a device is lost, until the buffers are to follow.
TEST(Gradients, ALostDeviceIsReplayed) {
  constexpr int kDevices = 3;
  const auto towers_on = [] {
    sim::configure({.devices = kDevices});
    MirroredOptions how = on(on_sim::sim_devices(kDevices), Sgd{});
    how.where.on_device_failure = OnDeviceFailure::replay;
    return Mirrored<models::ConvNet>(how);
  };
  const auto train = [&](const std::optional<sim::Fault>& fault) {
    auto towers = towers_on();
    if (fault) sim::inject(*fault);
    for (int step = 0; step < 3; ++step) {
      towers.gradients(models::images(step), loss_of);
      torch::optim::SGD(towers.model().parameters(), 0.1).step();
    }
    return towers.state();
  };
  const State expected = train(std::nullopt);
  for (const int device : {0, 2}) {
    const std::int64_t last = [&] {
      auto towers = towers_on();
      for (int step = 0; step < 2; ++step) towers.gradients(models::images(step), loss_of);
      return sim::usage(device).operators;  // the first step has more
    }();
    int replayed = 0, committing = 0;
    for (std::int64_t at = 0; at < last; at += 1 + last / 40) try {
        const State found = train(sim::Fault{.device = device, .step = 1, .at = at});
        EXPECT_EQ(first_difference(expected, found), "") << at << " of " << last;
        ++replayed;
      } catch (const TowerError& error) {
        EXPECT_EQ(error.stage, "update") << error.what();
        ++committing;
      }
    EXPECT_GT(replayed, 8 * committing) << device;
  }
}

TEST(Phases, OneStagedBatchServesSeveralSteps) {
  for (const auto& devices : places()) {
    Mirrored<models::Mlp> towers(on(devices, Sgd{.lr = 0.1})), others(on(devices, Sgd{.lr = 0.1}));
    auto staged = towers.stage(models::vectors(0));
    for (const char* update : {"first.*", "second.*"}) {
      towers.step(staged, loss_of, {.update = update});
      others.step(models::vectors(0), loss_of, {.update = update});
    }
    EXPECT_EQ(first_difference(towers.state(), others.state()), "");
  }
}

}  // namespace selection_test
