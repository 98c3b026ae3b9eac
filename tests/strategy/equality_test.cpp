// The promise: the number of devices never changes the result, bit for bit.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include "models.h"

namespace equality_test {

using namespace lockstep;

constexpr int kShards = 8;
constexpr int kSteps = 20;

MirroredOptions options(int devices) {
  return {.method = {.shards = kShards,
                     .optimizer = Adam{.lr = 1e-2, .weight_decay = 1e-3},
                     .clip = {.global_norm = 0.1},
                     .moving_average = MovingAverage{.decay = 0.9, .warm_up = true},
                     .seed = 7},
          .where = {.devices = cpu_devices(devices)}};
}

struct Trained {
  State state;
  std::vector<double> losses, norms;
  int clipped = 0;
};

template <class Model, class Source>
Trained train(const MirroredOptions& how, const Source& source) {
  Mirrored<Model> towers(how);
  Trained run;
  for (int step = 0; step < kSteps; ++step) {
    const StepReport report = towers.step(source(step), models::CrossEntropy{});
    run.losses.push_back(report.loss);
    run.norms.push_back(report.gradient_norm);
    run.clipped += report.clipped;
  }
  run.state = towers.state();
  return run;
}

template <class Model, class Source>
void expect_equal_on_any_number_of_devices(const Source& source) {
  const Trained one = train<Model>(options(1), source);
  EXPECT_GT(one.clipped, 0);
  EXPECT_NE(one.losses.front(), one.losses.back());
  EXPECT_FALSE(one.state.slots.empty());
  EXPECT_FALSE(one.state.averages.empty());
  for (const int devices : {1, 2, 3, 4, 8}) {  // 1: the second run
    const Trained many = train<Model>(options(devices), source);
    EXPECT_EQ(one.losses, many.losses) << devices << " devices";
    EXPECT_EQ(one.norms, many.norms) << devices << " devices";
    EXPECT_EQ(first_difference(one.state, many.state), "") << devices << " devices";
  }
}

TEST(Mirrored, AnMlpIsTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<models::Mlp>(
      [](int step) { return models::vectors(step); });
}

TEST(Mirrored, AConvnetWithBatchNormIsTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<models::ConvNet>(
      [](int step) { return models::images(step); });
}

TEST(Mirrored, AnLstmWithDropoutAndAttentionIsTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<models::Attention>(
      [](int step) { return models::sentences(step); });
}

TEST(Mirrored, TiedWeightsAreTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<models::Tied>(
      [](int step) { return models::sentences(step); });
}

TEST(Mirrored, UnevenAndEmptyShardsAreTheSameBitForBitOn1To8Devices) {
  // 5 to 13 rows in 8 shards.
  expect_equal_on_any_number_of_devices<models::ConvNet>(
      [](int step) { return models::images(step, 5 + step % 9); });
}

TEST(Mirrored, EveryOptimizerIsTheSameBitForBitOn1And3Devices) {
  for (const Optimizer& optimizer : std::vector<Optimizer>{
           Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}, AdamW{}, Adagrad{},
           RmsProp{.momentum = 0.9, .centered = true}, tensorflow_rms_prop(0.01, 0.9, 0.9, 1.0)}) {
    MirroredOptions one = options(1), three = options(3);
    one.method.optimizer = three.method.optimizer = optimizer;
    const auto source = [](int step) { return models::vectors(step); };
    EXPECT_EQ(first_difference(train<models::Mlp>(one, source).state,
                               train<models::Mlp>(three, source).state),
              "")
        << "optimizer " << optimizer.index();
  }
}

TEST(Mirrored, ClippingEachShardIsTheSameBitForBitOn1And3Devices) {
  MirroredOptions one = options(1), three = options(3);
  one.method.clip = three.method.clip = {.per_shard_norm = 0.3};
  const auto source = [](int step) { return models::vectors(step); };
  EXPECT_EQ(first_difference(train<models::Mlp>(one, source).state,
                             train<models::Mlp>(three, source).state),
            "");
}

/// One model of three dtypes, side by side.
struct Mixed : torch::nn::Module {
  Mixed() {
    a = register_module("a", torch::nn::Linear(12, 70));
    b = register_module("b", torch::nn::Linear(70, 90));
    c = register_module("c", torch::nn::Linear(90, 5));
    b->to(torch::kFloat64);
    c->to(torch::kBFloat16);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = torch::relu(b(torch::relu(a(x)).to(torch::kFloat64)));
    return c(y.to(torch::kBFloat16)).to(torch::kFloat32);
  }
  torch::nn::Linear a = nullptr, b = nullptr, c = nullptr;
};

TEST(Mirrored, ThreeDtypesSideBySideAreTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<Mixed>([](int step) { return models::vectors(step); });
}

/// Autograd leaves p and q with gradients that are views of one tensor.
struct Aliased : torch::nn::Module {
  Aliased() {
    p = register_parameter("p", torch::ones({6, 10}));
    q = register_parameter("q", torch::ones({10, 6}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::matmul(x, p.view({12, 5}) + q.view({12, 5}));
  }
  torch::Tensor p, q;
};

TEST(Mirrored, GradientsThatShareMemoryAreTheSameBitForBitOn1To8Devices) {
  expect_equal_on_any_number_of_devices<Aliased>([](int step) { return models::vectors(step); });
  MirroredOptions how = options(1);
  how.method.clip = {};
  Mirrored<Aliased> many(how);
  how.method.shards = 1;
  Mirrored<Aliased> one(how);
  for (auto* towers : {&many, &one}) towers->step(models::vectors(0), models::CrossEntropy{});
  // Only the order of float32 sums differs.
  EXPECT_TRUE(
      torch::allclose(many.state().gradients[0].value, one.state().gradients[0].value, 1e-4, 1e-7));
}

TEST(Mirrored, DropoutDependsOnTheSeed) {
  const auto source = [](int step) { return models::sentences(step); };
  MirroredOptions other = options(2);
  const Trained a = train<models::Attention>(other, source);
  other.method.seed = 8;
  EXPECT_NE(first_difference(a.state, train<models::Attention>(other, source).state), "");
}

/// The model trained by a plain single-device program.
template <class Model, class Source>
Model plain(std::uint64_t seed, const Source& source) {
  // The same initial weights: those of a Mirrored that has not trained.
  Mirrored<Model> initial({.method = {.seed = seed}, .where = {.devices = cpu_devices(1)}});
  Model model;
  const State state = initial.state();
  {
    const torch::NoGradGuard no_grad;
    const auto parameters = model.named_parameters();
    for (const auto& [name, value] : state.parameters) parameters[name].copy_(value);
  }
  torch::optim::Adam adam(model.parameters(), torch::optim::AdamOptions(1e-2));
  for (int step = 0; step < kSteps; ++step) {
    adam.zero_grad();
    models::CrossEntropy{}(model, source(step)).backward();
    torch::nn::utils::clip_grad_norm_(model.parameters(), 0.4);
    adam.step();
  }
  return model;
}

template <class Model, class Source>
void expect_equal_to_plain(const Source& source) {
  Mirrored<Model> towers({.method = {.shards = 1,
                                     .optimizer = Adam{.lr = 1e-2},
                                     .clip = {.global_norm = 0.4},
                                     .seed = 3},
                          .where = {.devices = cpu_devices(1)}});
  for (int step = 0; step < kSteps; ++step) towers.step(source(step), models::CrossEntropy{});
  const Model expected = plain<Model>(3, source);
  const auto tensors = expected.named_parameters();
  for (const auto& [name, value] : towers.state().parameters)
    // Clipping divides by norm + 1e-6 in LibTorch, by norm here; the rest is rounding.
    EXPECT_TRUE(torch::allclose(value, tensors[name], 1e-6, 1e-6)) << name;
  const auto buffers = expected.named_buffers();
  for (const auto& [name, value] : towers.state().buffers)
    EXPECT_TRUE(torch::allclose(value, buffers[name], 1e-6, 1e-6)) << name;
}

TEST(Mirrored, OneShardOnOneDeviceEqualsThePlainProgram) {
  at::set_num_threads(1);
  expect_equal_to_plain<models::Mlp>([](int step) { return models::vectors(step); });
  expect_equal_to_plain<models::ConvNet>([](int step) { return models::images(step); });
}

}  // namespace equality_test
