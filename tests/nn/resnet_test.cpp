// ResNets: counts of the papers, names and values of torchvision, and equal training on any
// devices.

#include <lockstep/nn/resnet.h>

#include "torchvision.h"
#include "training.h"

namespace resnet_test {

using namespace training;

class ResNets : public OnOneThread {};

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
  for (const std::string network : {"resnet18", "resnet50"})
    torchvision::expect_names_and_shapes(ResNet(options_of(network, 1000)), "resnet_names.txt",
                                         network);
}

TEST_F(ResNets, LogitsAreTorchvisionsForTheSameWeights) {
  for (const std::string network : {"resnet18", "resnet50"}) {
    ResNet model(options_of(network, 7));
    torchvision::expect_logits(model, "resnet_names.txt", network);
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
  const auto tensors = torchvision::tensors_of(ResNet(resnet18(10)));
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
