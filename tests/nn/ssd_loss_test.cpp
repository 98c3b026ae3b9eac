// The losses of SSDs by hand. tests/oracles/ssd_loss.py compares them with a plain program on
// random cases.

#include "detecting.h"

namespace ssd_loss_test {

using namespace detecting;

class SsdLosses : public OnOneThread {};

/// Six anchors apart, one row, two classes; anchor 2 has class 2.
struct Case {
  std::vector<vision::Corners> anchors;
  Ssd::Output output;
  torch::Tensor labels, codes;

  Case() {
    for (int i = 0; i < 6; ++i) {
      const auto left = static_cast<float>(2 * i);
      anchors.push_back({0, left, 1, left + 1});
    }
    output.codes = torch::zeros({1, 6, 4}, torch::kFloat64).requires_grad_();
    output.logits = torch::tensor(std::vector<double>{0, 0, 0, -1, 1, 0, 1, -1, 2, 3, 0, 1, -2, 0,
                                                      0, 4, -4, -4},
                                  torch::kFloat64)
                        .reshape({1, 6, 3})
                        .requires_grad_();
    labels = torch::tensor({0, 0, 2, 0, 0, 0}, torch::kInt64).reshape({1, 6});
    codes = torch::zeros({1, 6, 4});
    codes[0][2] = torch::tensor({0.5, -2., 0., 1.});
  }

  Loss loss(const SsdLossOptions& options = {}) const {
    return ssd_loss(output, anchors, labels, codes, options);
  }
};

/// Of one logit.
double cross_entropy_of(double logit, double wanted) {
  return std::log1p(std::exp(-std::abs(logit))) + std::max(logit, 0.) - logit * wanted;
}

double anchor_loss(const Case& all, int anchor, bool background_as_zeros = false) {
  double sum = 0;
  const auto label = all.labels[0][anchor].item<int>();
  for (int k = 0; k < 3; ++k)
    sum += cross_entropy_of(all.output.logits[0][anchor][k].item<double>(),
                            k == label && !(k == 0 && background_as_zeros));
  return sum;
}

constexpr double kBoxLoss = 0.125 + 1.5 + 0 + 0.5;  // Huber's of 0.5, -2, 0, 1

TEST_F(SsdLosses, APositiveAndTheThreeHardestNegativesCount) {
  const Case all;
  const Loss loss = all.loss();
  // Negatives by loss: 4, 1, 0, 3, 5.
  const double classes =
      anchor_loss(all, 2) + anchor_loss(all, 4) + anchor_loss(all, 1) + anchor_loss(all, 0);
  EXPECT_NEAR(loss.sum.item<double>(), classes + kBoxLoss, 1e-12);
  EXPECT_EQ(loss.weight, 1);
  EXPECT_TRUE(loss.counts_without_weight);
  EXPECT_NEAR(loss.metrics.at("classification").value.item<double>(), classes, 1e-12);
  EXPECT_NEAR(loss.metrics.at("localization").value.item<double>(), kBoxLoss, 1e-12);
  EXPECT_EQ(loss.metrics.at("classification").weight, 1);
  EXPECT_EQ(loss.metrics.at("positives").value.item<double>(), 1);
  EXPECT_EQ(loss.metrics.at("negatives").value.item<double>(), 3);
  EXPECT_EQ(loss.metrics.at("negatives").weight, 1);
}

TEST_F(SsdLosses, OnlyWhatCountsGetsAGradient) {
  const Case all;
  all.loss().sum.backward();
  const torch::Tensor logits = all.output.logits.grad()[0], codes = all.output.codes.grad()[0];
  for (const int anchor : {0, 1, 2, 4}) {
    const torch::Tensor wanted = torch::arange(3).eq(all.labels[0][anchor]).to(torch::kFloat64);
    EXPECT_TRUE(torch::allclose(logits[anchor], all.output.logits[0][anchor].sigmoid() - wanted));
  }
  for (const int anchor : {3, 5}) EXPECT_TRUE(logits[anchor].eq(0).all().item<bool>());
  EXPECT_TRUE(torch::allclose(codes[2], torch::tensor({-0.5, 1., 0., -1.}, torch::kFloat64)));
  EXPECT_EQ(codes.abs().sum().item<double>(), 2.5);
}

TEST_F(SsdLosses, WeightsAndCoordinatesScaleTheParts) {
  const Case all;
  const double whole = all.loss().sum.item<double>();
  const Loss loss =
      all.loss({.localization_weight = 3, .classification_weight = 0.5, .per_coordinate = true});
  EXPECT_NEAR(loss.sum.item<double>(), 0.5 * (whole - kBoxLoss) + 3 * kBoxLoss / 4, 1e-12);
  EXPECT_NEAR(loss.metrics.at("localization").value.item<double>(), 3 * kBoxLoss / 4, 1e-12);
}

TEST_F(SsdLosses, BackgroundAsZerosWantsAllLogitsLow) {
  const Case all;
  double sum = kBoxLoss + anchor_loss(all, 2, true);
  std::vector<double> negatives;
  for (const int anchor : {0, 1, 3, 4, 5}) negatives.push_back(anchor_loss(all, anchor, true));
  std::sort(negatives.begin(), negatives.end(), std::greater<>());
  for (int i = 0; i < 3; ++i) sum += negatives[static_cast<std::size_t>(i)];
  EXPECT_NEAR(all.loss({.background_as_zeros = true}).sum.item<double>(), sum, 1e-12);
}

TEST_F(SsdLosses, TheFocalLossCountsAllAnchorsAndEasyOnesLittle) {
  const Case all;
  for (const bool zeros : {false, true}) {
    double sum = kBoxLoss;
    for (int anchor = 0; anchor < 6; ++anchor)
      for (int k = 0; k < 3; ++k) {
        const double logit = all.output.logits[0][anchor][k].item<double>();
        const bool own = k == all.labels[0][anchor].item<int>() && !(k == 0 && zeros);
        const double score = 1 / (1 + std::exp(-logit)), right = own ? score : 1 - score;
        sum += (own ? 0.7 : 0.3) * std::pow(1 - right, 1.5) * -std::log(right);
      }
    const Loss loss = all.loss(
        {.kind = SsdLossKind::focal, .alpha = 0.7, .gamma = 1.5, .background_as_zeros = zeros});
    EXPECT_NEAR(loss.sum.item<double>(), sum, 1e-12);
    EXPECT_EQ(loss.weight, 1);
    EXPECT_EQ(loss.metrics.at("positives").value.item<double>(), 1);
    EXPECT_EQ(loss.metrics.at("negatives").value.item<double>(), 5);
  }
}

TEST_F(SsdLosses, WithoutAMatchTheLeastNumberOfNegativesCounts) {
  Case all;
  all.labels = torch::zeros({1, 6}, torch::kInt64);
  const Loss nothing = all.loss();
  EXPECT_EQ(nothing.weight, 0);
  EXPECT_EQ(nothing.sum.item<double>(), 0);
  EXPECT_TRUE(nothing.sum.requires_grad());
  const Loss two = all.loss({.mining = {.min_negatives = 2}});
  EXPECT_NEAR(two.sum.item<double>(), anchor_loss(all, 1) + anchor_loss(all, 4), 1e-12);
  EXPECT_EQ(two.metrics.at("negatives").value.item<double>(), 2);
}

TEST_F(SsdLosses, ShardsAddUpToTheBatch) {
  Ssd model(small_ssd());
  model.eval();
  const Pictures batch = random_pictures(model.anchors, 3, {2, 0, 1, 4, 0});
  const torch::NoGradGuard no_gradients;
  const Ssd::Output output = model.forward(batch.images);
  for (const SsdLossKind kind : {SsdLossKind::mined, SsdLossKind::focal}) {
    const SsdLossOptions options{.kind = kind, .mining = {.min_negatives = 3}};
    const Loss whole = ssd_loss(output, model.anchors, batch.labels, batch.codes, options);
    double sum = 0, weight = 0, negatives = 0;
    for (int i = 0; i < 3; ++i) {
      const auto part = [&](const torch::Tensor& x) { return batch::part(x, i, 3); };
      const Loss loss = ssd_loss({part(output.codes), part(output.logits)}, model.anchors,
                                 part(batch.labels), part(batch.codes), options);
      sum += loss.sum.item<double>();
      weight += loss.weight;
      negatives += loss.metrics.at("negatives").value.item<double>();
    }
    EXPECT_NEAR(whole.sum.item<double>(), sum, 1e-5 * sum);  // another order of float32 sums
    EXPECT_EQ(whole.weight, weight);
    EXPECT_GE(weight, 7);  // at least one anchor a thing, unless two share it
    EXPECT_EQ(whole.metrics.at("negatives").value.item<double>(), negatives);
  }
}

TEST_F(SsdLosses, SixteenBitOutputsGiveAFloat32Loss) {
  Case all;
  all.output = {all.output.codes.detach().to(torch::kBFloat16),
                all.output.logits.detach().to(torch::kBFloat16)};
  const Loss loss = all.loss();
  EXPECT_EQ(loss.sum.scalar_type(), torch::kFloat32);
  EXPECT_NEAR(loss.sum.item<double>(), Case().loss().sum.item<double>(), 1e-5);  // all are exact
}

TEST_F(SsdLosses, ASimulatedDeviceGivesTheSameBits) {
  sim::configure({.devices = 1});
  Ssd model(small_ssd());
  const Pictures batch = random_pictures(model.anchors, 5, {2, 0, 3});
  const Ssd::Output output = model.forward(batch.images);
  const torch::Device device("privateuseone:0");
  const auto gradient = [&](torch::Device where) {
    const torch::Tensor codes = output.codes.detach().to(where).requires_grad_();
    const torch::Tensor logits = output.logits.detach().to(where).requires_grad_();
    Loss loss = ssd_loss({codes, logits}, model.anchors, batch.labels.to(where),
                         batch.codes.to(where), {.mining = {.min_negatives = 3}});
    loss.sum.backward();
    return std::vector<torch::Tensor>{loss.sum.detach().cpu(), codes.grad().cpu(),
                                      logits.grad().cpu()};
  };
  const auto expected = gradient(torch::kCPU), found = gradient(device);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::equal(expected[i], found[i])) << i;
}

TEST_F(SsdLosses, TargetsOfOtherAnchorsAreRefused) {
  Case all;
  all.labels = torch::zeros({1, 5}, torch::kInt64);
  EXPECT_THROW(all.loss(), ConfigError);
  Case fewer;
  fewer.anchors.pop_back();
  EXPECT_THROW(fewer.loss(), std::logic_error);
}

}  // namespace ssd_loss_test
