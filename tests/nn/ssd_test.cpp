// SSDs: counts and grids of TensorFlow's Object Detection API, order of outputs, start values.

#include "detecting.h"
#include "optim/rules.h"

namespace ssd_test {

using namespace detecting;

class Ssds : public OnOneThread {
 protected:
  void SetUp() override { torch::manual_seed(1); }
};

constexpr Backbone kV1 = Backbone::mobilenet_v1, kV2 = Backbone::mobilenet_v2;

std::int64_t parameters(Backbone backbone, std::int64_t classes, bool lite = false) {
  return parameters_of(Ssd({.backbone = backbone, .lite = lite, .classes = classes}));
}

TEST_F(Ssds, ParameterCountsAreThoseOfTheObjectDetectionApi) {
  EXPECT_EQ(parameters(kV1, 90), 6'819'839);
  EXPECT_EQ(parameters(kV1, 37), 6'044'714);
  EXPECT_EQ(parameters(kV1, 2), 5'532'839);
  EXPECT_EQ(parameters(kV2, 90), 6'066'431);
  EXPECT_EQ(parameters(kV2, 2), 4'627'367);
  EXPECT_EQ(parameters(kV2, 90, true), 4'500'543);
}

TEST_F(Ssds, GridsAreHalvedAndRoundedUp) {
  using Grids = std::vector<int>;
  EXPECT_EQ(anchor_options({.size = 300}).grids, (Grids{19, 10, 5, 3, 2, 1}));
  EXPECT_EQ(anchor_options({.size = 320}).grids, (Grids{20, 10, 5, 3, 2, 1}));
  EXPECT_EQ(anchor_options({.size = 512}).grids, (Grids{32, 16, 8, 4, 2, 1}));
  EXPECT_EQ(anchor_options({.size = 64}).grids, (Grids{4, 2, 1, 1, 1, 1}));
  EXPECT_EQ(Ssd({.width = 0.25, .size = 300}).anchors.size(), 1917U);
}

TEST_F(Ssds, OutputsHaveARowForEveryAnchor) {
  for (const std::int64_t size : {64, 97, 300})
    for (const Backbone backbone : {kV1, kV2})
      for (const bool lite : {false, true}) {
        SsdOptions options = small_ssd(backbone, lite);
        options.size = size;
        Ssd model(options);
        const torch::NoGradGuard no_gradients;
        const auto anchors = static_cast<std::int64_t>(model.anchors.size());
        const Ssd::Output output = model.forward(torch::rand({2, 3, size, size}));
        EXPECT_EQ(output.codes.sizes(), torch::IntArrayRef({2, anchors, 4}));
        EXPECT_EQ(output.logits.sizes(), torch::IntArrayRef({2, anchors, 4}));
      }
}

TEST_F(Ssds, AnAnchorsOutputsLookAtItsPlaceInTheImage) {
  Ssd model(small_ssd());
  model.eval();
  const int grid = anchor_options(model.options).grids[0];
  ASSERT_EQ(grid, 6);
  for (const auto& [row, column] : std::vector<std::pair<int, int>>{{1, 4}, {4, 1}, {3, 3}}) {
    const torch::Tensor image = torch::rand({1, 3, kSize, kSize}).requires_grad_();
    const std::int64_t anchor = 3 * (row * grid + column);
    const Ssd::Output output = model.forward(image);
    (output.codes[0][anchor].sum() + output.logits[0][anchor].sum()).backward();
    const torch::Tensor seen = image.grad().abs().sum({0, 1});
    const torch::Tensor place = (torch::arange(kSize) + 0.5) / kSize;
    const auto centre = [&](int dim) {
      return ((seen.sum(dim) * place).sum() / seen.sum()).item<double>();
    };
    // The field of view is half of the image or more; its middle is the cell's to about a cell.
    EXPECT_NEAR(centre(1), (row + 0.5) / grid, 0.15);
    EXPECT_NEAR(centre(0), (column + 0.5) / grid, 0.15);
  }
}

TEST_F(Ssds, AnAnchorsOutputsAreNextToEachOther) {
  Ssd model(small_ssd());
  const torch::NoGradGuard no_gradients;
  for (auto& item : model.named_parameters())
    if (item.key().starts_with("heads."))
      item->copy_(item->dim() == 1 ? torch::arange(item->numel()) : torch::zeros_like(*item));
  const Ssd::Output output = model.forward(torch::rand({1, 3, kSize, kSize}));
  // Three anchors a cell on the finest map, six on the next one, which begins at 3 * 6 * 6.
  const auto first = [](const torch::Tensor& x, std::int64_t at, std::int64_t anchors) {
    return x[0].narrow(0, at, anchors).flatten();
  };
  EXPECT_TRUE(torch::equal(first(output.codes, 3, 3), torch::arange(12).to(torch::kFloat32)));
  EXPECT_TRUE(torch::equal(first(output.logits, 108, 6), torch::arange(24).to(torch::kFloat32)));
}

TEST_F(Ssds, TheBackboneHasTheNamesOfAClassifierAfterAPrefix) {
  const Ssd model(small_ssd());
  const auto parameters = model.named_parameters();
  for (const auto& item : MobileNetV2({.width = 0.25, .classes = 0}).named_parameters()) {
    const torch::Tensor* own = parameters.find(kBackbone + item.key());
    ASSERT_NE(own, nullptr) << item.key();
    EXPECT_EQ(own->sizes(), item->sizes()) << item.key();
  }
  for (const char* name : {"extras.0.0.0.weight", "extras.3.1.1.bias", "heads.0.boxes.0.weight",
                           "heads.5.classes.0.bias"})
    EXPECT_NE(parameters.find(name), nullptr) << name;
}

TEST_F(Ssds, KernelsStartAsANormalDistributionCutAtTwoDeviations) {
  const Ssd model({.classes = 90});
  const auto parameters = model.named_parameters();
  // A normal distribution that is cut there has 0.8796 of its deviation.
  const auto expect_spread = [&](const std::string& name, double deviation) {
    const torch::Tensor& kernel = parameters[name];
    EXPECT_NEAR(kernel.std().item<double>(), 0.8796 * deviation, 0.01 * deviation) << name;
    EXPECT_NEAR(kernel.abs().max().item<double>(), 2 * deviation, 0.001 * deviation) << name;
  };
  expect_spread("backbone.features.18.0.weight", 0.09);
  expect_spread("extras.0.1.0.weight", 0.03);
  expect_spread("heads.1.classes.0.weight", 0.03);
  EXPECT_TRUE(parameters["backbone.features.0.1.weight"].eq(1).all().item<bool>());
  EXPECT_TRUE(parameters["heads.1.boxes.0.bias"].eq(0).all().item<bool>());
}

TEST_F(Ssds, ClassLogitsStartAtTheBias) {
  SsdOptions options = small_ssd();
  options.class_bias = -4.6;
  const auto parameters = Ssd(options).named_parameters();
  EXPECT_TRUE(parameters["heads.0.classes.0.bias"].eq(-4.6F).all().item<bool>());
  EXPECT_TRUE(parameters["heads.0.boxes.0.bias"].eq(0).all().item<bool>());
}

/// A kernel [channels, 1, 3, 3] is depthwise.
bool is_undecayed(const Ssd& model, const std::string& name, const torch::Tensor& parameter) {
  const bool depthwise = parameter.dim() == 4 && parameter.size(1) == 1 && parameter.size(2) == 3;
  return parameter.dim() == 1 ||
         (depthwise && name.starts_with(kBackbone) && model.options.backbone == kV2);
}

TEST_F(Ssds, UndecayedAreBiasesNormsAndDepthwiseKernelsOfV2) {
  for (const Backbone backbone : {kV1, kV2})
    for (const bool lite : {false, true}) {
      const Ssd model(small_ssd(backbone, lite));
      std::map<std::string, int> found;
      for (const std::string& pattern : undecayed(model)) {
        int matches = 0;
        for (const auto& item : model.named_parameters())
          if (optim::matches(pattern, item.key())) {
            ++found[item.key()];
            ++matches;
          }
        EXPECT_GT(matches, 0) << pattern;
      }
      for (const auto& item : model.named_parameters())
        EXPECT_EQ(found.contains(item.key()), is_undecayed(model, item.key(), *item)) << item.key();
    }
}

TEST_F(Ssds, EveryParameterGetsAGradient) {
  for (const Backbone backbone : {kV1, kV2})
    for (const bool lite : {false, true}) {
      Ssd model(small_ssd(backbone, lite));
      const Ssd::Output output = model.forward(images(0, 4, 3, kSize).data);
      (output.codes.square().sum() + output.logits.square().sum()).backward();
      for (const auto& item : model.named_parameters()) {
        ASSERT_TRUE(item->grad().defined()) << item.key();
        EXPECT_GT(item->grad().abs().max().item<float>(), 0) << item.key();
      }
    }
}

TEST_F(Ssds, OneImageAloneLeavesFiniteStatistics) {
  Ssd model(small_ssd());
  const Ssd::Output output = model.forward(torch::rand({1, 3, kSize, kSize}));
  EXPECT_TRUE(output.logits.isfinite().all().item<bool>());
  for (const auto& item : model.named_buffers())
    EXPECT_TRUE(item->isfinite().all().item<bool>()) << item.key();
}

TEST_F(Ssds, RowsDoNotSeeEachOtherInEvaluation) {
  Ssd model(small_ssd());
  model.eval();
  const torch::NoGradGuard no_gradients;
  const torch::Tensor pictures = torch::rand({3, 3, kSize, kSize});
  const Ssd::Output whole = model.forward(pictures), one = model.forward(pictures.narrow(0, 1, 1));
  // Not bit for bit: another number of rows may take another kernel.
  EXPECT_TRUE(torch::allclose(whole.logits.narrow(0, 1, 1), one.logits, 1e-4, 1e-5));
  EXPECT_TRUE(torch::allclose(whole.codes.narrow(0, 1, 1), one.codes, 1e-4, 1e-5));
}

TEST_F(Ssds, DetectsInEachRowInPixelsOfItsPicture) {
  const std::vector<vision::Corners> anchors = vision::make_anchors({.grids = {2}});
  const auto count = static_cast<std::int64_t>(anchors.size());
  Ssd::Output output{torch::zeros({2, count, 4}), torch::full({2, count, 3}, -30.F)};
  output.logits[0][4][2] = 3;  // class 1 at an anchor of ratio 2
  output.logits[1][0][1] = 0;
  output.logits[1][9][1] = 1;
  const auto found = detect(output, anchors, {{400, 200}, {100, 100}}, {.least_score = 0.01});
  ASSERT_EQ(found.size(), 2U);
  ASSERT_EQ(found[0].size(), 1U);
  EXPECT_EQ(found[0][0].label, 1);
  EXPECT_NEAR(found[0][0].score, 1 / (1 + std::exp(-3)), 1e-6);
  EXPECT_NEAR(found[0][0].box.left + found[0][0].box.width / 2, 300, 1e-3);
  EXPECT_NEAR(found[0][0].box.top + found[0][0].box.height / 2, 50, 1e-3);
  EXPECT_NEAR(found[0][0].box.width, 400 * 0.2 * std::sqrt(2), 1e-2);
  ASSERT_EQ(found[1].size(), 2U);
  EXPECT_GT(found[1][0].score, found[1][1].score);
  EXPECT_THROW(detect(output, anchors, {{400, 200}}), std::logic_error);
}

TEST_F(Ssds, OptionsThatMakeNoNetworkAreRefused) {
  EXPECT_THROW(Ssd({.size = 63}), ConfigError);
  EXPECT_THROW(Ssd({.classes = 0}), ConfigError);
  EXPECT_THROW(Ssd({.width = 0}), ConfigError);
  EXPECT_THROW(Ssd({.norm = {.epsilon = -1}}), ConfigError);
  EXPECT_THROW(Ssd({.class_bias = std::nan("")}), ConfigError);
  EXPECT_THROW(anchor_options({.size = 10}), ConfigError);
  EXPECT_THROW(Ssd(small_ssd()).forward(torch::rand({1, 3, 64, 64})), ConfigError);
}

}  // namespace ssd_test
