// What a loss function brings out of a step beside its loss: metrics and rows.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <cmath>

#include "models.h"
#include "on_sim.h"
#include "refusal.h"

namespace results_test {

using namespace lockstep;
using refusal::message_of;

MirroredOptions on(std::vector<Device> devices, int shards = 4) {
  return {.method = {.shards = shards, .optimizer = Sgd{.lr = 0.1}},
          .where = {.devices = std::move(devices)}};
}

/// All lists of devices on which a step has to come to the same.
std::vector<std::vector<Device>> places() {
  return {cpu_devices(1),         cpu_devices(2),         cpu_devices(3),        cpu_devices(4),
          on_sim::sim_devices(1), on_sim::sim_devices(2), on_sim::sim_devices(4)};
}

/// Cross entropy with the share of right answers, the outputs and, columns first, the outputs
/// again.
Loss told(models::Mlp& model, const models::Batch& shard) {
  const auto output = model.forward(shard.first);
  const auto right = (output.argmax(1) == shard.second).sum();
  const auto loss = torch::nn::functional::cross_entropy(output, shard.second);
  return Loss::mean(loss)
      .metric("double", 2 * loss)
      .metric("accuracy", right, static_cast<double>(shard.second.size(0)))
      .metric("one", 1.0)
      .output("logits", output)
      .output("columns", output.t(), 1);
}

TEST(Results, MetricsAreWeightedMeansOverAllShards) {
  const auto batch = models::vectors(0, 7);  // uneven shards
  Mirrored<models::Mlp> towers(on(cpu_devices(2)));
  const auto output = towers.model().forward(batch.first).detach();
  const StepResult result = towers.step(batch, told);
  EXPECT_NEAR(result.metrics.at("double"), 2 * result.loss, 1e-6);
  EXPECT_EQ(result.metrics.at("accuracy"),
            (output.argmax(1) == batch.second).to(torch::kFloat64).mean().item<double>());
  EXPECT_EQ(result.metrics.at("one"), 1);
  EXPECT_EQ(result.metric_weights.at("accuracy"), 7);
  EXPECT_EQ(result.metric_weights.at("one"), 7);
}

TEST(Results, RowsComeBackInTheirOrder) {
  const auto batch = models::vectors(0, 7);
  Mirrored<models::Mlp> towers(on(cpu_devices(3)));
  const auto output = towers.model().forward(batch.first).detach();
  const StepResult result = towers.step(batch, told);
  EXPECT_TRUE(torch::allclose(result.outputs.at("logits"), output, 1e-5, 1e-6));
  EXPECT_TRUE(torch::equal(result.outputs.at("columns"), result.outputs.at("logits").t()));
  EXPECT_FALSE(result.outputs.at("logits").requires_grad());
}

TEST(Results, AreTheSameOnAnyDevices) {
  std::optional<StepResult> first;
  for (const auto& devices : places()) {
    Mirrored<models::Mlp> towers(on(devices));
    towers.step(models::vectors(0, 13), told);
    const StepResult result = towers.step(models::vectors(1, 13), told);
    if (!first) first = result;
    EXPECT_EQ(result.metrics, first->metrics) << devices.size();
    for (const auto& [name, rows] : result.outputs) {
      EXPECT_TRUE(rows.is_cpu());
      EXPECT_TRUE(torch::equal(rows, first->outputs.at(name))) << name << devices.size();
    }
  }
}

TEST(Results, AreReadOnceAndDoNotKeepTheGraph) {
  Mirrored<models::Mlp> towers(on(cpu_devices(2)));
  const StepResult one = towers.step(models::vectors(0), told);
  const torch::Tensor before = one.outputs.at("logits").clone();
  towers.step(models::vectors(1), told);
  EXPECT_TRUE(torch::equal(one.outputs.at("logits"), before));
}

/// An LSTM whose state goes from step to step, layers first.
struct Carried : torch::nn::Module {
  Carried() {
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(3, 6).batch_first(true)));
    head = register_module("head", torch::nn::Linear(6, 3));
  }
  torch::nn::LSTM lstm = nullptr;
  torch::nn::Linear head = nullptr;
};

struct Sequence {
  torch::Tensor x, h, c;  // states rows first here: a batch is cut by rows
  auto tensors() { return std::tie(x, h, c); }
};

TEST(Results, AStateIsCarriedToTheNextStepOnAnyDevices) {
  std::optional<double> first;
  for (const auto& devices : places()) {
    Mirrored<Carried> towers(on(devices));
    torch::Tensor h = torch::zeros({8, 1, 6}), c = torch::zeros({8, 1, 6});
    StepResult result;
    for (int step = 0; step < 4; ++step) {
      const auto x = torch::randn({8, 5, 3}, models::generator(step));
      result = towers.step(Sequence{x, h, c}, [](Carried& model, const Sequence& shard) {
        const auto [output, state] = model.lstm->forward(
            shard.x,
            std::tuple(shard.h.transpose(0, 1).contiguous(), shard.c.transpose(0, 1).contiguous()));
        const auto [h_n, c_n] = state;
        return Loss::mean((model.head(output) - shard.x).square().mean())
            .output("h", h_n.transpose(0, 1))
            .output("c", c_n.transpose(0, 1));
      });
      h = result.outputs.at("h");
      c = result.outputs.at("c");
    }
    if (!first) first = result.loss;
    EXPECT_EQ(result.loss, *first) << devices.size();
    EXPECT_EQ(h.size(0), 8);
  }
}

TEST(Results, ATotalIsDividedByNothing) {
  const auto batch = models::vectors(0, 7);
  const auto sum_of = [](models::Mlp& model, const models::Batch& shard) {
    return torch::nn::functional::cross_entropy(
        model.forward(shard.first), shard.second,
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  };
  for (const int rows : {1, 7})  // with empty shards, too
    for (const auto& devices : places()) {
      const models::Batch some = {batch.first.narrow(0, 0, rows), batch.second.narrow(0, 0, rows)};
      Mirrored<models::Mlp> towers(on(devices));
      const StepResult total =
          towers.step(some, [&](models::Mlp& model, const models::Batch& shard) {
            return Loss::total(sum_of(model, shard));
          });
      Mirrored<models::Mlp> others(on(devices));
      const StepResult mean = others.step(some, [&](models::Mlp& model,
                                                    const models::Batch& shard) {
        return Loss{sum_of(model, shard), 1.0 * static_cast<double>(shard.first.size(0)) / rows};
      });
      EXPECT_NEAR(total.loss, mean.loss, 1e-4 * total.loss);
      EXPECT_EQ(total.weight, 1);
      double parts = 0;
      for (const TowerReport& tower : total.towers)
        if (tower.shards > 0) parts += tower.loss;
      EXPECT_NEAR(parts, total.loss, 1e-9 * total.loss);
      EXPECT_NEAR(total.gradient_norm, mean.gradient_norm, 1e-4 * mean.gradient_norm);
    }
}

TEST(Results, ATotalBesideAMeanIsRefused) {
  Mirrored<models::Mlp> towers(on(cpu_devices(2)));
  const std::string message = message_of([&] {
    towers.step(models::vectors(0, 7), [](models::Mlp& model, const models::Batch& shard) {
      const auto loss = models::CrossEntropy{}(model, shard);
      return shard.first.size(0) == 1 ? Loss::total(loss) : Loss::mean(loss);
    });
  });
  EXPECT_NE(message.find("Loss::total"), std::string::npos) << message;
  EXPECT_EQ(towers.steps(), 0);
}

TEST(Results, WhatDoesNotFitIsRefusedByName) {
  const auto refused = [](auto change, const std::string& name) {
    Mirrored<models::Mlp> towers(on(cpu_devices(2)));
    const std::string message = message_of([&] {
      towers.step(models::vectors(0, 7), [&](models::Mlp& model, const models::Batch& shard) {
        Loss loss = Loss::mean(models::CrossEntropy{}(model, shard));
        change(loss, shard);
        return loss;
      });
    });
    EXPECT_NE(message.find("'" + name + "'"), std::string::npos) << message;
  };
  refused([](Loss& loss, const auto& shard) { loss.metric("two", shard.first); }, "two");
  refused([](Loss& loss, const auto&) { loss.metric("less", 1, -1); }, "less");
  refused([](Loss& loss, const auto& shard) { loss.output("deep", shard.first, 5); }, "deep");
  refused(
      [](Loss& loss, const auto& shard) {
        loss.output("wide", torch::zeros({1, 10 + shard.first.size(0)}));
      },
      "wide");
}

TEST(Results, OfMapComeInTheOrderOfTheBatches) {
  std::vector<models::Batch> batches;
  for (int i = 0; i < 9; ++i) batches.push_back(models::vectors(i, 3 + i % 2));
  std::vector<torch::Tensor> expected;
  for (const auto& devices : places()) {
    Mirrored<models::Mlp> towers(on(devices));
    const std::vector<torch::Tensor> found = towers.map(
        batches,
        [](models::Mlp& model, const models::Batch& batch) { return model.forward(batch.first); });
    ASSERT_EQ(found.size(), 9U);
    if (expected.empty()) expected = found;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i].is_cpu());
      EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
    }
    EXPECT_EQ(towers.device(), towers.model().parameters().front().device());
  }
  Mirrored<models::Mlp> towers(on(cpu_devices(2)));
  const auto sizes = towers.map(batches, [](models::Mlp&, const models::Batch& batch) {
    return std::to_string(batch.first.size(0));
  });
  EXPECT_EQ(sizes[0] + sizes[1] + sizes[8], "343");
}

}  // namespace results_test
