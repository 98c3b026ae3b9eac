// What Mirrored promises beside equality.

#include <gtest/gtest.h>
#include <lockstep/lockstep.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "models.h"

namespace mirrored_test {

using namespace lockstep;

MirroredOptions options(int devices, int shards = 4) {
  return {.method = {.shards = shards, .optimizer = Sgd{.lr = 0.1}},
          .where = {.devices = cpu_devices(devices)}};
}

const torch::Tensor& of(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name) return tensor.value;
  throw std::out_of_range(name);
}

TEST(Mirrored, ByDefaultTheNumberOfDevicesDoesNotChangeTheResult) {
  const auto trained = [](int devices) {
    Mirrored<models::Mlp> towers(
        {.method = {.seed = 3}, .where = {.devices = cpu_devices(devices)}});
    for (int step = 0; step < 2; ++step) towers.step(models::vectors(step), models::CrossEntropy{});
    return towers.state();
  };
  const State one = trained(1);
  for (const int devices : {2, 3, 5, 8})
    EXPECT_EQ(first_difference(one, trained(devices)), "") << devices;
}

TEST(Mirrored, DevicesThatCannotShareTheShardsEvenlyAreSaidOnce) {
  Mirrored<models::Mlp> towers({.where = {.devices = cpu_devices(3)}});
  const auto said = [&](int step) {
    const auto notes = towers.step(models::vectors(step), models::CrossEntropy{}).notes;
    return std::ranges::count(notes, uneven_shards(kDefaultShards, 3));
  };
  EXPECT_EQ(said(0), 1);
  EXPECT_EQ(said(1), 0);
}

TEST(Mirrored, MoreTowersThanShardsSitOut) {
  Mirrored<models::Mlp> towers(options(3, 2));
  const StepReport report = towers.step(models::vectors(0), models::CrossEntropy{});
  int working = 0;
  for (const TowerReport& tower : report.towers) working += tower.shards > 0;
  EXPECT_EQ(working, 2);
  EXPECT_TRUE(report.applied);
}

TEST(Mirrored, StepsAreNumberedFrom0) {
  Mirrored<models::Mlp> towers(options(2));
  for (int step = 0; step < 3; ++step)
    EXPECT_EQ(towers.step(models::vectors(step), models::CrossEntropy{}).step, step);
  EXPECT_EQ(towers.steps(), 3);
}

TEST(Mirrored, TheReportSaysWhereTheTimeWent) {
  Mirrored<models::ConvNet> towers(options(2));
  const auto begin = std::chrono::steady_clock::now();
  const StepReport report = towers.step(models::images(0), models::CrossEntropy{});
  const Seconds whole = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(report.towers.size(), 2U);
  EXPECT_EQ(report.towers[1].device, "cpu:1");
  EXPECT_EQ(report.towers[1].rows, 8);
  for (const TowerReport& tower : report.towers) {
    for (const Seconds part :
         {tower.input, tower.forward, tower.backward, tower.wait, tower.reduce, tower.update}) {
      EXPECT_GT(part.count(), 0);
    }
    EXPECT_NEAR(
        (tower.input + tower.forward + tower.backward + tower.wait + tower.reduce + tower.update)
            .count(),
        report.time.count(), 1e-9);
    EXPECT_LE(report.time.count(), whole.count());
  }
}

TEST(Mirrored, TheGradientNormIsThatOfTheAverageBeforeClipping) {
  MirroredOptions how = options(2);
  how.method.clip.global_norm = 0.01;
  Mirrored<models::Mlp> clipped(how), free(options(2));
  const StepReport a = clipped.step(models::vectors(0), models::CrossEntropy{});
  const StepReport b = free.step(models::vectors(0), models::CrossEntropy{});
  EXPECT_TRUE(a.clipped);
  EXPECT_FALSE(b.clipped);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  const auto norm = [](const State& state) {
    double squares = 0;
    for (const auto& gradient : state.gradients)
      squares += gradient.value.to(torch::kFloat64).square().sum().item<double>();
    return std::sqrt(squares);
  };
  EXPECT_NEAR(norm(free.state()), b.gradient_norm, 1e-9);
  EXPECT_NEAR(norm(clipped.state()), 0.01, 1e-8);
}

TEST(Mirrored, ClippingPerShardClipsEachShardsMeanGradient) {
  // Two shards, one clipped: the average is (clipped + other) / 2.
  const models::Batch batch = models::vectors(0);
  const auto shards = batch::split(batch, 2);
  const auto gradient_of = [](const models::Batch& part, Clip clip) {
    MirroredOptions how = options(1, 1);
    how.method.clip = clip;
    Mirrored<models::Mlp> towers(how);
    const StepReport report = towers.step(part, models::CrossEntropy{});
    return std::pair(of(towers.state().gradients, "first.weight"), report.gradient_norm);
  };
  const auto [first, norm_of_first] = gradient_of(shards[0], {});
  const auto [second, norm_of_second] = gradient_of(shards[1], {});
  const double limit = 0.9 * std::max(norm_of_first, norm_of_second);
  const auto scaled = [&](const torch::Tensor& gradient, double norm) {
    return gradient * std::min(1.0, limit / norm);
  };
  MirroredOptions how = options(2, 2);
  how.method.clip = {.per_shard_norm = limit};
  Mirrored<models::Mlp> towers(how);
  towers.step(batch, models::CrossEntropy{});
  const auto expected = (scaled(first, norm_of_first) + scaled(second, norm_of_second)) / 2;
  EXPECT_TRUE(torch::allclose(of(towers.state().gradients, "first.weight"), expected, 1e-5, 1e-7));
}

TEST(Mirrored, ParametersExistOnceAndAllTowersSeeThem) {
  Mirrored<models::Mlp> towers(options(2, 2));
  std::array<const void*, 2> seen = {};
  const auto loss = [&](models::Mlp& model, const models::Batch& shard) {
    seen[shard.first.storage_offset() == 0 ? 0 : 1] = model.first->weight.const_data_ptr();
    return models::CrossEntropy{}(model, shard);
  };
  towers.step(models::vectors(0), loss);
  EXPECT_NE(seen[0], nullptr);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(seen[0]) % 64, 0U);
}

/// Has a parameter that never gets a gradient, one that is frozen, and none of Linear's bias.
struct Odd : torch::nn::Module {
  Odd() {
    used = register_module("used", torch::nn::Linear(torch::nn::LinearOptions(12, 5).bias(false)));
    unused = register_parameter("unused", torch::ones({3}));
    frozen = register_parameter("frozen", torch::full({5}, 2.0), /*requires_grad=*/false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return used(x) * frozen; }
  torch::nn::Linear used = nullptr;
  torch::Tensor unused, frozen;
};

TEST(Mirrored, AParameterWithoutGradientIsLeftAsItIsAndNamedOnce) {
  Mirrored<Odd> towers(options(2));
  const StepReport first = towers.step(models::vectors(0), models::CrossEntropy{});
  int named = 0;
  for (const std::string& note : first.notes) named += note.find("'unused'") != std::string::npos;
  EXPECT_EQ(named, 1);
  EXPECT_TRUE(towers.step(models::vectors(1), models::CrossEntropy{}).notes.empty());
  EXPECT_TRUE(torch::equal(of(towers.state().parameters, "unused"), torch::ones({3})));
  EXPECT_TRUE(torch::equal(of(towers.state().gradients, "unused"), torch::zeros({3})));
}

TEST(Mirrored, FrozenParametersKeepOutOfTheArenaAndOfTheUpdate) {
  Mirrored<Odd> towers(options(2));
  towers.step(models::vectors(0), models::CrossEntropy{});
  EXPECT_TRUE(torch::equal(towers.model().frozen, torch::full({5}, 2.0)));
  EXPECT_THROW(of(towers.state().parameters, "frozen"), std::out_of_range);
  EXPECT_EQ(towers.state().parameters.size(), 2U);
}

TEST(Mirrored, TiedParametersAreSeatedOnce) {
  Mirrored<models::Tied> towers(options(2));
  EXPECT_EQ(towers.state().parameters.size(), 3U);  // the embedding, weight and bias of mix
  towers.step(models::sentences(0), models::CrossEntropy{});
  EXPECT_TRUE(torch::equal(towers.model().output, towers.model().embedding->weight));
}

TEST(Mirrored, NothingOfAStepLeaksIntoTheCallersThread) {
  torch::manual_seed(5);
  const torch::Tensor expected = torch::rand({4});
  torch::manual_seed(5);
  const int threads = at::get_num_threads();
  const torch::NoGradGuard no_grad;
  Mirrored<models::Attention> towers(options(2));
  towers.step(models::sentences(0), models::CrossEntropy{});
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
  EXPECT_EQ(at::get_num_threads(), threads);
  EXPECT_FALSE(torch::GradMode::is_enabled());
}

TEST(Mirrored, WeightsWrittenOrLoadedIntoTheModelAreTheWeights) {
  Mirrored<models::ConvNet> source(options(2));
  for (int step = 0; step < 3; ++step) source.step(models::images(step), models::CrossEntropy{});
  std::stringstream file;
  {
    torch::serialize::OutputArchive archive;
    source.model().save(archive);
    archive.save_to(file);
  }
  MirroredOptions other = options(3);
  other.method.seed = 99;
  Mirrored<models::ConvNet> target(other);
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  target.model().load(archive);
  EXPECT_TRUE(torch::equal(target.state().parameters[0].value, source.state().parameters[0].value));
  target.step(models::images(3), models::CrossEntropy{});
  source.step(models::images(3), models::CrossEntropy{});
  EXPECT_EQ(first_difference(source.state(), target.state()), "");
}

TEST(Mirrored, ModesThatTheCallerSetsHoldOnAllTowers) {
  MirroredOptions one = options(1), three = options(3);
  Mirrored<models::ConvNet> a(one), b(three);
  for (auto* towers : {&a, &b}) towers->model().norm->eval();
  const auto before = a.state().buffers;
  for (int step = 0; step < 3; ++step) {
    a.step(models::images(step), models::CrossEntropy{});
    b.step(models::images(step), models::CrossEntropy{});
  }
  EXPECT_EQ(first_difference(a.state(), b.state()), "");
  EXPECT_TRUE(torch::equal(before[0].value, b.state().buffers[0].value));
}

TEST(Mirrored, BuffersBecomeTheMeanOverShards) {
  Mirrored<models::ConvNet> towers(options(2, 2));
  std::array<torch::Tensor, 2> means;
  const models::Batch batch = models::images(0);
  const auto loss = [&](models::ConvNet& model, const models::Batch& shard) {
    auto result = models::CrossEntropy{}(model, shard);
    means[shard.first.storage_offset() == 0 ? 0 : 1] = model.norm->running_mean.clone();
    return result;
  };
  towers.step(batch, loss);
  EXPECT_FALSE(torch::equal(means[0], means[1]));
  EXPECT_TRUE(
      torch::equal(of(towers.state().buffers, "norm.running_mean"), (means[0] + means[1]) / 2));
  EXPECT_EQ(of(towers.state().buffers, "norm.num_batches_tracked").item<int>(), 1);
}

TEST(Mirrored, TheLearningRateCanBeSetBetweenSteps) {
  Mirrored<models::Mlp> towers(options(2));
  EXPECT_THROW(towers.set_learning_rate(-1), ConfigError);
  EXPECT_THROW(towers.set_learning_rate(std::nan("")), ConfigError);
  towers.set_learning_rate(0);
  const auto before = towers.state().parameters;
  towers.step(models::vectors(0), models::CrossEntropy{});
  EXPECT_TRUE(torch::equal(before[0].value, towers.state().parameters[0].value));
}

TEST(Mirrored, RulesGiveParametersTheirOwnRateAndDecay) {
  MirroredOptions how = options(2);
  how.method.rules = {{.pattern = "first.*", .lr_factor = 0},
                      {.pattern = "*.bias", .weight_decay = 0.0}};
  Mirrored<models::Mlp> towers(how);
  const State before = towers.state();
  towers.step(models::vectors(0), models::CrossEntropy{});
  const State after = towers.state();
  EXPECT_TRUE(
      torch::equal(of(before.parameters, "first.bias"), of(after.parameters, "first.bias")));
  EXPECT_FALSE(
      torch::equal(of(before.parameters, "second.bias"), of(after.parameters, "second.bias")));
}

struct HeldImpl : models::Mlp {
  explicit HeldImpl(double scale_by) : scale(scale_by) {}
  double scale;
};
TORCH_MODULE(Held);

TEST(Mirrored, TakesModuleHoldersAndConstructorArguments) {
  Mirrored<Held> towers(options(2), 3.0);
  EXPECT_EQ(towers.model()->scale, 3.0);
  const auto loss = [](Held& model, const models::Batch& shard) {
    return models::CrossEntropy{}(*model, shard);
  };
  EXPECT_TRUE(towers.step(models::vectors(0), loss).applied);
}

TEST(Mirrored, ComputeAppliesNothing) {
  Mirrored<models::ConvNet> towers(options(2));
  const State before = towers.state();
  const StepReport report = towers.compute(models::images(0), models::CrossEntropy{});
  EXPECT_GT(report.loss, 0);
  EXPECT_EQ(towers.steps(), 0);
  EXPECT_EQ(first_difference(before, towers.state()), "");
}

TEST(Mirrored, MoreDevicesThanCoresIsAllowedAndSaidOnce) {
  const int many = inventory().cores + 1;
  Mirrored<models::Mlp> towers({.where = {.devices = cpu_devices(many)}});
  const StepReport report = towers.step(models::vectors(0), models::CrossEntropy{});
  ASSERT_FALSE(report.notes.empty());
  EXPECT_NE(report.notes[0].find("take turns"), std::string::npos) << report.notes[0];
  EXPECT_TRUE(towers.step(models::vectors(1), models::CrossEntropy{}).notes.empty());
}

/// Of three kinds of step, what each says to a batch.
template <class Batch>
std::vector<std::string> refusals(const Batch& batch) {
  Mirrored<models::Mlp> towers(options(2));
  const auto loss = [](models::Mlp& model, const Batch&) { return model.first->weight.sum(); };
  std::vector<std::string> messages;
  for (const std::function<void()>& call : std::vector<std::function<void()>>{
           [&] { towers.step(batch, loss); }, [&] { towers.compute(batch, loss); },
           [&] { towers.stage(batch); }})
    try {
      call();
      messages.push_back("");
    } catch (const ConfigError& error) {
      messages.push_back(error.what());
    }
  return messages;
}

struct Masked {
  torch::Tensor words, lengths, mask;
  auto tensors() { return std::tie(words, lengths, mask); }
};

TEST(Mirrored, ABatchWhoseTensorsDifferInRowsIsRefused) {
  const torch::Tensor a = torch::zeros({12, 2}), b = torch::zeros({8});
  const std::vector<torch::data::Example<>> list(8, {torch::zeros({3}), torch::tensor(1)});
  const auto expect = [](const std::vector<std::string>& messages, const std::string& text) {
    for (const std::string& message : messages)
      EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  expect(refusals(torch::data::Example<>(a, b)), "'target' has 8");
  expect(refusals(std::tuple(a, std::vector{a, b})), "'get<1>[1]' has 8");
  expect(refusals(std::pair(list, a)), "'.second' has 12");
  expect(refusals(Masked{torch::Tensor(), a, b}), "'tensors()[2]' has 8");
  expect(refusals(Masked{}), "undefined");
}

TEST(Mirrored, AnUndefinedTensorOfABatchIsUndefinedInEveryShard) {
  const auto [data, target] = models::vectors(0);
  Mirrored<models::Mlp> towers(options(2)), plain(options(2));
  const auto loss = [](models::Mlp& model, const Masked& shard) {
    EXPECT_FALSE(shard.mask.defined());
    return models::CrossEntropy{}(model, {shard.words, shard.lengths});
  };
  towers.step(Masked{data, target, {}}, loss);
  plain.step(models::vectors(0), models::CrossEntropy{});
  EXPECT_EQ(first_difference(plain.state(), towers.state()), "");
}

struct Nothing : torch::nn::Module {};

TEST(Mirrored, BadOptionsAreNamed) {
  EXPECT_THROW(Mirrored<models::Mlp>({.where = {.devices = {}}}), ConfigError);
  for (const int shards : {0, -1})
    EXPECT_THROW(
        Mirrored<models::Mlp>({.method = {.shards = shards}, .where = {.devices = cpu_devices(1)}}),
        ConfigError);
  EXPECT_THROW(Mirrored<models::Mlp>({.method = {.optimizer = Adam{.beta1 = 2}},
                                      .where = {.devices = cpu_devices(1)}}),
               ConfigError);
  EXPECT_THROW(Mirrored<models::Mlp>({.where = {.devices = {{.threads = 0}}}}), ConfigError);
  EXPECT_THROW(Mirrored<Nothing>({.where = {.devices = cpu_devices(2)}}), ConfigError);
  EXPECT_THROW(Mirrored<models::Mlp>({.where = {.devices = {{.kind = DeviceKind::gpu}}}}),
               ConfigError);
}

}  // namespace mirrored_test
