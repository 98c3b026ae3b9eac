// ResNets: counts of the papers, names and values of torchvision, and equal training on any
// devices.

#include <lockstep/nn/resnet.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "training.h"

namespace resnet_test {

using namespace training;

class ResNets : public OnOneThread {};

struct OracleTensor {
  std::string name, shape;
};

std::ifstream oracle(const std::string& file) {
  const auto tests = std::filesystem::path(__FILE__).parent_path().parent_path();
  std::ifstream stream(tests / "oracles" / file);
  if (!stream) throw std::runtime_error("cannot open tests/oracles/" + file);
  return stream;
}

/// All tensors of torchvision's network, in its order.
std::vector<OracleTensor> torchvisions(const std::string& network) {
  std::ifstream stream = oracle("resnet_names.txt");
  std::vector<OracleTensor> tensors;
  for (std::string of, name, shape; stream >> of >> name >> shape;)
    if (of == network) tensors.push_back({name, shape});
  return tensors;
}

std::vector<double> torchvisions_logits(const std::string& network) {
  std::ifstream stream = oracle("resnet_logits.txt");
  std::vector<double> logits;
  for (std::string line, name; std::getline(stream, line);) {
    std::istringstream words(line);
    words >> name;
    if (name == network)
      for (double logit = 0; words >> logit;) logits.push_back(logit);
  }
  return logits;
}

std::map<std::string, torch::Tensor> tensors_of(const ResNet& model) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : model.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

/// "64x3x7x7"
std::string shape_of(const torch::Tensor& tensor) {
  if (tensor.dim() == 0) return "scalar";
  std::ostringstream text;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) text << (i > 0 ? "x" : "") << tensor.size(i);
  return text.str();
}

torch::Tensor sines(torch::IntArrayRef shape, int k, double centre, double spread) {
  const torch::Tensor place = torch::arange(c10::multiply_integers(shape), torch::kFloat64);
  return (centre + spread * torch::sin(0.37 * place + k)).reshape(shape);
}

/// The weights of tests/oracles/resnet_logits.py.
torch::Tensor weight(const std::string& name, const torch::Tensor& like, int k) {
  if (name.ends_with("running_var")) return sines(like.sizes(), k, 1, 0.5);
  if (like.dim() > 1)
    return sines(like.sizes(), k, 0,
                 std::sqrt(2 / static_cast<double>(like.numel() / like.size(0))));
  return sines(like.sizes(), k, name.ends_with("weight") ? 1 : 0, 0.1);
}

ResNetOptions options_of(const std::string& network, std::int64_t classes) {
  return network == "resnet18" ? resnet18(classes) : resnet50(classes);
}

TEST_F(ResNets, ParameterCountsAreThoseOfThePapers) {
  EXPECT_EQ(parameters_of(ResNet(resnet20(10))), 269'722);
  EXPECT_EQ(parameters_of(ResNet(resnet18(1000))), 11'689'512);
  EXPECT_EQ(parameters_of(ResNet(resnet50(1000))), 25'557'032);
}

TEST_F(ResNets, ProjectedShortcutsAddTheirConvolutionsAndNorms) {
  ResNetOptions options = resnet20(10);
  options.shortcut = Shortcut::projected;
  EXPECT_EQ(parameters_of(ResNet(options)), 269'722 + 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64);
}

TEST_F(ResNets, NamesAndShapesAreTorchvisions) {
  for (const std::string network : {"resnet18", "resnet50"}) {
    const auto found = tensors_of(ResNet(options_of(network, 1000)));
    const auto expected = torchvisions(network);
    EXPECT_EQ(found.size(), expected.size());
    for (const auto& [name, shape] : expected) {
      ASSERT_TRUE(found.contains(name)) << network << ' ' << name;
      EXPECT_EQ(shape_of(found.at(name)), shape) << network << ' ' << name;
    }
  }
}

TEST_F(ResNets, LogitsAreTorchvisionsForTheSameWeights) {
  for (const std::string network : {"resnet18", "resnet50"}) {
    ResNet model(options_of(network, 7));
    model.to(torch::kFloat64);
    model.eval();
    const torch::NoGradGuard no_gradients;
    auto tensors = tensors_of(model);
    int k = 0;
    for (const auto& [name, shape] : torchvisions(network))
      if (!name.ends_with("num_batches_tracked"))
        tensors.at(name).copy_(weight(name, tensors.at(name), k++));
    const torch::Tensor logits = model.forward(sines({1, 3, 70, 64}, 0, 0, 1)).squeeze(0);
    const auto expected = torch::tensor(torchvisions_logits(network), torch::kFloat64);
    ASSERT_EQ(logits.sizes(), expected.sizes());
    // In double precision only the order of sums differs.
    EXPECT_TRUE(torch::allclose(logits, expected, 1e-9, 1e-9)) << logits << expected;
  }
}

TEST_F(ResNets, LogitsHaveARowForEveryImageAndAColumnForEveryClass) {
  EXPECT_EQ(ResNet(resnet20(10)).forward(torch::rand({2, 3, 32, 32})).sizes(),
            torch::IntArrayRef({2, 10}));
  EXPECT_EQ(ResNet(resnet20(7, 1)).forward(torch::rand({3, 1, 28, 28})).sizes(),
            torch::IntArrayRef({3, 7}));
  EXPECT_EQ(ResNet(resnet18(12)).forward(torch::rand({2, 3, 64, 96})).sizes(),
            torch::IntArrayRef({2, 12}));
}

TEST_F(ResNets, EveryParameterGetsAGradient) {
  ResNet plain(resnet20(5)), large(resnet18(5));
  expect_a_gradient_for_every_parameter(plain, images(0, 4, 3, 16));
  expect_a_gradient_for_every_parameter(large, images(0, 4, 3, 64));
}

TEST_F(ResNets, RowsDoNotSeeEachOtherInEvaluation) {
  ResNet model(resnet20(5));
  expect_rows_do_not_see_each_other_in_evaluation(model, images(0, 3, 3, 16));
}

TEST_F(ResNets, ConvolutionsStartWithHesSpread) {
  torch::manual_seed(1);
  const auto tensors = tensors_of(ResNet(resnet18(10)));
  const double found = tensors.at("layer3.0.conv1.weight").std().item<double>();
  EXPECT_NEAR(found, std::sqrt(2. / (256 * 9)), 2e-4);  // fan-out; of 294,912 values
}

TEST_F(ResNets, ZeroLastGainMakesEachBlockStartAsItsShortcut) {
  ResNetOptions options = resnet20(5);
  options.zero_last_gain = true;
  ResNet model(options);
  const torch::Tensor x = torch::rand({2, 16, 8, 8});
  EXPECT_TRUE(torch::equal(model.layers[0]->forward(x), x));
  const torch::Tensor halved = model.layers[1]->forward(x);
  EXPECT_TRUE(torch::equal(halved.narrow(1, 0, 16), x.index({"...", torch::indexing::Slice(0, 8, 2),
                                                             torch::indexing::Slice(0, 8, 2)})));
  EXPECT_EQ(halved.narrow(1, 16, 16).abs().max().item<float>(), 0);
}

TEST_F(ResNets, OneAndThreeCpusAndTwoSimulatedDevicesTrainTheSameBitForBit) {
  expect_equal_on_any_devices<ResNet>(resnet20(5), 3, 16);
}

TEST_F(ResNets, OptionsThatMakeNoNetworkAreRefused) {
  EXPECT_THROW(ResNet(ResNetOptions{.blocks = {}}), ConfigError);
  EXPECT_THROW(ResNet(ResNetOptions{.blocks = {2, 0}}), ConfigError);
  EXPECT_THROW(ResNet(ResNetOptions{.width = 0}), ConfigError);
  EXPECT_THROW(ResNet(resnet20(0)), ConfigError);
  EXPECT_THROW(ResNet(resnet20(10, 0)), ConfigError);
}

}  // namespace resnet_test
