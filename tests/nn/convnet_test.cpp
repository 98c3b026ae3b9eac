// The small convnet: shapes, gradients, dropout, and equal training on any devices.

#include <lockstep/nn/convnet.h>

#include "training.h"

namespace convnet_test {

using namespace training;

class ConvNets : public OnOneThread {};

TEST_F(ConvNets, TheDefaultIsForFashionMnist) {
  ConvNet model;
  EXPECT_EQ(model.forward(torch::rand({2, 1, 28, 28})).sizes(), torch::IntArrayRef({2, 10}));
  EXPECT_EQ(parameters_of(model), 16 * 9 + 2 * 16 + 32 * 16 * 9 + 2 * 32 +  // convolutions, norms
                                      (32 * 7 * 7 + 1) * 128 + (128 + 1) * 10);
}

TEST_F(ConvNets, SizeChannelsAndClassesAreOptions) {
  ConvNet model({.width = 4, .hidden = 9, .image_size = 32, .channels = 3, .classes = 7});
  EXPECT_EQ(model.forward(torch::rand({2, 3, 32, 32})).sizes(), torch::IntArrayRef({2, 7}));
  ConvNet odd({.width = 4, .image_size = 30});
  EXPECT_EQ(odd.forward(torch::rand({2, 1, 30, 30})).sizes(), torch::IntArrayRef({2, 10}));
}

TEST_F(ConvNets, EveryParameterGetsAGradient) {
  ConvNet model;
  expect_a_gradient_for_every_parameter(model, images(0, 16, 1, 28));
}

TEST_F(ConvNets, RowsDoNotSeeEachOtherInEvaluation) {
  ConvNet model;
  expect_rows_do_not_see_each_other_in_evaluation(model, images(0, 3, 1, 28));
}

TEST_F(ConvNets, DropoutIsAnOption) {
  const Batch batch = images(0, 4, 1, 28);
  ConvNet dropping({.dropout = 0.5}), keeping({.dropout = 0});
  EXPECT_FALSE(torch::equal(dropping.forward(batch.data), dropping.forward(batch.data)));
  EXPECT_TRUE(torch::equal(keeping.forward(batch.data), keeping.forward(batch.data)));
}

TEST_F(ConvNets, OneAndThreeCpusAndTwoSimulatedDevicesTrainTheSameBitForBit) {
  expect_equal_on_any_devices<ConvNet>(ConvNetOptions{.width = 4, .hidden = 16, .classes = 5}, 1,
                                       28);
}

TEST_F(ConvNets, OptionsThatMakeNoNetworkAreRefused) {
  EXPECT_THROW(ConvNet({.width = 0}), ConfigError);
  EXPECT_THROW(ConvNet({.hidden = 0}), ConfigError);
  EXPECT_THROW(ConvNet({.dropout = 1}), ConfigError);
  EXPECT_THROW(ConvNet({.dropout = -0.1}), ConfigError);
  EXPECT_THROW(ConvNet({.image_size = 3}), ConfigError);
  EXPECT_THROW(ConvNet({.channels = 0}), ConfigError);
  EXPECT_THROW(ConvNet({.classes = 0}), ConfigError);
}

}  // namespace convnet_test
