// Scripts as models: trained to the same bits on any devices, as the same model written in C++.

#include <gtest/gtest.h>
#include <lockstep/nn/script.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/script.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/temp_folder.h"
#include "strategy/on_sim.h"

namespace script_test {

using namespace on_sim;
using lockstep::nn::ScriptModule;
using torch::Tensor;
using Script = torch::jit::Module;

constexpr int kSteps = 8;

Script part(const std::shared_ptr<torch::jit::CompilationUnit>& unit, const std::string& name) {
  Script made("__torch__." + name, unit, /*shouldMangle=*/true);
  made.register_attribute("training", c10::BoolType::get(), true);
  return made;
}

/// torch.nn.Linear and torch.nn.BatchNorm1d, as torch.jit.script writes them.
Script linear(const std::shared_ptr<torch::jit::CompilationUnit>& unit, std::int64_t inputs,
              std::int64_t outputs) {
  Script made = part(unit, "Linear");
  made.register_parameter("weight", torch::randn({outputs, inputs}).mul_(0.3).requires_grad_(),
                          /*is_buffer=*/false);
  made.register_parameter("bias", torch::randn({outputs}).requires_grad_(), false);
  made.define("def forward(self, x: Tensor):\n  return torch.linear(x, self.weight, self.bias)\n");
  return made;
}

Script batch_norm(const std::shared_ptr<torch::jit::CompilationUnit>& unit, std::int64_t size) {
  Script made = part(unit, "BatchNorm1d");
  made.register_parameter("weight", torch::ones({size}).requires_grad_(), false);
  made.register_parameter("bias", torch::zeros({size}).requires_grad_(), false);
  made.register_buffer("running_mean", torch::zeros({size}));
  made.register_buffer("running_var", torch::ones({size}));
  made.register_buffer("num_batches_tracked", torch::zeros({}, torch::kInt64));
  made.define(R"(
def forward(self, x: Tensor):
  if self.training:
    self.num_batches_tracked.add_(1)
  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var,
                          self.training, 0.1, 1e-05, False)
)");
  return made;
}

/// Vectors of 12 numbers to 5 classes.
Script classifier() {
  torch::manual_seed(5);
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  Script made = part(unit, "Classifier");
  made.register_module("first", linear(unit, 12, 33));
  made.register_module("norm", batch_norm(unit, 33));
  made.register_module("second", linear(unit, 33, 5));
  made.define(R"(
def forward(self, x: Tensor):
  hidden = self.norm.forward(self.first.forward(x))
  gated = torch.sigmoid(hidden) * torch.tanh(hidden)
  return self.second.forward(torch.dropout(gated, 0.4, self.training))
)");
  return made;
}

/// A module whose forward() has these lines.
Script with_forward(const std::string& lines) {
  Script made = part(std::make_shared<torch::jit::CompilationUnit>(), "Net");
  made.register_parameter("weight", torch::ones({3}).requires_grad_(), false);
  made.register_buffer("mean", torch::zeros({3}));
  made.register_attribute("count", c10::IntType::get(), 0);
  made.register_attribute("seen", c10::ListType::ofInts(), std::vector<std::int64_t>{});
  made.register_attribute("scale", c10::TensorType::get(), torch::ones({3}));
  made.define("def forward(self, x: Tensor):\n" + lines + "\n");
  return made;
}

struct ClassifierInCpp : torch::nn::Module {
  ClassifierInCpp() {
    first = register_module("first", torch::nn::Linear(12, 33));
    norm = register_module("norm", torch::nn::BatchNorm1d(33));
    second = register_module("second", torch::nn::Linear(33, 5));
  }
  Tensor forward(const Tensor& x) {
    const Tensor hidden = norm(first(x));
    const Tensor gated = torch::sigmoid(hidden) * torch::tanh(hidden);
    return second(torch::dropout(gated, 0.4, is_training()));
  }
  torch::nn::Linear first = nullptr, second = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
};

template <class Model>
Trained go_on(Mirrored<Model>& towers, int begin = 0) {
  Trained run;
  for (int step = begin; step < kSteps; ++step) {
    const StepReport report = towers.step(models::vectors(step), models::CrossEntropy{});
    run.losses.push_back(report.loss);
    run.norms.push_back(report.gradient_norm);
  }
  run.state = towers.state();
  return run;
}

Trained trained(const MirroredOptions& how) {
  Mirrored<ScriptModule> towers(how, classifier());
  return go_on(towers);
}

class ScriptTest : public testing::Test {
 protected:
  void SetUp() override { sim::configure({.devices = 8}); }
  test::TempFolder folder_;
};

TEST_F(ScriptTest, IsTheSameBitForBitOnAnyNumberOfDevices) {
  const Trained one = trained(options(cpu_devices(1)));
  EXPECT_NE(one.losses.front(), one.losses.back());
  for (const int count : {2, 3})
    expect_same(one, trained(options(cpu_devices(count))), std::to_string(count) + " CPU devices");
  for (const int count : {1, 2, 3})
    expect_same(one, trained(options(sim_devices(count))), std::to_string(count) + " sim devices");
}

TEST_F(ScriptTest, IsTheSameBitForBitOnAnyNumberOfDevicesInBFloat16) {
  MirroredOptions one = options(cpu_devices(1)), three = options(cpu_devices(3));
  one.method.precision = three.method.precision = Precision::bfloat16;
  expect_same(trained(one), trained(three), "3 CPU devices");
}

/// Holds a script as a program would that does not know ScriptModule.
struct Wrapper : torch::nn::Module {
  explicit Wrapper(const std::string& file)
      : script(torch::jit::load(file, torch::empty({0}).device())) {
    for (const auto& item : script.named_parameters()) {
      std::string name = item.name;
      std::ranges::replace(name, '.', '_');
      register_parameter(name, item.value);
    }
  }
  Tensor forward(const Tensor& x) { return script.forward({x}).toTensor(); }
  Script script;
};

TEST_F(ScriptTest, InsideAModuleOfOnesOwnIsTheSameBitForBitToo) {
  Script net = part(std::make_shared<torch::jit::CompilationUnit>(), "Net");
  net.register_module("first", linear(net._ivalue()->compilation_unit(), 12, 33));
  net.register_module("second", linear(net._ivalue()->compilation_unit(), 33, 5));
  net.define(R"(
def forward(self, x: Tensor):
  hidden = self.first.forward(x)
  return self.second.forward(torch.sigmoid(hidden) * torch.tanh(hidden) + torch.exp(-hidden * hidden))
)");
  const std::string file = folder_.path() + "/net.pt";
  net.save(file);
  const auto run = [&](std::vector<Device> devices) {
    Mirrored<Wrapper> towers(options(std::move(devices)), file);
    return go_on(towers);
  };
  const Trained one = run(cpu_devices(1));
  for (const int count : {2, 3})
    expect_same(one, run(cpu_devices(count)), std::to_string(count) + " CPU devices");
}

TEST_F(ScriptTest, EqualsTheSameModelWrittenInCppToTheBit) {
  Mirrored<ScriptModule> script(options(cpu_devices(2)), classifier());
  Mirrored<ClassifierInCpp> plain(options(cpu_devices(2)));
  plain.load(script.state());
  expect_same(go_on(plain), go_on(script), "the script");
}

TEST_F(ScriptTest, GoesOnFromAStateAsIfItHadNeverStopped) {
  const Trained whole = trained(options(cpu_devices(1)));
  Mirrored<ScriptModule> begun(options(sim_devices(3)), classifier());
  for (int step = 0; step < 3; ++step) begun.step(models::vectors(step), models::CrossEntropy{});
  Mirrored<ScriptModule> resumed(options(cpu_devices(2)), classifier());
  resumed.load(begun.state());
  EXPECT_EQ(first_difference(whole.state, go_on(resumed, 3).state), "");
}

TEST_F(ScriptTest, EvaluatesInEvaluationMode) {
  const std::vector<models::Batch> batches = {models::vectors(1), models::vectors(2)};
  const auto evaluated = [&](const std::vector<Device>& devices) {
    Mirrored<ScriptModule> towers(options(devices), classifier());
    towers.step(models::vectors(0), models::CrossEntropy{});
    const auto sum = [](ScriptModule& model, const models::Batch& batch) {
      EXPECT_FALSE(model.is_training());
      return models::CrossEntropy{}(model, batch).item<double>();
    };
    const double first = towers.evaluate(batches, sum), second = towers.evaluate(batches, sum);
    EXPECT_EQ(first, second);  // no dropout, and no statistics are updated
    return first;
  };
  EXPECT_EQ(evaluated(cpu_devices(1)), evaluated(sim_devices(2)));
}

TEST_F(ScriptTest, HasTheNamesOfPythonsStateDict) {
  const ScriptModule model(classifier());
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  for (const auto& item : model.named_buffers()) names.push_back(item.key());
  EXPECT_EQ(names,
            (std::vector<std::string>{"first.weight", "first.bias", "norm.weight", "norm.bias",
                                      "second.weight", "second.bias", "norm.running_mean",
                                      "norm.running_var", "norm.num_batches_tracked"}));
}

TEST_F(ScriptTest, ATensorWithTwoNamesIsTrainedOnce) {
  Script script = classifier();
  script.register_parameter("again", script.attr("second").toModule().attr("bias").toTensor(),
                            false);
  const ScriptModule model(script);
  EXPECT_TRUE(model.named_parameters()["again"].is_same(model.named_parameters()["second.bias"]));
  Mirrored<ScriptModule> towers(options(cpu_devices(2)), script);
  EXPECT_EQ(towers.state().parameters.size(), 6u);
}

TEST_F(ScriptTest, WhatNeedsNoGradientIsNotTrained) {
  Script script = classifier();
  script.attr("first").toModule().attr("weight").toTensor().requires_grad_(false);
  Mirrored<ScriptModule> towers(options(cpu_devices(2)), script);
  const State before = towers.state();
  const State after = go_on(towers).state;
  ASSERT_EQ(after.frozen.size(), 1u);
  EXPECT_EQ(after.frozen[0].name, "first.weight");
  EXPECT_TRUE(torch::equal(after.frozen[0].value, before.frozen[0].value));
}

TEST_F(ScriptTest, StartsInTrainingModeAndEvalReachesTheScript) {
  Script script = classifier();
  script.eval();
  ScriptModule model(script);
  const Tensor x = models::vectors(0).first;
  EXPECT_FALSE(torch::equal(model.forward(x), model.forward(x)));  // dropout
  model.eval();
  EXPECT_TRUE(torch::equal(model.forward(x), model.forward(x)));
  model.train();
  EXPECT_FALSE(torch::equal(model.forward(x), model.forward(x)));
  model.named_children()["norm"]->eval();
  const Tensor mean = model.named_buffers()["norm.running_mean"].clone();
  model.forward(x);
  EXPECT_TRUE(torch::equal(model.named_buffers()["norm.running_mean"], mean));
}

TEST_F(ScriptTest, TakesACopyOfAModule) {
  const Script script = classifier();
  const Tensor weight = script.attr("first").toModule().attr("weight").toTensor();
  const Tensor before = weight.detach().clone();
  const ScriptModule one(script), other(script);
  EXPECT_FALSE(one.parameters()[0].is_alias_of(weight));
  EXPECT_FALSE(one.parameters()[0].is_alias_of(other.parameters()[0]));
  EXPECT_TRUE(torch::equal(one.parameters()[0], before));
}

TEST_F(ScriptTest, ReadsAFileAndWritesWhatItWasTrainedTo) {
  const std::string file = folder_ / "model.pt", result = folder_ / "trained.pt";
  classifier().save(file);
  for (const auto& devices : {cpu_devices(2), sim_devices(2)}) {
    Mirrored<ScriptModule> towers(options(devices), file);
    const Trained run = go_on(towers);
    expect_same(trained(options(devices)), run, "from a file");
    {
      const torch::NoGradGuard no_gradients;
      towers.model().save(result);
    }
    EXPECT_LT(std::filesystem::file_size(result), std::filesystem::file_size(file) + 1000);
    const ScriptModule read(result);
    for (const NamedTensor& parameter : run.state.parameters) {
      EXPECT_TRUE(torch::equal(read.named_parameters()[parameter.name], parameter.value));
      EXPECT_TRUE(read.named_parameters()[parameter.name].requires_grad());
    }
    for (const NamedTensor& buffer : run.state.buffers)
      EXPECT_TRUE(torch::equal(read.named_buffers()[buffer.name], buffer.value));
  }
}

/// Transfer learning: a script inside a model written in C++.
struct Transfer : torch::nn::Module {
  explicit Transfer(const std::string& file) : backbone(file) {
    register_module("backbone", backbone);
    head = register_module("head", torch::nn::Linear(5, 5));
  }
  Tensor forward(const Tensor& x) { return head(backbone->forward(x)); }
  Scripted backbone;
  torch::nn::Linear head = nullptr;
};

TEST_F(ScriptTest, AScriptedMemberIsTrainedAndItsModeReachesAllTowers) {
  const std::string file = folder_ / "net.pt";
  classifier().save(file);
  std::optional<Trained> first;
  for (const auto& devices :
       {cpu_devices(1), cpu_devices(2), cpu_devices(4), sim_devices(1), sim_devices(3)}) {
    Mirrored<Transfer> towers(options(devices), file);
    EXPECT_EQ(towers.state().parameters.size(), 8u);
    towers.model().backbone->eval();
    const Tensor mean = towers.model().backbone->named_buffers()["norm.running_mean"].cpu();
    const Trained run = go_on(towers);
    EXPECT_TRUE(torch::equal(mean, run.state.buffers[0].value));
    if (first) expect_same(*first, run, devices.front().name());
    if (!first) first = run;
  }
}

TEST_F(ScriptTest, AHolderOfAScriptIsAModel) {
  const std::string file = folder_ / "net.pt";
  classifier().save(file);
  Mirrored<Scripted> towers(options(sim_devices(2)), file);
  Mirrored<ScriptModule> plain(options(cpu_devices(1)), file);
  for (int step = 0; step < kSteps; ++step) {
    towers.step(models::vectors(step), [](Scripted& model, const models::Batch& shard) {
      return models::CrossEntropy{}(*model, shard);
    });
    plain.step(models::vectors(step), models::CrossEntropy{});
  }
  EXPECT_EQ(first_difference(plain.state(), towers.state()), "");
}

TEST_F(ScriptTest, ReturnsWhateverForwardDoes) {
  ScriptModule model(with_forward("  return x * self.weight, 7"));
  const auto pair = model.run({torch::ones({3})}).toTuple();
  EXPECT_EQ(pair->elements()[1].toInt(), 7);
}

std::string refusal(const std::function<void()>& construct) {
  try {
    construct();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST_F(ScriptTest, RefusesAFileThatIsNoScript) {
  const auto refused = [](const std::string& file) {
    return refusal([&] { const ScriptModule model(file); });
  };
  const std::string missing = folder_ / "missing.pt", text = folder_ / "text.pt",
                    tensor = folder_ / "tensor.pt", torn = folder_ / "torn.pt";
  EXPECT_EQ(refused(missing),
            "there is no file '" + missing + "': give one that torch.jit.save wrote.");
  std::ofstream(text) << "not a model";
  torch::save(torch::ones({3}), tensor);
  classifier().save(torn);
  std::filesystem::resize_file(torn, 1000);
  for (const std::string& file : {text, torn})
    EXPECT_EQ(refused(file).find("'" + file + "' is no model that torch.jit.save wrote: "), 0u)
        << refused(file);
  EXPECT_EQ(refused(tensor).find("'" + tensor + "' has no forward()"), 0u) << refused(tensor);
}

TEST_F(ScriptTest, RefusesAForwardThatKeepsWhatIsNoBuffer) {
  const auto refused = [](const std::string& lines) {
    return refusal([&] { const ScriptModule model(with_forward(lines)); });
  };
  const std::string result = "  return x * self.weight";
  EXPECT_NE(refused("  self.count += 1\n" + result).find("assigns self.count"), std::string::npos);
  EXPECT_NE(refused("  self.mean = x\n" + result).find("assigns self.mean"), std::string::npos);
  EXPECT_NE(refused("  if self.training:\n    self.seen.append(1)\n" + result)
                .find("writes to self.seen"),
            std::string::npos);
  EXPECT_NE(refused("  self.scale.mul_(2)\n" + result).find("writes to self.scale"),
            std::string::npos);
  EXPECT_EQ(refused("  self.mean.add_(1)\n" + result), "none");
}

TEST_F(ScriptTest, RefusesATensorThatWantsAGradientAndIsNoParameter) {
  const auto refused = [](const Tensor& tensor) {
    Script script = classifier();
    script.register_attribute("held", c10::ListType::ofTensors(), std::vector<Tensor>{tensor});
    return refusal([&] { const ScriptModule model(script); });
  };
  EXPECT_EQ(refused(torch::ones({3})), "none");
  EXPECT_EQ(refused(torch::ones({3}).requires_grad_()).find("'held' of the script"), 0u);
}

TEST_F(ScriptTest, AModelWithoutParametersIsRefused) {
  Script script = part(std::make_shared<torch::jit::CompilationUnit>(), "Net");
  script.define("def forward(self, x: Tensor):\n  return x * 2\n");
  EXPECT_THROW(Mirrored<ScriptModule>(options(cpu_devices(2)), script), ConfigError);
  EXPECT_NE(
      refusal([] {
        const ScriptModule model(part(std::make_shared<torch::jit::CompilationUnit>(), "Empty"));
      }).find("no forward()"),
      std::string::npos);
}

}  // namespace script_test
