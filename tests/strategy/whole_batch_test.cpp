// Losses over all rows of the global batch at once.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include "models.h"
#include "on_sim.h"
#include "refusal.h"

namespace whole_batch_test {

using namespace lockstep;
using refusal::message_of;

/// Every row is to be like its label's other rows, and unlike the rest: needs all rows at once.
torch::Tensor contrastive(const torch::Tensor& rows, const torch::Tensor& labels) {
  const auto unit = torch::nn::functional::normalize(rows);
  const auto scores = torch::mm(unit, unit.t()) / 0.5;
  const auto same = (labels.unsqueeze(0) == labels.unsqueeze(1)).to(rows.dtype());
  return -(torch::log_softmax(scores, 1) * same).sum() / same.sum();
}

using Rows = std::pair<torch::Tensor, torch::Tensor>;

const auto rows_of = [](auto& model, const models::Batch& shard) {
  return Rows{model.forward(shard.first), shard.second};
};
const auto head = [](const Rows& rows) { return contrastive(rows.first, rows.second); };

MirroredOptions on(std::vector<Device> devices, int shards = 8) {
  MirroredOptions options = on_sim::options(std::move(devices));
  options.method.shards = shards;
  return options;
}

template <class Model, class Source>
on_sim::Trained train(const MirroredOptions& how, const Source& source, int rows) {
  Mirrored<Model> towers(how);
  on_sim::Trained run;
  for (int step = 0; step < 4; ++step) {
    const StepResult result = towers.step(source(step, rows), rows_of, head);
    run.losses.push_back(result.loss);
    run.norms.push_back(result.gradient_norm);
  }
  run.state = towers.state();
  return run;
}

template <class Model, class Source>
void expect_same_anywhere(const Source& source) {
  for (const int rows : {16, 5}) {  // 5: some shards are empty
    const auto one = train<Model>(on(cpu_devices(1)), source, rows);
    for (const int devices : {2, 3, 4})
      on_sim::expect_same(one, train<Model>(on(cpu_devices(devices)), source, rows), "cpu");
    for (const int devices : {1, 3})
      on_sim::expect_same(one, train<Model>(on(on_sim::sim_devices(devices)), source, rows), "sim");
  }
}

TEST(WholeBatch, IsTheSameOnAnyDevices) { expect_same_anywhere<models::Mlp>(models::vectors); }

TEST(WholeBatch, IsTheSameOnAnyDevicesWithBatchNorm) {
  expect_same_anywhere<models::ConvNet>(models::images);
}

/// Dropout in rows, random numbers in the head.
struct Dropped : models::Mlp {
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::dropout(models::Mlp::forward(x), 0.3, is_training());
  }
};

TEST(WholeBatch, RandomNumbersAreTheSameOnAnyDevices) {
  const auto train = [](std::vector<Device> devices) {
    Mirrored<Dropped> towers(on(std::move(devices)));
    for (int step = 0; step < 3; ++step)
      towers.step(models::vectors(step), rows_of, [](const Rows& rows) {
        return contrastive(rows.first + 0.1 * torch::randn_like(rows.first), rows.second);
      });
    return towers.state();
  };
  const State one = train(cpu_devices(1));
  EXPECT_EQ(first_difference(one, train(cpu_devices(2))), "");
  EXPECT_EQ(first_difference(one, train(cpu_devices(4))), "");
}

TEST(WholeBatch, EqualsTheProgramForOneDevice) {
  for (const int shards : {1, 4}) {
    MirroredOptions how = {.method = {.shards = shards, .optimizer = Sgd{.lr = 0.5}, .seed = 3},
                           .where = {.devices = cpu_devices(2)}};
    Mirrored<models::Mlp> towers(how);
    models::Mlp plain;
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < plain.parameters().size(); ++i)
      plain.parameters()[i].copy_(towers.model().parameters()[i]);
    torch::optim::SGD optimizer(plain.parameters(), 0.5);
    for (int step = 0; step < 5; ++step) {
      const auto batch = models::vectors(step, 13);
      const torch::AutoGradMode gradients(true);
      optimizer.zero_grad();
      const auto loss = contrastive(plain.forward(batch.first), batch.second);
      loss.backward();
      optimizer.step();
      EXPECT_NEAR(towers.step(batch, rows_of, head).loss, loss.item<double>(), 1e-5);
    }
    for (std::size_t i = 0; i < plain.parameters().size(); ++i)
      EXPECT_TRUE(
          torch::allclose(plain.parameters()[i], towers.model().parameters()[i], 1e-4, 1e-6));
  }
}

TEST(WholeBatch, AHeadMayReturnALossWithMetricsAndRows) {
  for (const auto& devices : {cpu_devices(3), on_sim::sim_devices(2)}) {
    Mirrored<models::Mlp> towers(on(devices));
    const auto batch = models::vectors(0, 6);
    const StepResult result = towers.step(batch, whole_batch(rows_of, [](const Rows& rows) {
                                            return Loss{contrastive(rows.first, rows.second) * 6, 6}
                                                .metric("norm", rows.first.norm())
                                                .output("rows", rows.first);
                                          }));
    EXPECT_EQ(result.weight, 6);
    EXPECT_GT(result.metrics.at("norm"), 0);
    EXPECT_EQ(result.outputs.at("rows").size(0), 6);
    Mirrored<models::Mlp> others(on(devices));
    EXPECT_NEAR(others.step(batch, rows_of, head).loss, result.loss, 1e-5);
  }
}

TEST(WholeBatch, HandsOutGradientsAndTakesStagedBatches) {
  Mirrored<models::Mlp> towers(refusal::options(2)), others(refusal::options(2));
  auto staged = towers.stage(models::vectors(0));
  towers.gradients(staged, whole_batch(rows_of, head));
  others.step(staged, rows_of, head);
  EXPECT_EQ(refusal::difference(towers.state().gradients, others.state().gradients), "");
}

TEST(WholeBatch, ALossThatIsNotFiniteIsToldOrSkipped) {
  const auto bad = [](const Rows& rows) { return rows.first.sum() / 0.0; };
  for (const auto& devices : {cpu_devices(2), on_sim::sim_devices(2)}) {
    MirroredOptions how = on(devices);
    Mirrored<models::Mlp> refusing(how);
    EXPECT_THROW(refusing.step(models::vectors(0), rows_of, bad), TowerError);
    how.method.non_finite = NonFinite::skip;
    Mirrored<models::Mlp> skipping(how);
    EXPECT_FALSE(skipping.step(models::vectors(0), rows_of, bad).applied);
    EXPECT_TRUE(skipping.step(models::vectors(1), rows_of, head).applied);
  }
}

TEST(WholeBatch, AHeadThatUsesAParameterIsRefused) {
  for (const auto& devices : {cpu_devices(2), on_sim::sim_devices(2)}) {
    Mirrored<models::Mlp> towers(on(devices));
    models::Mlp& model = towers.model();
    refusal::expect_refused(message_of([&] {
                              towers.step(models::vectors(0), rows_of, [&](const Rows& rows) {
                                return contrastive(rows.first, rows.second) +
                                       model.first->weight.square().sum();
                              });
                            }),
                            "first.weight", "rows(model, shard)");
    EXPECT_TRUE(towers.step(models::vectors(0), rows_of, head).applied);
  }
}

TEST(WholeBatch, ClippingOfShardsIsRefused) {
  MirroredOptions how = on(cpu_devices(2));
  how.method.clip = {.per_shard_norm = 1};
  Mirrored<models::Mlp> towers(how);
  const std::string message = message_of([&] { towers.step(models::vectors(0), rows_of, head); });
  EXPECT_NE(message.find("global_norm"), std::string::npos) << message;
}

TEST(WholeBatch, RowsThatDoNotFitTogetherAreRefused) {
  Mirrored<models::Mlp> towers(on(cpu_devices(2), 4));
  const std::string message = message_of([&] {
    towers.step(
        models::vectors(0, 6),
        [](models::Mlp& model, const models::Batch& shard) {
          return model.forward(shard.first).narrow(1, 0, shard.first.size(0));
        },
        [](const torch::Tensor& rows) { return rows.sum(); });
  });
  EXPECT_NE(message.find("does not fit together"), std::string::npos) << message;
}

TEST(WholeBatch, ALostDeviceIsReplayed) {
  const auto train = [](bool loses) {
    MirroredOptions how = on(on_sim::sim_devices(3));
    how.where.on_device_failure = OnDeviceFailure::replay;
    Mirrored<models::Mlp> towers(how);
    if (loses) sim::inject({.kind = sim::Fault::Kind::lost, .device = 1, .step = 1, .at = 20});
    for (int step = 0; step < 3; ++step) towers.step(models::vectors(step), rows_of, head);
    return towers.state();
  };
  const State expected = train(false);
  EXPECT_EQ(first_difference(expected, train(true)), "");
}

}  // namespace whole_batch_test
