// Models as they are made: by a function, from references, in another dtype, with loaded weights.

#include <filesystem>
#include <random>

#include "base/temp_folder.h"
#include "refusal.h"

namespace factory_test {

using namespace refusal;
using on_sim::sim_devices;
using on_sim::Trained;

constexpr int kSteps = 3;

std::vector<std::vector<Device>> device_lists() {
  sim::configure({.devices = 4});
  std::vector<std::vector<Device>> lists;
  for (const int count : {1, 2, 3, 4}) {
    lists.push_back(cpu_devices(count));
    lists.push_back(sim_devices(count));
  }
  return lists;
}

std::string name_of(const std::vector<Device>& devices) {
  return std::to_string(devices.size()) + " of " + devices.front().name();
}

template <class Model>
Trained train(Mirrored<Model>& towers) {
  Trained run;
  for (int step = 0; step < kSteps; ++step) {
    const StepReport report =
        towers.step(models::vectors(step), [](Model& model, const models::Batch& shard) {
          if constexpr (std::is_base_of_v<nn::Module, Model>)
            return nn::functional::cross_entropy(model.forward(shard.first).to(torch::kFloat32),
                                                 shard.second);
          else
            return nn::functional::cross_entropy(model->forward(shard.first).to(torch::kFloat32),
                                                 shard.second);
        });
    run.losses.push_back(report.loss);
    run.norms.push_back(report.gradient_norm);
  }
  run.state = towers.state();
  EXPECT_NE(run.losses.front(), run.losses.back());
  return run;
}

/// Trains what `make(options)` returns on 1 to 4 CPU and simulated devices, and expects the same
/// bits.
template <class Make>
Trained expect_equal_on_all(const Make& make) {
  std::optional<Trained> first;
  for (const auto& devices : device_lists()) {
    auto towers = make(on_sim::options(devices));
    const Trained run = train(towers);
    if (first) expect_same(*first, run, name_of(devices));
    if (!first) first = run;
  }
  return *first;
}

/// A layer of the caller's own: there is no clone().
struct ScaleImpl : nn::Module {
  explicit ScaleImpl(std::int64_t size) {
    scale = register_parameter("scale", torch::randn({size}));
    seen = register_buffer("seen", torch::zeros({}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    seen.add_(1);
    return x * scale;
  }
  torch::Tensor scale, seen;
};
TORCH_MODULE(Scale);

nn::Sequential create_discriminator() {
  return nn::Sequential(nn::Linear(12, 24), nn::BatchNorm1d(24),
                        nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)), Scale(24),
                        nn::Dropout(0.3), nn::Linear(24, 5));
}

TEST(Factory, AFunctionThatReturnsASequentialOfOnesOwnLayersTrains) {
  const Trained run = expect_equal_on_all([](const MirroredOptions& how) {
    return Mirrored<nn::Sequential>::from(how, [] { return create_discriminator(); });
  });
  EXPECT_EQ(run.state.parameters.size(), 7U);
}

TEST(Factory, MayReturnAPointerOrAHolder) {
  const MirroredOptions how = on_sim::options(cpu_devices(2));
  Mirrored<models::Mlp> constructed(how);
  const Trained expected = train(constructed);
  auto pointers = Mirrored<models::Mlp>::from(how, [] { return std::make_shared<models::Mlp>(); });
  expect_same(expected, train(pointers), "a pointer");
  auto holders = Mirrored<nn::SequentialImpl>::from(how, create_discriminator);
  auto held = Mirrored<nn::Sequential>::from(how, [] { return create_discriminator().ptr(); });
  expect_same(train(held), train(holders), "a holder");
}

TEST(Factory, IsCalledOneAtATimeAndWhatItMakesFirstCounts) {
  std::optional<Trained> first;
  for (const auto& devices : device_lists()) {
    std::mt19937 random(5);  // not safe to use on two threads, and different at every call
    int calls = 0;
    auto towers = Mirrored<nn::Sequential>::from(on_sim::options(devices), [&] {
      ++calls;
      nn::Linear layer(12, 5);
      const torch::NoGradGuard no_grad;
      layer->bias.fill_(std::uniform_real_distribution<float>()(random));
      return nn::Sequential(layer);
    });
    const bool sim = devices.front().kind == DeviceKind::sim;
    EXPECT_EQ(calls, static_cast<int>(devices.size()) + (sim ? 1 : 0));
    const Trained run = train(towers);
    if (first) expect_same(*first, run, name_of(devices));
    if (!first) first = run;
  }
}

TEST(Factory, ThatHandsOutOneModuleTwiceIsRefused) {
  nn::Linear layer(12, 5);
  expect_refused(message_of([&] {
                   Mirrored<nn::Sequential>::from(options(2),
                                                  [&] { return nn::Sequential(layer); });
                 }),
                 "0.weight", "Mirrored::from");
  const nn::Sequential whole = create_discriminator();
  expect_refused(
      message_of([&] { Mirrored<nn::Sequential>::from(options(2), [&] { return whole; }); }),
      "0.weight", "anew each time");
  // A module without clone() that is passed to the constructor: the same.
  expect_refused(message_of([&] { Mirrored<nn::Sequential> towers(options(2), Scale(12)); }),
                 "0.scale", "Mirrored::from");
}

TEST(Factory, ThatReturnsNothingOrThrowsIsTold) {
  EXPECT_NE(message_of([] {
              Mirrored<nn::Sequential>::from(options(2), [] { return nn::Sequential(nullptr); });
            }).find("null"),
            std::string::npos);
  const auto fails = []() -> nn::Sequential { throw std::runtime_error("no such file"); };
  EXPECT_THROW(Mirrored<nn::Sequential>::from(options(2), fails), std::runtime_error);
}

// Constructors that take references.

struct Config {
  int hidden = 8;
  int built = 0;
  std::unique_ptr<int> unique = {};  // cannot be copied
};

struct Configured : nn::Module {
  explicit Configured(Config& how) : config(how) {
    ++how.built;
    first = register_module("first", nn::Linear(12, how.hidden));
    second = register_module("second", nn::Linear(how.hidden, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))); }
  Config& config;
  nn::Linear first = nullptr, second = nullptr;
};

TEST(Factory, AConstructorThatTakesAReferenceGetsTheCallersObject) {
  for (const bool wrapped : {false, true})
    expect_equal_on_all([&](const MirroredOptions& how) {
      static Config config;
      config.built = 0;
      auto towers = wrapped ? std::make_unique<Mirrored<Configured>>(how, std::ref(config))
                            : std::make_unique<Mirrored<Configured>>(how, config);
      EXPECT_EQ(&towers->model().config, &config);
      const bool sim = how.where.devices.front().kind == DeviceKind::sim;
      EXPECT_EQ(config.built, static_cast<int>(how.where.devices.size()) + (sim ? 1 : 0));
      return std::move(*towers);
    });
}

/// Keeps references to its arguments, and uses them.
struct TiedImpl : nn::Module {
  TiedImpl(nn::Linear& shared, torch::Tensor& shift, const Config& how)
      : layer(shared), offset(shift), hidden(how.hidden) {
    register_module("layer", shared);
    register_buffer("shift", shift);
    head = register_module("head", nn::Linear(12, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return head(torch::tanh(layer(layer(x) + offset)) * hidden);
  }
  nn::Linear& layer;
  torch::Tensor& offset;
  int hidden;
  nn::Linear head = nullptr;
};
TORCH_MODULE(Tied);

TEST(Factory, ModulesAndTensorsAreGivenAsReferencesToCopiesThatLiveOn) {
  nn::Linear layer(12, 12);
  torch::Tensor shift = torch::randn({12});
  const torch::Tensor weight = layer->weight.detach().clone();
  const Trained run = expect_equal_on_all(
      [&](const MirroredOptions& how) { return Mirrored<Tied>(how, layer, shift, Config()); });
  EXPECT_TRUE(torch::equal(weight, layer->weight));  // the copies are trained
  EXPECT_EQ(run.state.parameters.size(), 4U);
  expect_equal_on_all([&](const MirroredOptions& how) {
    return Mirrored<TiedImpl>(how, std::ref(layer), std::ref(shift), Config());
  });
  EXPECT_TRUE(torch::equal(weight, layer->weight));
}

TEST(Factory, AModelMayOutliveItsTowersWithWhatItRefersTo) {
  nn::Linear layer(12, 12);
  torch::Tensor shift = torch::randn({12});
  Tied kept = Mirrored<Tied>(options(2), layer, shift, Config()).model();
  EXPECT_EQ(kept->forward(models::vectors(0).first).size(1), 5);
}

TEST(Factory, VerifyTakesReferencesToo) {
  Config config;
  const auto result = verify<Configured>(
      options(2), {.counts = {1, 2}, .steps = 2}, [](int step) { return models::vectors(step); },
      models::CrossEntropy{}, config);
  EXPECT_TRUE(result.equal) << result.difference;
}

// Other dtypes.

struct Double : nn::Module {
  Double() {
    net = register_module("net", create_discriminator());
    to(torch::kFloat64);
  }
  torch::Tensor forward(const torch::Tensor& x) { return net->forward(x.to(torch::kFloat64)); }
  nn::Sequential net = nullptr;
};

void expect_double(const Trained& run) {
  for (const auto* list : {&run.state.parameters, &run.state.buffers})
    for (const NamedTensor& tensor : *list) {
      if (!tensor.value.is_floating_point()) continue;
      EXPECT_EQ(tensor.value.scalar_type(), torch::kFloat64) << tensor.name;
    }
}

TEST(Factory, AModelThatIsTurnedIntoDoubleWhereItIsMadeTrains) {
  expect_double(
      expect_equal_on_all([](const MirroredOptions& how) { return Mirrored<Double>(how); }));
  expect_double(expect_equal_on_all([](const MirroredOptions& how) {
    return Mirrored<nn::Sequential>::from(how, [] {
      nn::Functional as_double([](const torch::Tensor& x) { return x.to(torch::kFloat64); });
      nn::Sequential net(as_double, nn::Linear(12, 16), nn::BatchNorm1d(16), nn::Linear(16, 5));
      net->to(torch::kFloat64);
      return net;
    });
  }));
}

TEST(Factory, ADtypeThatChangesLaterIsRefused) {
  for (const auto& devices : {cpu_devices(1), cpu_devices(2), sim_devices(1), sim_devices(2)}) {
    Mirrored<models::Mlp> towers(on_sim::options(devices));
    towers.model().to(torch::kFloat64);
    expect_refused(message_of([&] { towers.step(models::vectors(0), models::CrossEntropy{}); }),
                   "first.weight", "Call to(dtype) in the model's constructor");
  }
}

// Weights that are loaded where the model is made, and later.

/// Loads its backbone from a file, and its head from a tensor.
struct Pretrained : nn::Module {
  explicit Pretrained(const std::string& file) {
    body = register_module("body", nn::Sequential(nn::Linear(12, 12), nn::BatchNorm1d(12)));
    torch::load(body, file);
    for (torch::Tensor& parameter : body->parameters()) parameter.set_requires_grad(false);
    head = register_module("head", nn::Linear(12, 5));
    const torch::NoGradGuard no_grad;
    head->weight.copy_(torch::randn({5, 12}, models::generator(9), torch::kCPU));
    table = register_buffer("table", torch::ones({5}, torch::kCPU));
    scale = register_parameter("scale", torch::full({5}, 0.5, torch::kCPU));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(body->forward(x)) * table * scale; }
  nn::Sequential body = nullptr;
  nn::Linear head = nullptr;
  torch::Tensor table, scale;
};

TEST(Factory, WeightsMayBeLoadedInTheConstructor) {
  const test::TempFolder folder;
  const std::string file = folder / "body.pt";
  nn::Sequential body(nn::Linear(12, 12), nn::BatchNorm1d(12));
  torch::save(body, file);
  const Trained run = expect_equal_on_all(
      [&](const MirroredOptions& how) { return Mirrored<Pretrained>(how, file); });
  EXPECT_TRUE(torch::equal(run.state.frozen[0].value, body->parameters()[0]));
}

TEST(Factory, WeightsMayBeLoadedInTheFunction) {
  const test::TempFolder folder;
  const std::string file = folder / "net.pt";
  nn::Sequential net = create_discriminator();
  torch::save(net, file);
  for (const auto& devices : device_lists()) {
    auto towers = Mirrored<nn::Sequential>::from(on_sim::options(devices), [&] {
      nn::Sequential made = create_discriminator();
      torch::load(made, file);
      return made;
    });
    for (std::size_t i = 0; const NamedTensor& tensor : towers.state().parameters)
      EXPECT_TRUE(torch::equal(tensor.value, net->parameters()[i++])) << tensor.name;
  }
  expect_equal_on_all([&](const MirroredOptions& how) {
    return Mirrored<nn::Sequential>::from(how, [&] {
      nn::Sequential made = create_discriminator();
      torch::load(made, file);
      return made;
    });
  });
}

TEST(Factory, WeightsMayBeLoadedIntoTheModelOnAnyDevice) {
  const test::TempFolder folder;
  const std::string file = folder / "net.pt";
  nn::Sequential net = create_discriminator();
  torch::save(net, file);
  for (const bool archive : {false, true})
    expect_equal_on_all([&](const MirroredOptions& how) {
      auto towers = Mirrored<nn::Sequential>::from(how, create_discriminator);
      towers.step(models::vectors(9), [](nn::Sequential& model, const models::Batch& shard) {
        return models::CrossEntropy{}(*model, shard);
      });
      if (archive) {
        torch::serialize::InputArchive from;
        from.load_from(file);
        towers.model()->load(from);
      } else {
        torch::load(towers.model(), file);
      }
      const State state = towers.state();
      EXPECT_TRUE(torch::equal(state.parameters[0].value, net->parameters()[0]));
      EXPECT_TRUE(torch::equal(state.buffers[1].value, net->buffers()[1]));
      return towers;
    });
}

// What torch::save writes.

std::string saved(const auto& what) {
  std::ostringstream file;
  torch::save(what, file);
  return file.str();
}

nn::Sequential large() {
  return nn::Sequential(nn::Linear(1000, 1000), nn::BatchNorm1d(1000), nn::Linear(1000, 4));
}

TEST(Factory, SavingATensorOrASubmoduleWritesThatAlone) {
  const nn::Sequential plain = large();
  constexpr std::size_t kNames = 200;  // "sim:0" is longer than "cpu", once a tensor
  for (const auto& devices : {cpu_devices(1), cpu_devices(2), sim_devices(2)}) {
    MirroredOptions how = options(1);
    how.where.devices = devices;
    auto towers = Mirrored<nn::Sequential>::from(how, large);
    nn::Sequential& model = towers.model();
    const torch::Tensor weight = model->parameters()[4], mean = model->buffers()[0];
    ASSERT_EQ(weight.sizes(), (std::vector<std::int64_t>{4, 1000}));
    EXPECT_LT(saved(weight).size(), saved(plain->parameters()[4]).size() + kNames);
    EXPECT_LT(saved(mean).size(), saved(plain->buffers()[0]).size() + kNames);
    EXPECT_LT(saved(model->ptr(2)).size(), saved(plain->ptr(2)).size() + kNames);
    EXPECT_LT(saved(model).size(), saved(plain).size() + 2 * kNames);

    torch::Tensor read;
    std::istringstream of_weight(saved(weight)), of_layer(saved(model->ptr(2))),
        of_whole(saved(model));
    torch::load(read, of_weight, torch::kCPU);
    EXPECT_TRUE(torch::equal(read, weight.cpu()));
    EXPECT_EQ(read.storage().nbytes(), weight.nbytes());
    nn::Linear layer(1000, 4);
    torch::load(layer, of_layer, torch::kCPU);
    EXPECT_TRUE(torch::equal(layer->weight, weight.cpu()));
    nn::Sequential whole = large();
    torch::load(whole, of_whole, torch::kCPU);
    for (std::size_t i = 0; i < whole->parameters().size(); ++i)
      EXPECT_TRUE(torch::equal(whole->parameters()[i], model->parameters()[i].cpu()));
  }
}

}  // namespace factory_test
