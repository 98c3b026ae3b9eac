// MobileNets: counts of the papers, names and values of torchvision, and equal training on any
// devices.

#include <lockstep/nn/mobilenet.h>

#include "torchvision.h"
#include "training.h"

namespace mobilenet_test {

using namespace training;
using torchvision::shape_of;
using torchvision::tensors_of;

class MobileNets : public OnOneThread {};

TEST_F(MobileNets, ParameterCountsAreThoseOfThePapers) {
  EXPECT_EQ(parameters_of(MobileNetV1({.classes = 1000})), 4'231'976);
  EXPECT_EQ(parameters_of(MobileNetV2({.classes = 1000})), 3'504'872);
  EXPECT_EQ(parameters_of(MobileNetV1({.classes = 0})), 3'206'976);
  EXPECT_EQ(parameters_of(MobileNetV2({.classes = 0})), 2'223'872);
}

TEST_F(MobileNets, NamesAndShapesOfV2AreTorchvisions) {
  for (const std::string width : {"1.0", "0.35"})
    torchvision::expect_names_and_shapes(MobileNetV2({.width = std::stod(width)}),
                                         "mobilenet_names.txt", "mobilenet_v2_" + width);
}

TEST_F(MobileNets, LogitsOfV2AreTorchvisionsForTheSameWeights) {
  for (const std::string width : {"1.0", "0.35"}) {
    MobileNetV2 model({.width = std::stod(width), .classes = 7});
    torchvision::expect_logits(model, "mobilenet_names.txt", "mobilenet_v2_" + width);
  }
}

TEST_F(MobileNets, NamesOfV1CountLayersAndTheirHalves) {
  const auto tensors = tensors_of(MobileNetV1({.width = 0.25, .classes = 5}));
  EXPECT_EQ(shape_of(tensors.at("features.0.0.weight")), "16x3x3x3");  // never below 16 channels
  EXPECT_EQ(shape_of(tensors.at("features.1.0.0.weight")), "16x1x3x3");
  EXPECT_EQ(shape_of(tensors.at("features.1.1.0.weight")), "16x16x1x1");
  EXPECT_EQ(shape_of(tensors.at("features.13.1.0.weight")), "256x256x1x1");
  EXPECT_EQ(shape_of(tensors.at("features.13.1.1.running_var")), "256");
  EXPECT_EQ(shape_of(tensors.at("classifier.1.weight")), "5x256");
}

template <class Model>
void expect_maps(double width, std::int64_t fine, std::int64_t coarse) {
  Model model({.width = width, .classes = 0});
  const torch::NoGradGuard no_gradients;
  const BackboneMaps maps = model.maps(torch::rand({2, 3, 75, 90}));
  EXPECT_EQ(maps.fine.sizes(), torch::IntArrayRef({2, fine, 5, 6}));
  EXPECT_EQ(maps.coarse.sizes(), torch::IntArrayRef({2, coarse, 3, 3}));
  EXPECT_EQ(model.fine_channels, fine);
  EXPECT_EQ(model.coarse_channels, coarse);
}

TEST_F(MobileNets, MapsAreASixteenthAndAThirtySecondOfTheSizeRoundedUp) {
  expect_maps<MobileNetV1>(1, 512, 1024);
  expect_maps<MobileNetV2>(1, 576, 1280);
  expect_maps<MobileNetV1>(0.5, 256, 512);
  expect_maps<MobileNetV2>(0.35, 192, 1280);
}

TEST_F(MobileNets, ActivationsAndKernelsAreChannelsLast) {
  MobileNetV1 v1({.width = 0.25, .classes = 0});
  MobileNetV2 v2({.width = 0.25, .classes = 0});
  constexpr auto kLast = torch::MemoryFormat::ChannelsLast;
  for (MobileNet* model : std::initializer_list<MobileNet*>{&v1, &v2}) {
    const BackboneMaps maps = model->maps(torch::rand({2, 3, 70, 70}));
    EXPECT_TRUE(maps.fine.is_contiguous(kLast));
    EXPECT_TRUE(maps.coarse.is_contiguous(kLast));
    for (const auto& item : model->named_parameters())
      EXPECT_TRUE(item->dim() != 4 || item->is_contiguous(kLast)) << item.key();
    EXPECT_FALSE(tensors_of(*model).at("features.0.0.weight").is_contiguous());
  }
}

TEST_F(MobileNets, EveryParameterGetsAGradient) {
  MobileNetV1 v1({.width = 0.25, .classes = 5});
  MobileNetV2 v2({.width = 0.25, .classes = 5});
  expect_a_gradient_for_every_parameter(v1, images(0, 4, 3, 64));
  expect_a_gradient_for_every_parameter(v2, images(0, 4, 3, 64));
}

TEST_F(MobileNets, RowsDoNotSeeEachOtherInEvaluation) {
  MobileNetV2 model({.width = 0.25, .classes = 5});
  expect_rows_do_not_see_each_other_in_evaluation(model, images(0, 3, 3, 40));
}

TEST_F(MobileNets, ConvolutionsStartWithHesSpread) {
  torch::manual_seed(1);
  const auto tensors = tensors_of(MobileNetV2(MobileNetOptions{}));
  EXPECT_NEAR(tensors.at("features.18.0.weight").std().item<double>(), std::sqrt(2. / 1280), 3e-4);
  EXPECT_NEAR(tensors.at("classifier.1.weight").std().item<double>(), 0.01, 1e-4);
}

TEST_F(MobileNets, ANormWithOneValueAChannelUsesItsRunningStatistics) {
  ConvNorm layer({.inputs = 4, .outputs = 8}, {});
  const torch::NoGradGuard no_gradients;
  layer.norm->running_mean.uniform_(-0.1, 0.1);
  layer.norm->running_var.uniform_(0.5, 2);
  const torch::Tensor mean = layer.norm->running_mean.clone();
  const torch::Tensor x = torch::rand({1, 4, 1, 1});
  const torch::Tensor found = layer.forward(x);
  EXPECT_TRUE(torch::equal(layer.norm->running_mean, mean));
  layer.eval();
  EXPECT_TRUE(torch::equal(found, layer.forward(x)));
}

TEST_F(MobileNets, OneAndThreeCpusAndTwoSimulatedDevicesTrainTheSameBitForBit) {
  const MobileNetOptions small{.width = 0.25, .classes = 5};
  expect_equal_on_any_devices<MobileNetV1>(small, 3, 40);
  expect_equal_on_any_devices<MobileNetV2>(small, 3, 40);
}

TEST_F(MobileNets, OptionsThatMakeNoNetworkAreRefused) {
  EXPECT_THROW(MobileNetV1({.width = 0}), ConfigError);
  EXPECT_THROW(MobileNetV2({.width = -1}), ConfigError);
  EXPECT_THROW(MobileNetV2({.classes = -1}), ConfigError);
  EXPECT_THROW(MobileNetV2({.dropout = 1}), ConfigError);
  EXPECT_THROW(MobileNetV2({.norm = {.epsilon = 0}}), ConfigError);
  EXPECT_THROW(MobileNetV2({.norm = {.momentum = 2}}), ConfigError);
  EXPECT_THROW(MobileNetV1({.classes = 0}).forward(torch::rand({1, 3, 64, 64})), std::logic_error);
}

}  // namespace mobilenet_test
