// Batches that are staged before their step.

#include <mutex>
#include <thread>

#include "on_sim.h"
#include "refusal.h"

namespace stage_test {

using namespace on_sim;

/// Cannot be cut at all, or cannot leave the CPU.
struct Stubborn {
  torch::Tensor data, target;
  bool cuts = true;
  Stubborn shard(int i, int n) const {
    if (!cuts) throw ConfigError("cannot be cut");
    return {batch::part(data, i, n), batch::part(target, i, n)};
  }
  std::int64_t rows() const { return data.size(0); }
};

const auto kLoss = [](models::Mlp& model, const Stubborn& shard) {
  return models::CrossEntropy{}(model, {shard.data, shard.target});
};

Stubborn stubborn(int step, bool cuts = true) {
  const auto [data, target] = models::vectors(step);
  return {data, target, cuts};
}

template <class Towers>
std::string refusal(Towers& towers, const Stubborn& batch) {
  try {
    towers.stage(batch);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Stage, ThrowsWhatTheBatchThrowsAndTheTowersGoOn) {
  Mirrored<models::Mlp> towers(options(cpu_devices(3))), others(options(cpu_devices(3)));
  EXPECT_EQ(refusal(towers, stubborn(0, false)), "cannot be cut");
  EXPECT_EQ(towers.steps(), 0);
  towers.step(towers.stage(stubborn(0)), kLoss);
  others.step(stubborn(0), kLoss);
  EXPECT_EQ(first_difference(others.state(), towers.state()), "");
}

TEST(Stage, ThrowsForABatchThatCannotGetToTheDevice) {
  sim::configure({.devices = 2});
  Mirrored<models::Mlp> towers(options(sim_devices(2)));
  EXPECT_NE(refusal(towers, stubborn(0)).find("to(torch::Device)"), std::string::npos);
}

/// Counts how often it is cut, and by whom.
struct Counted {
  torch::Tensor data, target;
  std::vector<std::thread::id>* cutters;
  Counted shard(int i, int n) const {
    static std::mutex mutex;
    const std::scoped_lock lock(mutex);
    cutters->push_back(std::this_thread::get_id());
    return {batch::part(data, i, n), batch::part(target, i, n), cutters};
  }
  std::int64_t rows() const { return data.size(0); }
};

TEST(Stage, OnTheCpuTheCallersThreadCutsEachShardOnce) {
  Mirrored<models::Mlp> towers(options(cpu_devices(3)));
  std::vector<std::thread::id> cutters;
  const auto [data, target] = models::vectors(0);
  auto staged = towers.stage(Counted{data, target, &cutters});
  const std::vector<std::thread::id> expected(static_cast<std::size_t>(towers.method().shards),
                                              std::this_thread::get_id());
  EXPECT_EQ(cutters, expected);
  towers.step(std::move(staged), [](models::Mlp& model, const Counted& shard) {
    return models::CrossEntropy{}(model, {shard.data, shard.target});
  });
  EXPECT_EQ(cutters, expected);
}

/// Stages a batch while sim:1 fails, and steps on it.
void expect_replayed(sim::Fault::Kind kind, std::size_t towers_left) {
  sim::configure({.devices = 3});
  const Trained expected = train<models::Mlp>(
      options(sim_devices(3)), [](int step) { return models::vectors(step); }, 2);
  sim::configure({.devices = 3});
  MirroredOptions how = options(sim_devices(3));
  how.where.on_device_failure = OnDeviceFailure::replay;
  Mirrored<models::Mlp> towers(how);
  towers.step(models::vectors(0), models::CrossEntropy{});
  const sim::Usage used = sim::usage(1);
  const bool lost = kind == sim::Fault::Kind::lost;
  sim::inject({.kind = kind, .device = 1, .at = lost ? used.operators : used.allocations});
  auto staged = towers.stage(models::vectors(1));
  const StepReport report = towers.step(std::move(staged), models::CrossEntropy{});
  EXPECT_EQ(report.towers.size(), towers_left);
  EXPECT_EQ(first_difference(expected.state, towers.state()), "");
}

TEST(Stage, LeavesADeviceThatIsLostToTheStep) { expect_replayed(sim::Fault::Kind::lost, 2); }

TEST(Stage, LeavesADeviceThatIsOutOfMemoryToTheStep) {
  expect_replayed(sim::Fault::Kind::out_of_memory, 3);
}

struct Masked {
  torch::Tensor data, target, mask;
  auto tensors() { return std::tie(mask, data, target); }
};

TEST(Stage, AnUndefinedTensorStaysUndefinedOnTheDevice) {
  sim::configure({.devices = 2});
  Mirrored<models::Mlp> towers(options(sim_devices(2)));
  const auto [data, target] = models::vectors(0);
  const auto loss = [](models::Mlp& model, const Masked& shard) {
    EXPECT_FALSE(shard.mask.defined());
    return models::CrossEntropy{}(model, {shard.data, shard.target});
  };
  EXPECT_EQ(towers.step(towers.stage(Masked{data, target, {}}), loss).rows, 16);
}

/// A recurrent cell with two layers whose state comes with the batch.
struct Cell : torch::nn::Module {
  Cell() {
    input = register_module("input", torch::nn::Linear(12, 6));
    state = register_module("state", torch::nn::Linear(6, 6));
    head = register_module("head", torch::nn::Linear(6, 5));
  }
  torch::nn::Linear input = nullptr, state = nullptr, head = nullptr;
};

using Parts = std::tuple<models::Batch, Along<std::pair<torch::Tensor, torch::Tensor>>,
                         Whole<torch::Tensor>, List<torch::Tensor>, std::map<std::string, double>,
                         std::optional<torch::Tensor>, torch::Tensor>;

Parts parts(int step) {
  auto random = models::generator(step + 50);
  std::vector<torch::Tensor> pictures;
  for (int i = 0; i < 16; ++i) pictures.push_back(torch::randn({6, i % 3 + 1}, random));
  return {models::vectors(step),
          along(1, std::pair(torch::randn({2, 16, 6}, random), torch::randn({2, 16, 6}, random))),
          whole(torch::randn({6, 6}, random)),
          list(pictures),
          {{"scale", 0.5}},
          std::nullopt,
          torch::tensor(0.25)};
}

torch::Tensor output(Cell& cell, const Parts& shard) {
  const auto& [batch, states, mask, pictures, numbers, none, factor] = shard;
  EXPECT_FALSE(none.has_value());
  EXPECT_TRUE(states.value.first.is_contiguous());
  EXPECT_EQ(states.value.first.size(1), batch.first.size(0));
  std::vector<torch::Tensor> seen;
  for (const torch::Tensor& picture : pictures.items) seen.push_back(picture.mean(1));
  const auto x = cell.input(batch.first) + torch::stack(seen) * factor;
  const auto h = cell.state(states.value.first[0] + states.value.second[1]).matmul(mask.value);
  return cell.head(torch::tanh(x + h * numbers.at("scale")));
}

torch::Tensor cell_loss(Cell& cell, const Parts& shard) {
  return torch::nn::functional::cross_entropy(output(cell, shard), std::get<0>(shard).second);
}

struct CellRun {
  State state;
  double evaluated = 0;
};

CellRun cell_run(std::vector<Device> devices, bool staged) {
  Mirrored<Cell> towers(options(std::move(devices)));
  for (int step = 0; step < 2; ++step)
    staged ? towers.step(towers.stage(parts(step)), cell_loss)
           : towers.step(parts(step), cell_loss);
  const std::vector<Parts> batches{parts(7), parts(8), parts(9)};
  const Metrics metrics = towers.evaluate(batches, [](Cell& cell, const Parts& batch) {
    return Metrics{{"loss", {cell_loss(cell, batch).item<double>(), 1}}};
  });
  return {towers.state(), metrics.at("loss").value()};
}

TEST(Stage, EveryKindOfPartTrainsWithTheSameBitsOnAnyDevices) {
  sim::configure({.devices = 4});
  const CellRun expected = cell_run(cpu_devices(1), false);
  for (const int devices : {1, 2, 3, 4})
    for (const auto& list : {cpu_devices(devices), sim_devices(devices)})
      for (const bool staged : {false, true}) {
        const CellRun run = cell_run(list, staged);
        EXPECT_EQ(first_difference(expected.state, run.state), "") << devices << staged;
        EXPECT_EQ(expected.evaluated, run.evaluated);
      }
}

struct Recurrent : torch::nn::Module {
  Recurrent() {
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(3, 6).num_layers(2)));
  }
  torch::nn::LSTM lstm = nullptr;
};

TEST(Stage, AStateThatIsCutAlongItsLayersGetsAHint) {
  Mirrored<Recurrent> towers({.method = {.shards = 2}, .where = {.devices = cpu_devices(2)}});
  const auto state = torch::zeros({2, 2, 6});  // layers, rows, width
  const auto words = torch::randn({2, 5, 3});
  const auto run = [](Recurrent& model, const torch::Tensor& x, const torch::Tensor& h) {
    return std::get<0>(model.lstm(x.transpose(0, 1), std::tuple(h, h))).mean();
  };
  const std::string message = refusal::message_of([&] {
    towers.step(std::pair(words, state), [&](Recurrent& model, const auto& shard) {
      return run(model, shard.first, shard.second);
    });
  });
  EXPECT_NE(message.find("along(1, state)"), std::string::npos) << message;
  const auto report =
      towers.step(std::pair(words, along(1, state)), [&](Recurrent& model, const auto& shard) {
        return run(model, shard.first, shard.second.value);
      });
  EXPECT_TRUE(report.applied);
}

/// What is said when a loss, or a metric, writes to its shard.
template <class Write>
void expect_write_refused(const std::string& path, const Write& write) {
  sim::configure({.devices = 2});
  for (const auto& list : {cpu_devices(2), sim_devices(2)}) {
    Mirrored<Cell> towers(options(list));
    const State before = towers.state();
    const auto loss = [&](Cell& cell, const Parts& shard) {
      const auto result = cell_loss(cell, shard);
      const torch::NoGradGuard no_grad;
      write(shard);
      return result;
    };
    refusal::expect_refused(refusal::message_of([&] { towers.step(parts(0), loss); }), path,
                            "Loss::output");
    refusal::expect_refused(refusal::message_of([&] {
                              towers.evaluate(std::vector{parts(0)}, [&](Cell& cell, auto& batch) {
                                loss(cell, batch);
                                return Metrics{};
                              });
                            }),
                            path, "clone()");
    EXPECT_EQ(first_difference(before, towers.state()), "");
  }
}

TEST(Stage, ALossThatWritesToItsShardIsRefusedByName) {
  expect_write_refused("get<0>.first",
                       [](const Parts& shard) { std::get<0>(shard).first[0].zero_(); });
  expect_write_refused("get<1>.second",
                       [](const Parts& shard) { std::get<1>(shard).value.second.add_(1); });
  expect_write_refused("get<2>", [](const Parts& shard) { std::get<2>(shard).value.mul_(2); });
  expect_write_refused("get<3>[0]",
                       [](const Parts& shard) { std::get<3>(shard).items[0].fill_(2); });
}

TEST(Stage, ALossMayWriteToACloneOfItsShard) {
  Mirrored<models::Mlp> towers(options(cpu_devices(2)));
  const auto report = towers.step(models::vectors(0), [](models::Mlp& model, const auto& shard) {
    return models::CrossEntropy{}(model, {shard.first.clone().mul_(2), shard.second});
  });
  EXPECT_TRUE(report.applied);
}

TEST(Stage, InferenceTensorsAreNotWatched) {
  Mirrored<models::Mlp> towers(options(cpu_devices(2)));
  models::Batch batch;
  {
    const c10::InferenceMode inference;
    batch = models::vectors(0);
  }
  const auto loss = [](models::Mlp& model, const models::Batch& shard) {
    return models::CrossEntropy{}(model, {shard.first.clone(), shard.second.clone()});
  };
  EXPECT_TRUE(towers.step(batch, loss).applied);
}

}  // namespace stage_test
