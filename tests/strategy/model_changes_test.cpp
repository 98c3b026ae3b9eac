// What a program does to a model after its towers were made, and what it is told.

#include <torch/script.h>

#include <atomic>
#include <thread>

#include "refusal.h"

namespace model_changes_test {

using namespace refusal;
using on_sim::sim_devices;

struct Net : nn::Module {
  Net() {
    body = register_module("body", nn::Linear(12, 12));
    head = register_module("head", nn::Linear(12, 5));
    norm = register_module("norm", nn::BatchNorm1d(12));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(norm(torch::relu(body(x)))); }
  nn::Linear body = nullptr, head = nullptr;
  nn::BatchNorm1d norm = nullptr;
};

std::vector<std::vector<Device>> device_lists() {
  return {cpu_devices(1), cpu_devices(2), sim_devices(1), sim_devices(2)};
}

template <class Model>
Mirrored<Model> towers_on(const std::vector<Device>& devices) {
  MirroredOptions how = options(1);
  how.where.devices = devices;
  return Mirrored<Model>(how);
}

/// Steps, lets `change` do something to the model, and expects that all that follows is refused.
template <class Change>
void expect_change_refused(const std::string& name, const std::string& advice,
                           const Change& change) {
  for (const auto& devices : device_lists())
    for (const bool kept : {false, true}) {
      auto towers = towers_on<Net>(devices);
      Net& model = towers.model();
      towers.step(models::vectors(0), models::CrossEntropy{});
      change(kept ? model : towers.model());
      if (kept && advice == "registered") continue;  // model() has to be called, see docs/using.md
      for (int i = 0; i < 2; ++i) {
        const std::string message =
            message_of([&] { towers.step(models::vectors(1), models::CrossEntropy{}); });
        expect_refused(message, name, advice);
        EXPECT_NE(message.find("Mirrored::from"), std::string::npos) << message;
      }
      EXPECT_THROW(towers.state(), ConfigError);
    }
}

TEST(ModelChanges, ALayerThatIsReplacedIsRefused) {
  expect_change_refused("head", "replaced", [](Net& model) {
    model.head = model.replace_module("head", nn::Linear(12, 5));
  });
}

TEST(ModelChanges, ALayerThatIsAddedIsRefused) {
  expect_change_refused("extra", "registered",
                        [](Net& model) { model.register_module("extra", nn::Linear(12, 5)); });
}

TEST(ModelChanges, ALayerThatIsTakenAwayIsRefused) {
  expect_change_refused("head", "taken away", [](Net& model) { model.unregister_module("head"); });
}

TEST(ModelChanges, AParameterOrBufferThatIsAddedIsRefused) {
  expect_change_refused("scale", "registered",
                        [](Net& model) { model.register_parameter("scale", torch::ones({5})); });
  expect_change_refused("head.seen", "registered",
                        [](Net& model) { model.head->register_buffer("seen", torch::zeros({5})); });
}

TEST(ModelChanges, ALayerThatIsPutBackIsFine) {
  auto towers = towers_on<Net>(cpu_devices(2));
  const auto head = towers.model().head;
  towers.model().replace_module("head", nn::Linear(12, 5));
  EXPECT_THROW(towers.state(), ConfigError);
  towers.model().replace_module("head", head);
  EXPECT_EQ(message_of([&] { towers.step(models::vectors(0), models::CrossEntropy{}); }), "");
}

TEST(ModelChanges, HoldersThatComeAndGoAreFine) {
  auto towers = towers_on<Net>(cpu_devices(2));
  std::optional<nn::Linear> kept = towers.model().head;
  EXPECT_EQ(message_of([&] {
              towers.step(models::vectors(0), models::CrossEntropy{});
              kept.reset();
              towers.step(models::vectors(1), models::CrossEntropy{});
            }),
            "");
}

/// Makes a layer when it first sees a batch.
struct Lazy : Base {
  torch::Tensor forward(const torch::Tensor& x) {
    if (!late) late = register_module("late", nn::Linear(5, 5));
    return late(linear(x));
  }
  nn::Linear late = nullptr;
};

TEST(ModelChanges, ALayerThatForwardMakesIsRefused) {
  expect_step_refused<Lazy>("late", "registered after the towers were made");
}

struct Frozen : Net {
  Frozen() { body->weight.set_requires_grad(false); }
};

TEST(ModelChanges, AParameterThatWasFrozenWhenTheTowersWereMadeStaysFrozen) {
  for (const auto& devices : device_lists()) {
    auto towers = towers_on<Frozen>(devices);
    towers.step(models::vectors(0), models::CrossEntropy{});
    towers.model().body->weight.set_requires_grad(true);
    expect_refused(message_of([&] { towers.step(models::vectors(1), models::CrossEntropy{}); }),
                   "body.weight", "set_trainable(pattern, false)");
    towers.model().body->weight.set_requires_grad(false);
    EXPECT_EQ(message_of([&] { towers.step(models::vectors(1), models::CrossEntropy{}); }), "");
  }
}

// Scripts that a model holds as they are.

/// Dropout and a linear layer, with buffers that training mode writes.
torch::jit::Module script() {
  torch::jit::Module made("__torch__.Backbone", std::make_shared<torch::jit::CompilationUnit>(),
                          /*shouldMangle=*/true);
  made.register_attribute("training", c10::BoolType::get(), true);
  made.register_parameter("weight", torch::ones({12, 12}).mul_(0.1).requires_grad_(), false);
  made.register_buffer("seen", torch::zeros({}));
  made.define(R"(
def forward(self, x: Tensor):
  return torch.dropout(torch.linear(x, self.weight), 0.5, self.training)
def count(self, x: Tensor):
  self.seen.add_(1)
  return self.forward(x)
)");
  return made;
}

enum class Holds { registered, frozen, nothing };

template <Holds holds>
struct Scripted : Base {
  Scripted() : backbone(script()) {
    backbone.to(torch::empty({0}).device());
    for (const auto& item : backbone.named_parameters()) {
      if (holds == Holds::registered) register_parameter(item.name, item.value);
      if (holds == Holds::frozen) item.value.set_requires_grad(false);
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto method = backbone.get_method(counts ? "count" : "forward");
    return linear(method({x}).toTensor());
  }
  torch::jit::Module backbone;
  bool counts = false;
};

TEST(ModelChanges, EvalOnAScriptOfOneReplicaIsRefused) {
  const auto expect_told = [](const std::string& message) {
    expect_refused(message, "Backbone", "lockstep::Scripted");
    EXPECT_NE(message.find("another mode on"), std::string::npos) << message;
  };
  for (const auto& devices : {cpu_devices(2), cpu_devices(3), sim_devices(2)}) {
    auto towers = towers_on<Scripted<Holds::registered>>(devices);
    towers.model().backbone.eval();
    expect_told(message_of([&] { towers.step(models::vectors(0), models::CrossEntropy{}); }));
    EXPECT_EQ(towers.steps(), 0);
    towers.model().backbone.train();
    EXPECT_EQ(message_of([&] { towers.step(models::vectors(0), models::CrossEntropy{}); }), "");
    towers.model().backbone.eval();
    expect_told(message_of([&] { towers.step(models::vectors(1), models::CrossEntropy{}); }));
  }
}

TEST(ModelChanges, EvalOnAScriptOfOneReplicaIsRefusedInEvaluateToo) {
  auto towers = towers_on<Scripted<Holds::registered>>(cpu_devices(2));
  std::vector<models::Batch> batches;
  for (int i = 0; i < 12; ++i) batches.push_back(models::vectors(i));
  std::atomic<int> waiting = 0;
  const auto metric = [&](Scripted<Holds::registered>& model, const models::Batch& batch) {
    for (++waiting; waiting < 2;) std::this_thread::yield();  // both towers take part
    return model.forward(batch.first).sum().item<double>();
  };
  EXPECT_EQ(message_of([&] { towers.evaluate(batches, metric); }), "");
  waiting = 0;
  towers.model().backbone.eval();
  expect_refused(message_of([&] { towers.evaluate(batches, metric); }), "Backbone",
                 "lockstep::Scripted");
}

TEST(ModelChanges, AScriptWhoseModeTheLossSetsIsFine) {
  const auto loss = [](Scripted<Holds::registered>& model, const models::Batch& shard) {
    model.backbone.eval();
    const torch::Tensor first = models::CrossEntropy{}(model, shard);
    model.backbone.train();
    return first + models::CrossEntropy{}(model, shard);
  };
  std::optional<double> expected;
  for (const auto& devices : device_lists()) {
    auto towers = towers_on<Scripted<Holds::registered>>(devices);
    const double found = towers.step(models::vectors(0), loss).loss;
    if (!expected) expected = found;
    EXPECT_EQ(*expected, found);
  }
}

TEST(ModelChanges, AScriptThatNobodyWouldTrainIsRefused) {
  expect_step_refused<Scripted<Holds::nothing>>("weight", "lockstep::Scripted");
  for (const auto& devices : device_lists()) {
    auto towers = towers_on<Scripted<Holds::frozen>>(devices);
    EXPECT_EQ(message_of([&] { towers.step(models::vectors(0), models::CrossEntropy{}); }), "");
    const auto counts = [](Scripted<Holds::frozen>& model, const models::Batch& shard) {
      model.counts = true;
      return models::CrossEntropy{}(model, shard);
    };
    expect_refused(message_of([&] { towers.step(models::vectors(0), counts); }), "seen",
                   "every tower would have its own");
  }
}

}  // namespace model_changes_test
