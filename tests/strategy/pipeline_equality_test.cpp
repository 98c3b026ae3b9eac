// The promise, for stages: their number never changes the result, bit for bit.

#include "strategy/on_pipeline.h"

namespace pipeline_equality_test {

using namespace on_pipeline;

constexpr int kSteps = 3;

class PipelineEquality : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = 8}); }
};

struct Shape {
  std::vector<Device> devices;
  int stages;
  bool recompute = false;
};

std::string name_of(const Shape& shape) {
  return shape.devices.front().name() + " and so on, " + std::to_string(shape.devices.size()) +
         " devices, " + std::to_string(shape.stages) + " stages" +
         (shape.recompute ? ", recomputed" : "");
}

/// What one device of the same kind comes to.
template <class Model, class Source>
Trained alone(MirroredOptions how, const Shape& shape, const Source& source) {
  how.where.devices = {shape.devices.front()};
  return train<Model>(how, source, kSteps);
}

template <class Source>
void expect_deep_equal(const MirroredOptions& like, const Source& source,
                       const std::vector<Shape>& shapes) {
  for (const Shape& shape : shapes) {
    const Trained expected = alone<Deep>(like, shape, source);
    EXPECT_NE(expected.losses.front(), expected.losses.back());
    with_deep(shape.stages, [&](const auto& loss) {
      const auto how = piped(like, shape.devices, shape.stages, shape.recompute);
      expect_same(expected, train_piped<Deep>(how, source, kSteps, loss), name_of(shape));
    });
  }
}

Batch vectors(int step) { return models::vectors(step, 24); }

TEST_F(PipelineEquality, DropoutAndBatchNormAreTheSameBitForBitOn1To4CpuStages) {
  expect_deep_equal(
      options({}), vectors,
      {{cpu_devices(1), 1}, {cpu_devices(2), 2}, {cpu_devices(3), 3}, {cpu_devices(4), 4}});
}

TEST_F(PipelineEquality, DropoutAndBatchNormAreTheSameBitForBitOnSimulatedDevices) {
  expect_deep_equal(options({}), vectors,
                    {{sim_devices(1), 1}, {sim_devices(2), 2}, {sim_devices(4), 4}});
}

TEST_F(PipelineEquality, StagesTimesReplicasAreTheSameBitForBit) {
  expect_deep_equal(
      options({}), vectors,
      {{cpu_devices(4), 2}, {sim_devices(4), 2}, {cpu_devices(6), 2}, {sim_devices(6), 3}});
}

TEST_F(PipelineEquality, FewerShardsThanStagesOrReplicasAreTheSameBitForBit) {
  for (const int shards : {1, 3}) {
    MirroredOptions how = options({});
    how.method.shards = shards;
    expect_deep_equal(how, vectors,
                      {{cpu_devices(4), 4}, {sim_devices(4), 4}, {sim_devices(4), 2}});
  }
}

TEST_F(PipelineEquality, AHolderFromAFunctionIsTheSameBitForBit) {
  const auto make = [] {
    return nn::Sequential(nn::Linear(12, 20), nn::BatchNorm1d(20), nn::Tanh(), nn::Linear(20, 5));
  };
  const auto loss = sequential_stages<nn::Sequential, Batch>(
      [](nn::Sequential& net) -> nn::Sequential& { return net; },
      [](const Batch& b) { return b.first; },
      [](nn::Sequential&, const Tensor& out, const Batch& b) {
        return cross_entropy(out, b.second);
      });
  auto whole = Mirrored<nn::Sequential>::from(options(cpu_devices(1)), make);
  auto parts = Pipeline<nn::Sequential>::from(piped(options({}), sim_devices(2), 2), make);
  for (int step = 0; step < kSteps; ++step) {
    whole.step(vectors(step), [](nn::Sequential& net, const Batch& b) {
      return cross_entropy(net->forward(b.first), b.second);
    });
    parts.step(vectors(step), loss);
  }
  EXPECT_EQ(first_difference(whole.state(), parts.state()), "");
}

TEST_F(PipelineEquality, RecomputedActivationsAreTheSameBitForBit) {
  expect_deep_equal(
      options({}), vectors,
      {{cpu_devices(3), 3, true}, {sim_devices(4), 4, true}, {sim_devices(4), 2, true}});
}

TEST_F(PipelineEquality, MoreShardsInFlightAreTheSameBitForBit) {
  const Trained expected = alone<Deep>(options({}), {sim_devices(1), 1}, vectors);
  with_deep(4, [&](const auto& loss) {
    PipelineOptions how = piped(options({}), sim_devices(4), 4);
    how.ahead = 1;
    expect_same(expected, train_piped<Deep>(how, vectors, kSteps, loss), "one ahead");
  });
}

TEST_F(PipelineEquality, UnevenAndEmptyShardsAreTheSameBitForBit) {
  // A batch norm takes no single row in training; 5 rows in 8 shards leave some empty.
  const auto few = [](int step) { return models::images(step, 5 + step); };
  const auto loss =
      stages([](models::ConvNet& net, const Batch& b) { return net.conv(b.first); },
             [](models::ConvNet& net, const Batch& b, const Tensor& x) {
               return cross_entropy(net.head(torch::relu(net.norm(x)).mean({2, 3})), b.second);
             });
  for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(2), 2}, {sim_devices(6), 2}})
    expect_same(
        alone<models::ConvNet>(options({}), shape, few),
        train_piped<models::ConvNet>(piped(options({}), shape.devices, 2), few, kSteps, loss),
        name_of(shape));
}

TEST_F(PipelineEquality, TiedWeightsOnTwoAndThreeStagesAreTheSameBitForBit) {
  const auto source = [](int step) { return models::sentences(step); };
  const auto embed = [](models::Tied& net, const Batch& b) { return net.embedding(b.first); };
  const auto mix = [](models::Tied& net, const Tensor& x) { return torch::tanh(net.mix(x)); };
  const auto project = [](models::Tied& net, const Batch& b, const Tensor& x) {
    return cross_entropy(torch::matmul(x, net.output.t()), b.second);
  };
  const auto both = [=](models::Tied& net, const Batch& b, const Tensor& x) {
    return project(net, b, mix(net, x));
  };
  for (const bool recompute : {false, true})
    for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(2), 2}, {sim_devices(4), 2}})
      expect_same(alone<models::Tied>(options({}), shape, source),
                  train_piped<models::Tied>(piped(options({}), shape.devices, 2, recompute), source,
                                            kSteps, stages(embed, both)),
                  name_of(shape));
  for (const Precision precision : {Precision::float32, Precision::bfloat16})
    for (const Shape& shape :
         {Shape{cpu_devices(3), 3}, {sim_devices(3), 3}, {sim_devices(6), 3}}) {
      MirroredOptions how = options({});
      how.method.precision = precision;
      expect_same(alone<models::Tied>(how, shape, source),
                  train_piped<models::Tied>(piped(how, shape.devices, 3), source, kSteps,
                                            stages(embed, mix, project)),
                  name_of(shape));
    }
}

TEST_F(PipelineEquality, AnLstmWithDropoutIsTheSameBitForBit) {
  const auto source = [](int step) { return models::sentences(step); };
  const auto loss = stages(
      [](models::Attention& net, const Batch& b) {
        return std::get<0>(net.lstm(net.dropout(net.embedding(b.first))));
      },
      [](models::Attention& net, const Batch& b, const Tensor& memory) {
        const auto scores = torch::bmm(memory, memory.transpose(1, 2)).softmax(-1);
        return cross_entropy(net.head(torch::cat({torch::bmm(scores, memory), memory}, -1)),
                             b.second);
      });
  for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(2), 2}})
    expect_same(
        alone<models::Attention>(options({}), shape, source),
        train_piped<models::Attention>(piped(options({}), shape.devices, 2), source, kSteps, loss),
        name_of(shape));
}

TEST_F(PipelineEquality, EveryWayToDrawRandomNumbersIsTheSameBitForBit) {
  const auto source = [](int step) { return models::sentences(step); };
  const auto loss = stages(
      [](models::Noisy& net, const Batch& b) {
        auto x = torch::dropout(net.embedding(b.first), 0.2, net.is_training());
        x = x + 0.1 * torch::randn_like(x);
        return torch::scaled_dot_product_attention(x, x, x, {}, 0.3);
      },
      [](models::Noisy& net, const Batch& b, const Tensor& in) {
        const Tensor x = torch::alpha_dropout(in, 0.1, net.is_training());
        return cross_entropy(net.output(torch::feature_dropout(x, 0.2, net.is_training())),
                             b.second);
      });
  for (const bool recompute : {false, true})
    for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(2), 2}})
      expect_same(alone<models::Noisy>(options({}), shape, source),
                  train_piped<models::Noisy>(piped(options({}), shape.devices, 2, recompute),
                                             source, kSteps, loss),
                  name_of(shape));
}

TEST_F(PipelineEquality, MixedPrecisionAndLossScalingAreTheSameBitForBit) {
  struct Mode {
    Precision precision;
    double scale;
  };
  for (const Mode& mode : {Mode{Precision::bfloat16, 1},
                           {Precision::float16, 64},
                           {Precision::float16, 1 << 24}}) {  // which overflows
    MirroredOptions how = options({});
    how.method.precision = mode.precision;
    how.method.loss_scaling = {.initial = mode.scale, .growth_interval = 1};
    for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(4), 2}}) {
      const Trained expected = alone<Deep>(how, shape, vectors);
      EXPECT_EQ(expected.state.updates, mode.scale > 64 ? 0 : kSteps);
      with_deep(2, [&](const auto& loss) {
        const auto found = train_piped<Deep>(piped(how, shape.devices, 2), vectors, kSteps, loss);
        EXPECT_EQ(expected.losses, found.losses) << name_of(shape);
        EXPECT_EQ(first_difference(expected.state, found.state), "") << name_of(shape);
      });
    }
  }
}

/// Blocks that stages share, also twice, and several of their own; parameters of two types.
struct Blocks : nn::Module {
  Blocks() {
    a = register_module("a", nn::Linear(12, 700));
    c = register_module("c", nn::Linear(90, 5));
    b = register_module("b", nn::Linear(700, 90));
    d = register_module("d", nn::Linear(700, 90));
    unused = register_module("unused", nn::Linear(70, 80));
    shift = register_parameter("shift", torch::zeros({12}));  // in the first stage, as `a` is
    frozen = register_parameter("frozen", torch::full({90}, 0.5), false);
    scale = register_parameter("scale", torch::ones({}, torch::kFloat64));
    d->to(torch::kFloat64);
  }
  Tensor first(const Tensor& x) { return torch::relu(a(x + shift)); }
  Tensor second(const Tensor& x) {
    return b(x) * frozen + (d(x.to(torch::kFloat64)) * scale).to(torch::kFloat32);
  }
  Tensor forward(const Tensor& x) { return c(second(first(x))); }
  nn::Linear a = nullptr, b = nullptr, c = nullptr, d = nullptr, unused = nullptr;
  Tensor shift, frozen, scale;
};

auto blocks_loss() {
  return stages([](Blocks& net, const Batch& b) { return net.first(b.first); },
                [](Blocks& net, const Tensor& x) { return net.second(x); },
                [](Blocks& net, const Batch& b, const Tensor& x) {
                  return cross_entropy(net.c(x), b.second);
                });
}

TEST_F(PipelineEquality, EveryOptimizerGroupsAndRulesAreTheSameBitForBit) {
  for (const Optimizer& optimizer : std::vector<Optimizer>{
           Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}, Sgd{}, AdamW{.amsgrad = true},
           Adagrad{}, RmsProp{.momentum = 0.9, .centered = true}}) {
    MirroredOptions how = options({});
    how.method.optimizer = optimizer;
    how.method.groups = {{"b.*", RmsProp{.lr = 1e-3}}};
    how.method.rules = {{.pattern = "*.bias", .lr_factor = 2, .weight_decay = 0}};
    for (const Shape& shape : {Shape{cpu_devices(3), 3}, {sim_devices(6), 3}})
      expect_same(alone<Blocks>(how, shape, vectors),
                  train_piped<Blocks>(piped(how, shape.devices, 3), vectors, kSteps, blocks_loss()),
                  name_of(shape) + ", optimizer " + std::to_string(optimizer.index()));
  }
}

TEST_F(PipelineEquality, ClippingEachShardIsTheSameBitForBit) {
  MirroredOptions how = options({});
  how.method.clip = {.per_shard_norm = 0.3};
  const auto few = [](int step) { return models::vectors(step, step == 1 ? 5 : 24); };
  for (const Shape& shape : {Shape{cpu_devices(3), 3}, {sim_devices(6), 3}})
    expect_same(alone<Blocks>(how, shape, few),
                train_piped<Blocks>(piped(how, shape.devices, 3), few, kSteps, blocks_loss()),
                name_of(shape));
}

TEST_F(PipelineEquality, BucketsAndPacksDoNotChangeABit) {
  for (const Exchanging& exchange : std::vector<Exchanging>{
           {.bucket_bytes = 16 << 10}, {.bucket_bytes = 32 << 10, .group = 1, .packs = 2}}) {
    MirroredOptions how = options({});
    how.where.exchange = exchange;
    const Shape shape{sim_devices(6), 3};
    expect_same(alone<Blocks>(how, shape, vectors),
                train_piped<Blocks>(piped(how, shape.devices, 3), vectors, kSteps, blocks_loss()),
                name_of(shape));
  }
}

/// A buffer that both parts change, and that the second reads as the first left it.
struct Counting : nn::Module {
  Counting() {
    linear = register_module("linear", nn::Linear(12, 5));
    seen = register_buffer("seen", torch::ones({5}));
  }
  Tensor first(const Tensor& x) {
    const Tensor y = linear(x);
    seen.add_(y.detach().abs().mean(0));
    return y;
  }
  Tensor second(const Tensor& y) {
    const Tensor z = y / seen.clone();
    seen.mul_(1.5);
    return z;
  }
  Tensor forward(const Tensor& x) { return second(first(x)); }
  nn::Linear linear = nullptr;
  Tensor seen;
};

TEST_F(PipelineEquality, ABufferThatTwoStagesChangeIsTheSameBitForBit) {
  const auto loss = stages([](Counting& net, const Batch& b) { return net.first(b.first); },
                           [](Counting& net, const Batch& b, const Tensor& y) {
                             return cross_entropy(net.second(y), b.second);
                           });
  for (const bool recompute : {false, true})
    for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(4), 2}})
      expect_same(alone<Counting>(options({}), shape, vectors),
                  train_piped<Counting>(piped(options({}), shape.devices, 2, recompute), vectors,
                                        kSteps, loss),
                  name_of(shape));
}

/// What crosses has gaps, is one tensor twice, is written in place on the other side, and comes
/// with a tensor without a gradient.
struct Crossings : nn::Module {
  Crossings() {
    a = register_module("a", nn::Linear(12, 30));
    b = register_module("b", nn::Linear(10, 5));
  }
  nn::Linear a = nullptr, b = nullptr;
  std::map<std::string, std::vector<Tensor>> first(const Tensor& x) {
    const Tensor y = a(x), z = y.narrow(1, 3, 10);
    return {{"twice", {z, z, torch::arange(10, torch::kInt64)}},
            {"wide", {y.narrow(1, 0, 1).expand({y.size(0), 10}), torch::Tensor()}}};
  }
  Tensor second(std::map<std::string, std::vector<Tensor>> in) {
    const Tensor &one = in["twice"][0], &two = in["twice"][1], &order = in["twice"][2];
    const Tensor y = torch::tanh(two) * one + one.index_select(1, order);
    Tensor w = in["wide"][0] * 2;
    return b(y + w.relu_() + two);
  }
  Tensor forward(const Tensor& x) { return second(first(x)); }
};

TEST_F(PipelineEquality, WhatCrossesMayHaveAnyForm) {
  const auto loss =
      stages([](Crossings& net, const Batch& b) { return net.first(b.first); },
             [](Crossings& net, const Batch& b, std::map<std::string, std::vector<Tensor>> in) {
               return cross_entropy(net.second(std::move(in)), b.second);
             });
  for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(2), 2}})
    expect_same(alone<Crossings>(options({}), shape, vectors),
                train_piped<Crossings>(piped(options({}), shape.devices, 2), vectors, kSteps, loss),
                name_of(shape));
}

TEST_F(PipelineEquality, StatesGoFromMirroredToPipelineAndBack) {
  MirroredOptions one = options(cpu_devices(1));
  one.method.groups = {{"head.*", Sgd{.lr = 0.1, .momentum = 0.9}}};
  constexpr int kMore = 6;
  const Trained whole = train<Deep>(one, vectors, kMore);
  for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(4), 2}})
    with_deep(2, [&](const auto& loss) {
      const PipelineOptions how = piped(one, shape.devices, 2);
      Mirrored<Deep> first(one);
      for (int step = 0; step < 2; ++step) first.step(vectors(step), models::CrossEntropy{});
      Pipeline<Deep> second(how);
      const State given = first.state();
      second.load(given);
      State taken = second.state();
      taken.gradients = given.gradients;  // of a step that it did not take
      EXPECT_EQ(first_difference(given, taken), "");
      for (int step = 2; step < 4; ++step) second.step(vectors(step), loss);
      Pipeline<Deep> third(how);
      third.step(vectors(77), loss);  // has its stages already
      third.load(second.state());
      third.step(vectors(4), loss);
      Mirrored<Deep> last(one);
      last.load(third.state());
      last.step(vectors(5), models::CrossEntropy{});
      EXPECT_EQ(first_difference(whole.state, last.state()), "") << name_of(shape);
    });
}

TEST_F(PipelineEquality, AStateBeforeTheFirstStepIsThatOfMirrored) {
  MirroredOptions one = options(cpu_devices(1));
  one.method.optimizer = Adagrad{.initial_accumulator = 0.1};
  Mirrored<Deep> whole(one);
  Pipeline<Deep> parts(piped(one, sim_devices(2), 2));
  EXPECT_EQ(first_difference(whole.state(), parts.state()), "");
}

TEST_F(PipelineEquality, StepsOnSomeParametersAndFrozenOnesAreTheSameBitForBit) {
  const auto run = [](auto& towers, const auto& loss) {
    towers.set_trainable("linear1.*", false);
    towers.step(vectors(0), loss);
    towers.step(vectors(1), loss, {.update = "linear0.*", .phase = "first"});
    towers.set_trainable("linear1.*", true);
    towers.set_learning_rate(0.02);
    towers.step(vectors(2), loss);
    towers.reset_slots("norm*");
    towers.set_optimizer(Adam{.lr = 0.01, .beta1 = 0.8});
    towers.step(vectors(3), loss);
    return towers.state();
  };
  for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(4), 4}}) {
    Mirrored<Deep> whole(options({shape.devices.front()}));
    const State expected = run(whole, models::CrossEntropy{});
    with_deep(shape.stages, [&](const auto& loss) {
      Pipeline<Deep> parts(piped(options({}), shape.devices, shape.stages));
      EXPECT_EQ(first_difference(expected, run(parts, loss)), "") << name_of(shape);
    });
  }
}

TEST_F(PipelineEquality, WhatTheCallerWritesToTheModelIsTakenOver) {
  const auto run = [](auto& towers, const auto& loss) {
    for (int step = 0; step < 3; ++step) {
      towers.step(vectors(step), loss);
      const torch::NoGradGuard no_grad;
      towers.model().linear[1]->weight.mul_(0.5);
      towers.model().head->bias.data().add_(0.25);  // LibTorch counts no version here
      towers.model().norm[2]->running_mean.add_(1);
      if (step == 1) towers.model().drop->eval();
    }
    return towers.state();
  };
  for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(2), 2}}) {
    Mirrored<Deep> whole(options({shape.devices.front()}));
    const State expected = run(whole, models::CrossEntropy{});
    with_deep(2, [&](const auto& loss) {
      Pipeline<Deep> parts(piped(options({}), shape.devices, 2));
      EXPECT_EQ(first_difference(expected, run(parts, loss)), "") << name_of(shape);
    });
  }
}

TEST_F(PipelineEquality, MetricsRowsAndEvaluationAreThoseOfMirrored) {
  const auto results = [](auto& towers, const auto& loss) {
    std::vector<double> values;
    for (int step = 0; step < 2; ++step) {
      const StepResult result = towers.step(vectors(step), loss);
      values.push_back(result.metrics.at("mean"));
      values.push_back(result.outputs.at("rows").to(torch::kFloat64).sum().item<double>());
      values.push_back(static_cast<double>(result.outputs.at("rows").size(0)));
      values.push_back(static_cast<double>(*result.rows));
    }
    std::vector<Batch> batches;
    for (int i = 0; i < 5; ++i) batches.push_back(vectors(100 + i));
    const auto metric = [](Deep& net, const Batch& b) {
      return Mean{models::CrossEntropy{}(net, b).template item<double>(), 1};
    };
    values.push_back(towers.evaluate(batches, metric).value());
    towers.with_averaged_weights(
        [&] { values.push_back(towers.evaluate(batches, metric).value()); });
    values.push_back(towers.evaluate(batches, metric).value());
    return values;
  };
  const auto last = [](Deep& net, const Batch& b, const Deep::Middle& in) {
    const Tensor out = net.finish(in);
    return Loss::mean(cross_entropy(out, b.second)).metric("mean", out.mean()).output("rows", out);
  };
  const auto first = [](Deep& net, const Batch& b) { return net.parts(0, 4, {b.first, {}}); };
  Mirrored<Deep> whole(options(cpu_devices(1)));
  const auto expected =
      results(whole, [=](Deep& net, const Batch& b) { return last(net, b, first(net, b)); });
  EXPECT_NE(expected[8], expected[9]);
  EXPECT_EQ(expected[8], expected[10]);
  for (const Shape& shape : {Shape{cpu_devices(2), 2}, {sim_devices(4), 2}}) {
    Pipeline<Deep> parts(piped(options({}), shape.devices, 2));
    EXPECT_EQ(results(parts, stages(first, last)), expected) << name_of(shape);
  }
}

}  // namespace pipeline_equality_test
