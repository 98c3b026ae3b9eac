// Modules and tensors among the arguments of a model's constructor.

#include "on_sim.h"

namespace arguments_test {

using namespace on_sim;
namespace nn = torch::nn;

constexpr int kSteps = 4;

std::vector<std::vector<Device>> device_lists() {
  sim::configure({.devices = 3});
  return {cpu_devices(1), cpu_devices(3), sim_devices(1), sim_devices(3)};
}

/// Trains Model(args...) on 1 and 3 CPU and simulated devices, and expects the same bits.
template <class Model, class Source, class... Args>
State expect_equal_on_all(const Source& source, const Args&... args) {
  std::optional<Trained> first;
  for (const auto& devices : device_lists()) {
    Mirrored<Model> towers(options(devices), args...);
    Trained run;
    for (int step = 0; step < kSteps; ++step) {
      const StepReport report =
          towers.step(source(step), [](Model& model, const models::Batch& shard) {
            if constexpr (std::is_base_of_v<nn::Module, Model>)
              return models::CrossEntropy{}(model, shard);
            else
              return models::CrossEntropy{}(*model, shard);
          });
      run.losses.push_back(report.loss);
      run.norms.push_back(report.gradient_norm);
    }
    run.state = towers.state();
    EXPECT_NE(run.losses.front(), run.losses.back());
    if (first) expect_same(*first, run, devices.front().name() + " and others");
    if (!first) first = run;
  }
  return first->state;
}

const auto kVectors = [](int step) { return models::vectors(step); };
const auto kSentences = [](int step) { return models::sentences(step); };

/// What the plain program makes of the weights of `model` on one device.
template <class Model, class Forward>
void train_plainly(const Model& model, const Forward& forward) {
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  for (int step = 0; step < kSteps; ++step) {
    const auto [data, target] = models::vectors(step);
    optimizer.zero_grad();
    nn::functional::cross_entropy(forward(data), target).backward();
    optimizer.step();
  }
}

TEST(Arguments, AModuleThatIsGivenTwiceIsTiedInEveryTower) {
  nn::Linear linear(12, 12);
  const State state = expect_equal_on_all<nn::Sequential>(kVectors, linear, nn::ReLU(), linear);
  EXPECT_EQ(state.parameters.size(), 2U);
}

TEST(Arguments, AModuleThatIsGivenTwiceIsTrainedAsInThePlainProgram) {
  nn::Linear linear(12, 12);
  for (const int devices : {1, 3}) {
    Mirrored<nn::Sequential> towers({.method = {.shards = 1, .optimizer = Sgd{.lr = 0.1}},
                                     .where = {.devices = cpu_devices(devices)}},
                                    linear, nn::ReLU(), linear);
    for (int step = 0; step < kSteps; ++step)
      towers.step(models::vectors(step), [](nn::Sequential& model, const models::Batch& shard) {
        return models::CrossEntropy{}(*model, shard);
      });
    nn::Linear plain(std::dynamic_pointer_cast<nn::LinearImpl>(linear->clone()));
    nn::Sequential model(plain, nn::ReLU(), plain);
    train_plainly(*plain, [&](const torch::Tensor& data) { return model->forward(data); });
    EXPECT_TRUE(torch::equal(towers.state().parameters[0].value, plain->weight));
    EXPECT_TRUE(torch::equal(towers.state().parameters[1].value, plain->bias));
  }
}

TEST(Arguments, TheCallersModuleIsNotTheOneThatIsTrained) {
  nn::Linear linear(12, 5);
  const torch::Tensor before = linear->weight.detach().clone();
  const State state = expect_equal_on_all<nn::Sequential>(kVectors, linear);
  EXPECT_TRUE(torch::equal(linear->weight, before));
  EXPECT_FALSE(torch::equal(state.parameters[0].value, before));
  Mirrored<nn::Linear> whole(options(cpu_devices(2)), linear);
  EXPECT_TRUE(torch::equal(whole.model()->weight, before));
  EXPECT_FALSE(whole.model()->weight.is_same(linear->weight));
}

torch::Tensor word_vectors() { return torch::randn({20, 12}, models::generator(77)); }

struct Words : nn::Module {
  explicit Words(const torch::Tensor& vectors) {
    embedding = register_module("embedding",
                                nn::Embedding::from_pretrained(
                                    vectors, nn::EmbeddingFromPretrainedOptions().freeze(false)));
    head = register_module("head", nn::Linear(12, 20));
  }
  torch::Tensor forward(const torch::Tensor& tokens) { return head(embedding(tokens)); }
  nn::Embedding embedding = nullptr;
  nn::Linear head = nullptr;
};

TEST(Arguments, ATensorIsCopiedForEachTower) {
  const torch::Tensor vectors = word_vectors();
  const State state = expect_equal_on_all<Words>(kSentences, vectors);
  EXPECT_EQ(state.parameters.size(), 3U);
  EXPECT_TRUE(torch::equal(vectors, word_vectors()));
}

TEST(Arguments, APretrainedEmbeddingIsCopiedForEachTower) {
  const auto embedding = nn::Embedding::from_pretrained(
      word_vectors(), nn::EmbeddingFromPretrainedOptions().freeze(false));
  expect_equal_on_all<nn::Sequential>(kSentences, embedding, nn::Linear(12, 20));
  EXPECT_TRUE(torch::equal(embedding->weight, word_vectors()));
  EXPECT_TRUE(embedding->options._weight().is_same(embedding->weight));
}

TEST(Arguments, ATensorInOptionsIsCopiedForEachTower) {
  struct Scores : nn::Module {
    explicit Scores(const nn::EmbeddingOptions& options)
        : embedding(register_module("embedding", nn::Embedding(options))) {}
    torch::Tensor forward(const torch::Tensor& tokens) { return embedding(tokens); }
    nn::Embedding embedding;
  };
  const torch::Tensor scores = torch::randn({20, 20}, models::generator(78));
  expect_equal_on_all<Scores>(kSentences, nn::EmbeddingOptions(20, 20)._weight(scores));
}

TEST(Arguments, ALayerInOptionsIsCopiedForEachTower) {
  const auto layer = nn::TransformerEncoderLayerOptions(12, 2).dim_feedforward(8).dropout(0.1);
  struct Encoder : nn::Module {
    explicit Encoder(const nn::TransformerEncoderOptions& options)
        : encoder(register_module("encoder", nn::TransformerEncoder(options))) {}
    torch::Tensor forward(const torch::Tensor& rows) { return encoder(rows.unsqueeze(0))[0]; }
    nn::TransformerEncoder encoder;
  };
  expect_equal_on_all<Encoder>(kVectors, nn::TransformerEncoderOptions(layer, 1).norm(nn::AnyModule(
                                             nn::LayerNorm(nn::LayerNormOptions({12})))));
}

struct Stack : nn::Module {
  explicit Stack(const std::vector<nn::Linear>& layers) {
    for (const nn::Linear& layer : layers) list->push_back(layer);
    register_module("list", list);
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& layer : *list) x = torch::tanh(layer->as<nn::Linear>()->forward(x));
    return x;
  }
  nn::ModuleList list;
};

TEST(Arguments, ModulesInAVectorAreCopiedAndStayTied) {
  const nn::Linear first(12, 12), second(12, 12);
  const State state =
      expect_equal_on_all<Stack>(kVectors, std::vector<nn::Linear>{first, second, first});
  EXPECT_EQ(state.parameters.size(), 4U);
}

TEST(Arguments, AModuleAndItsTensorStayTied) {
  struct Output : nn::Module {
    Output(nn::Embedding in, std::optional<torch::Tensor> out) {
      embedding = register_module("embedding", std::move(in));
      output = register_parameter("output", *out);
    }
    torch::Tensor forward(const torch::Tensor& tokens) {
      return torch::matmul(embedding(tokens), output.t());
    }
    nn::Embedding embedding = nullptr;
    torch::Tensor output;
  };
  const nn::Embedding embedding(20, 12);
  const State state =
      expect_equal_on_all<Output>(kSentences, embedding, std::optional(embedding->weight));
  EXPECT_EQ(state.parameters.size(), 1U);
}

struct Body : nn::Module {
  explicit Body(nn::Sequential given) {
    body = register_module("body", std::move(given));
    head = register_module("head", nn::Linear(12, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(body->forward(x)); }
  nn::Sequential body = nullptr;
  nn::Linear head = nullptr;
};

TEST(Arguments, FrozenParametersAndModesAreCopiedToo) {
  nn::Sequential body(nn::Linear(12, 12), nn::BatchNorm1d(12), nn::Dropout(0.5));
  body->eval();
  for (torch::Tensor& parameter : body->parameters()) parameter.set_requires_grad(false);
  const State state = expect_equal_on_all<Body>(kVectors, body);
  EXPECT_EQ(state.parameters.size(), 2U);
  Mirrored<Body> towers(options(cpu_devices(2)), body);
  for (const auto& module : towers.model().body->modules()) EXPECT_FALSE(module->is_training());
  EXPECT_TRUE(towers.model().head->is_training());
}

template <class Model, class... Args>
void expect_refused(const Args&... args) {
  try {
    Mirrored<Model> towers(options(cpu_devices(2)), args...);
    ADD_FAILURE() << "made";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("appears twice among the constructor arguments"),
              std::string::npos)
        << error.what();
  }
}

TEST(Arguments, ATieThatLibTorchDoesNotCloneIsRefused) {
  const nn::Linear linear(12, 12);
  expect_refused<Body>(nn::Sequential(linear, nn::ReLU(), linear));
  expect_refused<nn::Sequential>(linear, nn::AnyModule(linear));
}

/// Registers in its constructor, as most modules do: there is no clone().
struct Plain : nn::Module {
  Plain() { weight = register_parameter("weight", torch::ones({12})); }
  torch::Tensor forward(const torch::Tensor& x) { return x * weight; }
  torch::Tensor weight;
};

/// Clones itself, but not its submodule.
struct Wrapper : nn::Cloneable<Wrapper> {
  Wrapper() { reset(); }
  void reset() override { inner = register_module("inner", std::make_shared<Plain>()); }
  torch::Tensor forward(const torch::Tensor& x) { return inner->forward(x); }
  std::shared_ptr<Plain> inner;
};

TEST(Arguments, AValueThatCloneForgetsIsCopied) {
  const auto wrapper = std::make_shared<Wrapper>();
  {
    const torch::NoGradGuard no_grad;
    wrapper->inner->weight.fill_(3);
  }
  Mirrored<nn::Sequential> towers(options(cpu_devices(2)), wrapper, nn::Linear(12, 5));
  EXPECT_TRUE(torch::equal(towers.state().parameters[0].value, torch::full({12}, 3.0)));
}

/// Uses a module that it does not train.
struct Student : models::Mlp {
  explicit Student(std::shared_ptr<Plain> other) : teacher(std::move(other)) {}
  std::shared_ptr<Plain> teacher;
};

TEST(Arguments, AModuleWithoutCloneIsGivenAsItIs) {
  const auto teacher = std::make_shared<Plain>();
  Mirrored<Student> towers(options(cpu_devices(2)), teacher);
  EXPECT_EQ(towers.model().teacher, teacher);
}

TEST(Arguments, ATensorOfAModuleWithoutCloneStaysTied) {
  struct Twice : nn::Module {
    Twice(std::shared_ptr<Plain> module, torch::Tensor tensor) {
      register_module("module", std::move(module));
      register_parameter("tensor", std::move(tensor));
    }
  };
  const auto plain = std::make_shared<Plain>();
  Mirrored<Twice> towers(options(cpu_devices(1)), plain, plain->weight);
  EXPECT_EQ(towers.state().parameters.size(), 1U);
}

struct Named : models::Mlp {
  Named(std::string text, const std::unique_ptr<int>& number, std::vector<bool> bits)
      : name(std::move(text)), value(*number), flags(std::move(bits)) {}
  std::string name;
  int value;
  std::vector<bool> flags;
};

TEST(Arguments, TextsAndTypesThatCannotBeCopiedAreGivenAsTheyAre) {
  Mirrored<Named> towers(options(cpu_devices(2)), "a text", std::make_unique<int>(3),
                         std::vector{true, false});
  EXPECT_EQ(towers.model().name, "a text");
  EXPECT_EQ(towers.model().value, 3);
  EXPECT_EQ(towers.model().flags.size(), 2U);
}

}  // namespace arguments_test
