// Programs that would give other bits on other devices, or other bits than the plain program: each
// is made to work, or refused by name.

#include "refusal.h"

namespace refusals_test {

using namespace refusal;

// Towers that share tensors.

nn::Linear& shared_by_all() {
  static nn::Linear linear(12, 5);
  return linear;
}

struct TakesAGlobal : nn::Module {
  TakesAGlobal() { linear = register_module("linear", shared_by_all()); }
  torch::Tensor forward(const torch::Tensor& x) { return linear(x); }
  nn::Linear linear = nullptr;
};

struct TakesAGlobalBuffer : Base {
  TakesAGlobalBuffer() {
    static const torch::Tensor table = torch::ones({5});
    register_buffer("table", table);
  }
};

struct TakesAGlobalActivation : Base {
  TakesAGlobalActivation() {
    static const auto relu = std::make_shared<nn::ReLUImpl>();
    register_module("relu", relu);
  }
};

TEST(Refusals, OneTensorOrModuleInTwoTowers) {
  expect_refused(message_of([] { Mirrored<TakesAGlobal> towers(options(2)); }), "linear.weight",
                 "one tensor in two towers");
  expect_refused(message_of([] { Mirrored<TakesAGlobalBuffer> towers(options(2)); }), "table",
                 "one tensor in two towers");
  expect_refused(message_of([] { Mirrored<TakesAGlobalActivation> towers(options(2)); }),
                 "model.relu", "one in two towers");
  EXPECT_EQ(message_of([] { Mirrored<TakesAGlobal> towers(options(1)); }), "");
}

// Gradients outside of the backward stage.

struct TwoHeads : Base {
  TwoHeads() { other = register_module("other", nn::Linear(12, 5)); }
  nn::Linear other = nullptr;
};

TEST(Refusals, BackwardInTheLossFunction) {
  const auto loss = [](TwoHeads& model, const models::Batch& shard) {
    model.other(shard.first).square().mean().backward();
    return nn::functional::cross_entropy(model.linear(shard.first), shard.second);
  };
  for (auto list : {cpu_devices(2), on_sim::sim_devices(2)}) {
    MirroredOptions how = options(2);
    how.where.devices = list;
    Mirrored<TwoHeads> towers(how);
    expect_refused(message_of([&] { towers.step(models::vectors(0), loss); }), "other.bias",
                   "return the loss");
    // Nothing of it is left in the next step.
    const auto sum = [](TwoHeads& model, const models::Batch& shard) {
      return model.linear(shard.first).square().mean() + model.other(shard.first).square().mean();
    };
    Mirrored<TwoHeads> fresh(how);
    EXPECT_EQ(towers.step(models::vectors(1), sum).loss, fresh.step(models::vectors(1), sum).loss);
    EXPECT_EQ(difference(fresh.state().gradients, towers.state().gradients), "");
  }
}

// Parameters that are written while a shard is computed.

struct WritesItsBias : Base {
  torch::Tensor forward(const torch::Tensor& x) {
    {
      const torch::NoGradGuard no_grad;
      linear->bias.clamp_(-0.01, 0.01);
    }
    return linear(x);
  }
};

struct WritesThroughData : Base {
  torch::Tensor forward(const torch::Tensor& x) {
    linear->weight.data().clamp_(-0.01, 0.01);
    return linear(x);
  }
};

struct TeacherThroughData : Base {
  TeacherThroughData() {
    teacher = register_parameter("teacher", linear->bias.detach().clone(), false);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    teacher.data().mul_(0.9).add_(x.detach().mean());
    return linear(x) + teacher;
  }
  torch::Tensor teacher;
};

struct ReplacesItsWeight : Base {
  torch::Tensor forward(const torch::Tensor& x) {
    linear->weight.set_data(linear->weight.detach().clamp(-1, 1));
    return linear(x);
  }
};

struct AssignsItsWeight : Base {
  AssignsItsWeight() { scale = register_parameter("scale", torch::ones({5})); }
  torch::Tensor forward(const torch::Tensor& x) {
    scale = scale.detach().clamp(0, 2).requires_grad_();
    return linear(x) * scale;
  }
  torch::Tensor scale;
};

/// A frozen copy of the weights that follows them as an average.
struct Teacher : Base {
  Teacher() { teacher = register_parameter("teacher", linear->weight.detach().clone(), false); }
  void follow() {
    const torch::NoGradGuard no_grad;
    teacher.lerp_(linear->weight, 0.1);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return linear(x) + 0.1 * torch::matmul(x, teacher.t());
  }
  torch::Tensor teacher;
};

struct TeacherInForward : Teacher {
  torch::Tensor forward(const torch::Tensor& x) {
    follow();
    return Teacher::forward(x);
  }
};

TEST(Refusals, ParametersWrittenInForward) {
  expect_step_refused<WritesItsBias>("linear.bias", "between steps only");
  expect_step_refused<ReplacesItsWeight>("linear.weight", "between steps only");
  expect_step_refused<AssignsItsWeight>("scale", "in place");
  expect_step_refused<TeacherInForward>("teacher", "updated after the step");
  expect_step_refused<WritesThroughData>("linear.weight", "between steps only");
  expect_step_refused<TeacherThroughData>("teacher", "between steps only");
}

TEST(Refusals, WeightsThatForwardHasWrittenAreLostAndALoadBringsThemBack) {
  Mirrored<WritesItsBias> towers(options(2));
  const State before = towers.state();
  EXPECT_THROW(towers.step(models::vectors(0), models::CrossEntropy{}), TowerError);
  EXPECT_THROW(towers.state(), std::logic_error);
  towers.load(before);
  EXPECT_EQ(difference(before.parameters, towers.state().parameters), "");
}

TEST(Refusals, AWeightThatForwardHasReplacedIsPutBack) {
  Mirrored<ReplacesItsWeight> towers(options(2));
  const State before = towers.state();
  EXPECT_THROW(towers.step(models::vectors(0), models::CrossEntropy{}), TowerError);
  EXPECT_EQ(difference(before.parameters, towers.state().parameters), "");
}

TEST(Refusals, AMemberThatForwardHasAssignedIsRefusedAgainAndAgain) {
  Mirrored<AssignsItsWeight> towers(options(2));
  for (int i = 0; i < 3; ++i)
    EXPECT_NE(message_of([&] { towers.step(models::vectors(0), models::CrossEntropy{}); }), "");
}

TEST(Refusals, ParametersWrittenInEvaluate) {
  Mirrored<WritesItsBias> towers(options(2));
  const auto metric = [](WritesItsBias& model, const models::Batch& batch) -> Metrics {
    return {{"sum", {model.forward(batch.first).sum().item<double>(), 1}}};
  };
  const std::vector<models::Batch> batches = {models::vectors(0)};
  expect_refused(message_of([&] { towers.evaluate(batches, metric); }), "linear.bias",
                 "between steps only");
}

TEST(Refusals, AMemberAssignedBetweenSteps) {
  Mirrored<AssignsItsWeight> towers(options(2));
  towers.model().scale = torch::zeros({5});
  expect_refused(message_of([&] { towers.step(models::vectors(0), models::CrossEntropy{}); }),
                 "scale", "copy_()");
}

/// The two programs that the message advises, on `devices` of one kind.
State renormalised(const std::vector<Device>& devices, int shards) {
  struct Words : nn::Module {
    Words() {
      embedding = register_module("embedding", nn::Embedding(20, 12));
      head = register_module("head", nn::Linear(12, 20));
    }
    torch::Tensor forward(const torch::Tensor& tokens) { return head(embedding(tokens)); }
    nn::Embedding embedding = nullptr;
    nn::Linear head = nullptr;
  };
  Mirrored<Words> towers(
      {.method = {.shards = shards, .optimizer = Sgd{.lr = 0.1}}, .where = {.devices = devices}});
  for (int step = 0; step < 4; ++step) {
    const models::Batch batch = models::sentences(step);
    {
      const torch::NoGradGuard no_grad;
      torch::Tensor& weight = towers.model().embedding->weight;
      torch::embedding_renorm_(weight, batch.first.to(weight.device()).flatten(), 2.0, 2.0);
    }
    towers.step(batch, models::CrossEntropy{});
  }
  return towers.state();
}

TEST(Refusals, MaxNormIsRefusedAndWhatReplacesItIsThePlainProgram) {
  struct MaxNorm : nn::Module {
    MaxNorm() {
      embedding =
          register_module("embedding", nn::Embedding(nn::EmbeddingOptions(20, 12).max_norm(2)));
      head = register_module("head", nn::Linear(12, 20));
    }
    torch::Tensor forward(const torch::Tensor& tokens) { return head(embedding(tokens)); }
    nn::Embedding embedding = nullptr;
    nn::Linear head = nullptr;
  };
  Mirrored<MaxNorm> towers(options(2));
  expect_refused(message_of([&] { towers.step(models::sentences(0), models::CrossEntropy{}); }),
                 "embedding.weight", "embedding_renorm_");

  MaxNorm plain;
  Mirrored<MaxNorm> start(options(1, 1));
  const torch::NoGradGuard no_grad;
  for (const auto& item : start.model().named_parameters())
    plain.named_parameters()[item.key()].copy_(item.value());
  torch::optim::SGD optimizer(plain.parameters(), 0.1);
  for (int step = 0; step < 4; ++step) {
    const torch::AutoGradMode grad(true);
    optimizer.zero_grad();
    models::CrossEntropy{}(plain, models::sentences(step)).backward();
    optimizer.step();
  }
  const State one = renormalised(cpu_devices(1), 1);
  for (const NamedTensor& tensor : one.parameters)
    EXPECT_TRUE(torch::allclose(tensor.value, plain.named_parameters()[tensor.name], 1e-6, 1e-6))
        << tensor.name;
  const State several = renormalised(cpu_devices(1), 4);
  for (const auto& list : {cpu_devices(3), on_sim::sim_devices(1), on_sim::sim_devices(3)})
    EXPECT_EQ(first_difference(several, renormalised(list, 4)), "") << list.front().name();
}

TEST(Refusals, ATeacherThatFollowsAfterTheStepIsTheSameOnAnyDevices) {
  const auto trained = [](const std::vector<Device>& devices) {
    Mirrored<Teacher> towers(
        {.method = {.shards = 4, .optimizer = Sgd{.lr = 0.1}}, .where = {.devices = devices}});
    for (int step = 0; step < 4; ++step) {
      towers.step(models::vectors(step), models::CrossEntropy{});
      towers.model().follow();
    }
    return towers.state();
  };
  const State one = trained(cpu_devices(1));
  EXPECT_FALSE(
      torch::equal(one.frozen[0].value, Mirrored<Teacher>(options(1)).state().frozen[0].value));
  for (const auto& list : {cpu_devices(3), on_sim::sim_devices(1), on_sim::sim_devices(3)})
    EXPECT_EQ(first_difference(one, trained(list)), "") << list.front().name();
}

// Tensors tied by memory.

struct KeepsAView : nn::Module {
  KeepsAView() {
    encoder = register_module("encoder", nn::Linear(12, 12));
    decoder = encoder->weight.t();
    head = register_module("head", nn::Linear(12, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(torch::matmul(encoder(x), decoder)); }
  nn::Linear encoder = nullptr, head = nullptr;
  torch::Tensor decoder;
};

struct TiesBySetData : nn::Module {
  TiesBySetData() {
    a = register_module("a", nn::Linear(12, 12));
    b = register_module("b", nn::Linear(12, 12));
    b->weight.set_data(a->weight.data());
    head = register_module("head", nn::Linear(12, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(b(a(x))); }
  nn::Linear a = nullptr, b = nullptr, head = nullptr;
};

struct FrozenTie : Base {
  FrozenTie() { register_parameter("fixed", linear->weight.detach(), false); }
  torch::Tensor forward(const torch::Tensor& x) { return linear(x); }
};

/// Parameters and a buffer that are views, of tensors that are gone or are views as well.
struct HarmlessViews : Base {
  HarmlessViews() {
    scale = register_parameter("scale", torch::ones({2, 5}).narrow(0, 1, 1).squeeze(0));
    const torch::Tensor both = torch::zeros({10});
    first = register_parameter("first", both.narrow(0, 0, 5).detach());
    second = register_parameter("second", both.narrow(0, 5, 5).detach());
    mask = register_buffer("mask", torch::ones({5, 1}).t());
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return (linear(x) + first + second) * scale * mask;
  }
  torch::Tensor scale, first, second, mask;
};

TEST(Refusals, TensorsTiedByMemory) {
  for (auto list : {cpu_devices(1), on_sim::sim_devices(2)}) {
    MirroredOptions how = options(1);
    how.where.devices = list;
    expect_refused(message_of([&] { Mirrored<KeepsAView> towers(how); }), "encoder.weight",
                   "make the view in forward");
    expect_refused(message_of([&] { Mirrored<TiesBySetData> towers(how); }), "b.weight",
                   "register one tensor under both names");
    expect_refused(message_of([&] { Mirrored<FrozenTie> towers(how); }), "fixed", "share memory");
    EXPECT_EQ(message_of([&] {
                Mirrored<HarmlessViews> towers(how);
                towers.step(models::vectors(0), models::CrossEntropy{});
              }),
              "");
  }
}

// Parameters without a gradient.

/// Has a head that every other step uses.
struct Alternating : TwoHeads {
  torch::Tensor forward(const torch::Tensor& x) { return both ? linear(x) + other(x) : linear(x); }
  bool both = true;
};

struct AlternatingLoss {
  bool both;
  torch::Tensor operator()(Alternating& model, const models::Batch& shard) const {
    model.both = both;
    return models::CrossEntropy{}(model, shard);
  }
};

TEST(Refusals, AParameterWithoutAGradientIsLeftAloneAsInTorchOptim) {
  const Sgd how{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1};
  const auto trained = [&](const std::vector<Device>& devices, int shards) {
    Mirrored<Alternating> towers(
        {.method = {.shards = shards, .optimizer = how}, .where = {.devices = devices}});
    for (int step = 0; step < 5; ++step)
      towers.step(models::vectors(step), AlternatingLoss{step % 2 == 0});
    return towers.state();
  };
  Alternating plain;
  {
    const torch::NoGradGuard no_grad;
    Mirrored<Alternating> start(
        {.method = {.shards = 1, .optimizer = how}, .where = {.devices = cpu_devices(1)}});
    for (const auto& item : start.model().named_parameters())
      plain.named_parameters()[item.key()].copy_(item.value());
  }
  torch::optim::SGD optimizer(plain.parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1));
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    AlternatingLoss{step % 2 == 0}(plain, models::vectors(step)).backward();
    optimizer.step();
  }
  for (const NamedTensor& tensor : trained(cpu_devices(1), 1).parameters)
    EXPECT_TRUE(torch::allclose(tensor.value, plain.named_parameters()[tensor.name], 1e-6, 1e-7))
        << tensor.name;
  const State one = trained(cpu_devices(1), 4);
  for (const auto& list : {cpu_devices(3), on_sim::sim_devices(1), on_sim::sim_devices(3)})
    EXPECT_EQ(first_difference(one, trained(list, 4)), "") << list.front().name();
}

}  // namespace refusals_test
