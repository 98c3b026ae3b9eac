// The number of machines, and the devices on each, never change the result.

#include <atomic>
#include <cmath>
#include <limits>

#include "on_machines.h"

#include "models.h"

namespace machines_test {

using namespace on_machines;

const std::vector<Layout> kLayouts = {{4}, {2, 2}, {1, 2, 1}, {3, 1}, {2, 1, 3}};

struct Trained {
  State state;
  std::vector<double> losses, norms, metrics;
  std::vector<torch::Tensor> outputs;
  std::vector<std::string> devices;
  std::vector<std::optional<std::int64_t>> rows;
};

/// A loss that brings out metrics and rows.
struct Bringing {
  template <class Model>
  Loss operator()(Model& model, const models::Batch& shard) const {
    const torch::Tensor output = model.forward(shard.first);
    const auto mean =
        torch::nn::functional::cross_entropy(output.flatten(0, -2), shard.second.flatten());
    return Loss::mean(mean)
        .metric("largest", output.detach().max(), 1)
        .output("logits", output.detach());
  }
};

template <class Model, class Source, class LossFn>
Trained train(const MirroredOptions& how, const Source& source, const LossFn& loss, int steps = 6) {
  Mirrored<Model> towers(how);
  Trained run;
  for (int step = 0; step < steps; ++step) {
    const StepResult result = towers.step(source(step), loss);
    run.losses.push_back(std::isnan(result.loss) ? -1 : result.loss);
    run.norms.push_back(result.gradient_norm);
    for (const auto& [name, value] : result.metrics) run.metrics.push_back(value);
    for (const auto& [name, rows] : result.outputs) run.outputs.push_back(rows);
    run.rows.push_back(result.rows);
    run.devices.clear();
    for (const TowerReport& tower : result.towers) run.devices.push_back(tower.device);
  }
  run.state = towers.state();
  return run;
}

void expect_same(const Trained& one, const Trained& other, const std::string& where) {
  EXPECT_EQ(first_difference(one.state, other.state), "") << where;
  EXPECT_EQ(one.losses, other.losses) << where;
  EXPECT_EQ(one.norms, other.norms) << where;
  EXPECT_EQ(one.metrics, other.metrics) << where;
  EXPECT_EQ(one.rows, other.rows) << where;
  ASSERT_EQ(one.outputs.size(), other.outputs.size()) << where;
  for (std::size_t i = 0; i < one.outputs.size(); ++i)
    EXPECT_TRUE(torch::equal(one.outputs[i], other.outputs[i])) << where;
}

/// Trains on every layout and compares with one device, on every machine.
template <class Model, class Source, class LossFn = models::CrossEntropy>
void expect_equal_on_any_machines(const Source& source, int shards,
                                  const std::function<void(MirroredOptions&)>& change = {},
                                  const LossFn& loss = {}) {
  const auto how = [&](int devices, std::shared_ptr<Machines> machines) {
    MirroredOptions made = options(devices, shards, std::move(machines));
    made.where.exchange.bucket_bytes = 16 << 10;  // several of them
    if (change) change(made);
    return made;
  };
  const Trained one = train<Model>(how(1, nullptr), source, loss);
  EXPECT_NE(one.losses.front(), one.losses.back());
  for (const Layout& layout : kLayouts)
    run(machines::threads(static_cast<int>(layout.size())), [&](const auto& machine) {
      const int devices = layout[static_cast<std::size_t>(machine->rank())];
      const Trained many = train<Model>(how(devices, machine), source, loss);
      expect_same(one, many, text(layout) + ", machine " + std::to_string(machine->rank()));
    });
}

TEST(Machines, TrainAnMlpToTheBitsOfOneDevice) {
  for (const int shards : {4, 12})
    expect_equal_on_any_machines<models::Mlp>([](int step) { return models::vectors(step); },
                                              shards);
}

TEST(Machines, TrainBatchNormToTheBitsOfOneDevice) {
  expect_equal_on_any_machines<models::ConvNet>([](int step) { return models::images(step); }, 8);
}

TEST(Machines, TrainDropoutAndAttentionToTheBitsOfOneDevice) {
  expect_equal_on_any_machines<models::Attention>([](int step) { return models::sentences(step); },
                                                  4);
}

TEST(Machines, TrainTiedWeightsToTheBitsOfOneDevice) {
  expect_equal_on_any_machines<models::Tied>([](int step) { return models::sentences(step); }, 4);
}

TEST(Machines, TakeUnevenAndEmptyShards) {
  expect_equal_on_any_machines<models::ConvNet>(
      [](int step) { return models::images(step, 2 + step); }, 8);
}

TEST(Machines, TakeEveryOptimizer) {
  for (const Optimizer& optimizer :
       std::vector<Optimizer>{Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}, AdamW{},
                              RmsProp{.momentum = 0.9, .centered = true}})
    expect_equal_on_any_machines<models::Mlp>(
        [](int step) { return models::vectors(step); }, 4,
        [&](MirroredOptions& how) { how.method.optimizer = optimizer; });
}

TEST(Machines, TakeBfloat16AndFloat16) {
  for (const Precision precision : {Precision::bfloat16, Precision::float16})
    expect_equal_on_any_machines<models::Mlp>(
        [](int step) { return models::vectors(step); }, 4,
        [&](MirroredOptions& how) { how.method.precision = precision; });
}

TEST(Machines, ClipEachShard) {
  expect_equal_on_any_machines<models::Mlp>(
      [](int step) { return models::vectors(step); }, 4,
      [](MirroredOptions& how) { how.method.clip = {.per_shard_norm = 0.3}; });
}

TEST(Machines, BringOutMetricsAndRowsInTheOrderOfTheBatch) {
  expect_equal_on_any_machines<models::Mlp>([](int step) { return models::vectors(step); }, 4, {},
                                            Bringing{});
}

/// A model that leaves a parameter without a gradient in some steps.
struct Sparse : torch::nn::Module {
  Sparse() {
    used = register_module("used", torch::nn::Linear(12, 5));
    rare = register_module("rare", torch::nn::Linear(12, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = used(x);
    return x[0][0].item<float>() > 0.3 ? y + rare(x) : y;  // decided by the shard's first row
  }
  torch::nn::Linear used = nullptr, rare = nullptr;
};

TEST(Machines, TellAParameterWithoutAGradientFromOneThatIsZero) {
  expect_equal_on_any_machines<Sparse>([](int step) { return models::vectors(step); }, 8);
}

TEST(Machines, ComputeALossOverTheWholeBatch) {
  const auto rows = [](models::Mlp& model, const models::Batch& shard) {
    return std::pair(model.forward(shard.first), shard.second);
  };
  const auto head = [](const models::Batch& all) {
    const torch::Tensor logits = all.first - all.first.mean(0, true);  // every row takes part
    return torch::nn::functional::cross_entropy(logits, all.second);
  };
  expect_equal_on_any_machines<models::Mlp>([](int step) { return models::vectors(step); }, 4, {},
                                            whole_batch(rows, head));
}

TEST(Machines, SkipAStepThatIsNotFinite) {
  const auto source = [](int step) {
    models::Batch batch = models::vectors(step);
    if (step == 2) batch.first[15][0] = std::numeric_limits<float>::infinity();
    return batch;
  };
  expect_equal_on_any_machines<models::Mlp>(
      source, 4, [](MirroredOptions& how) { how.method.non_finite = NonFinite::skip; });
}

TEST(Machines, BalanceShardsAmongThem) {
  expect_equal_on_any_machines<models::Mlp>(
      [](int step) { return models::vectors(step); }, 12,
      [](MirroredOptions& how) { how.where.balance = Balance::automatic; });
}

TEST(Machines, NameTheirDevicesInReports) {
  run(machines::threads(2, {"alpha", "beta"}), [&](const auto& machine) {
    const int devices = machine->rank() == 0 ? 2 : 1;
    const Trained run = train<models::Mlp>(
        options(devices, 4, machine), [](int step) { return models::vectors(step); },
        models::CrossEntropy{}, 1);
    EXPECT_EQ(run.devices, (std::vector<std::string>{"alpha/cpu:0", "alpha/cpu:1", "beta/cpu:0"}));
  });
}

TEST(Machines, ResumeOnOthers) {
  const auto source = [](int step) { return models::images(step); };
  const auto steps = [&](Mirrored<models::ConvNet>& towers, int from, int to) {
    for (int step = from; step < to; ++step) towers.step(source(step), models::CrossEntropy{});
  };
  Mirrored<models::ConvNet> whole(options(1, 4, nullptr));
  steps(whole, 0, 3);
  const State middle = whole.state();
  steps(whole, 3, 6);
  const State end = whole.state();
  run(machines::threads(3), [&](const auto& machine) {  // from one to three
    Mirrored<models::ConvNet> towers(options(1 + machine->rank() % 2, 4, machine));
    towers.load(middle);
    steps(towers, 3, 6);
    EXPECT_EQ(first_difference(end, towers.state()), "");
  });
  State of_two;
  run(machines::threads(2), [&](const auto& machine) {  // and back
    Mirrored<models::ConvNet> towers(options(2, 4, machine));
    steps(towers, 0, 3);
    const State state = towers.state();
    if (machine->rank() == 1) of_two = state;
  });
  Mirrored<models::ConvNet> again(options(1, 4, nullptr));
  again.load(of_two);
  steps(again, 3, 6);
  EXPECT_EQ(first_difference(end, again.state()), "");
}

TEST(Machines, EvaluateAveragedWeights) {
  const auto metric = [](models::Mlp& model, const models::Batch& batch) {
    return Metrics{{"sum", {model.forward(batch.first).sum().template item<double>(), 1.0}}};
  };
  const auto evaluated = [&](Mirrored<models::Mlp>& towers) {
    for (int step = 0; step < 3; ++step) towers.step(models::vectors(step), models::CrossEntropy{});
    Metrics result;
    towers.with_averaged_weights([&] {
      result = towers.evaluate(std::vector{models::vectors(7), models::vectors(8)}, metric);
    });
    towers.step(models::vectors(3), models::CrossEntropy{});
    return std::pair(result, towers.state());
  };
  Mirrored<models::Mlp> alone(options(1, 4, nullptr));
  const auto one = evaluated(alone);
  run(machines::threads(2), [&](const auto& machine) {
    Mirrored<models::Mlp> towers(options(2, 4, machine));
    const auto two = evaluated(towers);
    EXPECT_EQ(one.first, two.first);
    EXPECT_EQ(first_difference(one.second, two.second), "");
  });
}

/// The result of one batch, drawn at random; `Kept` does not travel.
struct Drawn {
  double sum = 0;
  std::vector<std::int64_t> labels = {};
  Drawn& operator+=(const Drawn& other) {
    sum = sum / 2 + other.sum;  // their order counts
    labels.insert(labels.end(), other.labels.begin(), other.labels.end());
    return *this;
  }
  auto fields() { return std::tie(sum, labels); }
};
struct Kept {
  double sum = 0;
  const void* where = nullptr;
  Kept& operator+=(const Kept& other) {
    sum = sum / 2 + other.sum;
    return *this;
  }
};

std::vector<models::Batch> five_batches() {
  std::vector<models::Batch> batches;
  for (int i = 0; i < 5; ++i) batches.push_back(models::vectors(20 + i));
  return batches;
}

TEST(Machines, ShareTheBatchesOfAnEvaluation) {
  static_assert(Travels<Drawn> && Travels<Metrics> && !Travels<Kept>);
  const auto drawn = [](std::atomic<int>& calls) {
    return [&calls](models::Mlp& model, const models::Batch& batch) {
      ++calls;
      const auto label = batch.second[0].item<std::int64_t>();
      return Drawn{(model.forward(batch.first).sum() + torch::rand({})).item<double>(), {label}};
    };
  };
  const auto kept = [](std::atomic<int>& calls) {
    return [&calls](models::Mlp& model, const models::Batch& batch) {
      ++calls;
      return Kept{model.forward(batch.first).sum().item<double>()};
    };
  };
  std::atomic<int> alone_calls = 0;
  Mirrored<models::Mlp> alone(options(1, 4, nullptr));
  const Drawn one = alone.evaluate(five_batches(), drawn(alone_calls));
  const Kept one_kept = alone.evaluate(five_batches(), kept(alone_calls));
  EXPECT_EQ(alone_calls, 10);
  std::atomic<int> all_calls = 0;
  run(machines::threads(2), [&](const auto& machine) {
    Mirrored<models::Mlp> towers(options(2, 4, machine));
    std::atomic<int> calls = 0;
    const Drawn two = towers.evaluate(five_batches(), drawn(calls));
    EXPECT_EQ(calls, machine->rank() == 0 ? 3 : 2);
    EXPECT_EQ(one.sum, two.sum);
    EXPECT_EQ(one.labels, two.labels);
    EXPECT_EQ(one_kept.sum, towers.evaluate(five_batches(), kept(all_calls)).sum);
    EXPECT_TRUE(towers.evaluate(std::vector<models::Batch>{}, drawn(calls)).labels.empty());
  });
  EXPECT_EQ(all_calls, 10) << "what does not travel is evaluated by each of them";
}

TEST(Machines, AllThrowWhatAnEvaluationOnOneOfThemMet) {
  const auto thrown = run_all(machines::threads(2, {"alpha", "beta"}), [](const auto& machine) {
    Mirrored<models::Mlp> towers(options(1, 4, machine));
    towers.evaluate(five_batches(), [&](models::Mlp&, const models::Batch&) {
      if (machine->rank() == 1) throw std::runtime_error("a bad metric");
      return Metrics{};
    });
  });
  for (const auto& each : thrown)
    EXPECT_NE(what(each).find("a bad metric"), std::string::npos) << what(each);
}

TEST(Machines, HandOutGradients) {
  const auto how = [](int devices, const std::shared_ptr<Machines>& machine) {
    MirroredOptions made = options(devices, 4, machine);
    made.method.moving_average.reset();
    return made;
  };
  Mirrored<models::Mlp> alone(how(1, nullptr));
  alone.gradients(models::vectors(0), models::CrossEntropy{});
  run(machines::threads(2), [&](const auto& machine) {
    Mirrored<models::Mlp> towers(how(2, machine));
    towers.gradients(models::vectors(0), models::CrossEntropy{});
    const auto ours = towers.model().parameters(), theirs = alone.model().parameters();
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(torch::equal(ours[i].grad(), theirs[i].grad()));
  });
}

}  // namespace machines_test
