// The chunked projection and cross entropy against the same in plain operations, and the sampled
// one against both.

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/nn/projection.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "second_derivative.h"

namespace projection_test {

using namespace lockstep;
using namespace lockstep::nn;
using torch::Tensor;

/// Inputs whose gradients are asked for; the bias may be undefined.
struct Problem {
  Problem(std::int64_t rows, std::int64_t size, std::int64_t vocabulary, bool has_bias,
          torch::ScalarType type = torch::kFloat32) {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(std::uint64_t{3});
    const auto made = [&](std::vector<std::int64_t> shape) {
      return torch::randn(shape, generator, torch::kFloat64).to(type).requires_grad_();
    };
    features = made({rows, size});
    weight = made({vocabulary, size});
    if (has_bias) bias = made({vocabulary});
    labels = torch::randint(vocabulary, {rows}, generator, torch::kInt64);
  }

  Tensor plain(double smoothing = 0) const {
    const auto how = torch::nn::functional::CrossEntropyFuncOptions()
                         .reduction(torch::kSum)
                         .label_smoothing(smoothing);
    return torch::nn::functional::cross_entropy(torch::linear(features, weight, bias), labels, how);
  }

  Tensor loss(const ProjectionLossOptions& options = {}) const {
    return projection_cross_entropy(features, weight, bias, labels, options);
  }

  Tensor sampled(std::int64_t samples) const {
    return sampled_cross_entropy(features, weight, bias, labels, samples);
  }

  /// Of features, weight and, if there is one, bias.
  std::vector<Tensor> gradients(const Tensor& of, double incoming = 1) const {
    std::vector<Tensor> inputs{features, weight};
    if (bias.defined()) inputs.push_back(bias);
    return torch::autograd::grad({of}, inputs, {torch::full_like(of, incoming)});
  }

  Tensor features, weight, bias, labels;
};

/// The largest difference, over the largest number that is expected.
double difference(const Tensor& found, const Tensor& expected) {
  const Tensor wide = expected.to(torch::kFloat64);
  return ((found.to(torch::kFloat64) - wide).abs().max() / wide.abs().max()).item<double>();
}

void expect_close(const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                  double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type());
    EXPECT_LE(difference(found[i], expected[i]), tolerance) << "gradient " << i;
  }
}

void expect_equal(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i], expected[i]));
}

void compare_with_plain(torch::ScalarType type, double tolerance) {
  for (const bool has_bias : {true, false})
    for (const double smoothing : {0.0, 0.1, 1.0})
      for (const std::int64_t chunk : {0, 1, 7, 16, 50, 64}) {
        SCOPED_TRACE(testing::Message()
                     << "bias " << has_bias << ", smoothing " << smoothing << ", chunk " << chunk);
        const Problem problem(50, 24, 301, has_bias, type);
        const Tensor expected = problem.plain(smoothing);
        const Tensor found = problem.loss({.label_smoothing = smoothing, .chunk_rows = chunk});
        EXPECT_EQ(found.scalar_type(), type);
        EXPECT_EQ(found.dim(), 0);
        EXPECT_LE(difference(found, expected), tolerance);
        const double incoming = chunk % 2 == 0 ? 1 : 0.37;
        expect_close(problem.gradients(found, incoming), problem.gradients(expected, incoming),
                     tolerance);
      }
}

TEST(Projection, EqualsThePlainOperationsInSinglePrecision) {
  compare_with_plain(torch::kFloat32, 1e-5);
}

TEST(Projection, EqualsThePlainOperationsInDoublePrecision) {
  compare_with_plain(torch::kFloat64, 1e-10);
}

TEST(Projection, HandlesVocabulariesThatFillNoVector) {
  for (const std::int64_t vocabulary : {1, 2, 7, 8, 9, 31, 32, 33, 40, 71}) {
    SCOPED_TRACE(vocabulary);
    const Problem problem(5, 3, vocabulary, true);
    EXPECT_NEAR(problem.loss().item<double>(), problem.plain().item<double>(), 1e-4);
    const auto found = problem.gradients(problem.loss());
    const auto expected = problem.gradients(problem.plain());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-5, 1e-6)) << "gradient " << i;
  }
}

TEST(Projection, StandsLogitsFarApart) {
  Problem problem(6, 2, 40, true);
  {
    const torch::NoGradGuard no_gradients;
    problem.weight.mul_(3000);
  }
  EXPECT_LE(difference(problem.loss(), problem.plain()), 1e-6);
  expect_close(problem.gradients(problem.loss()), problem.gradients(problem.plain()), 1e-5);
}

TEST(Projection, PassesOnWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity}) {
    Problem problem(4, 3, 50, true);
    const torch::NoGradGuard no_gradients;
    problem.bias[49] = bad;
    EXPECT_FALSE(std::isfinite(problem.loss().item<double>())) << bad;
  }
}

TEST(Projection, GivesTheSameLossWithoutGradients) {
  const Problem problem(20, 8, 100, true);
  const Tensor with = problem.loss({.chunk_rows = 6});
  const torch::NoGradGuard no_gradients;
  const Tensor without = problem.loss({.chunk_rows = 6});
  EXPECT_TRUE(torch::equal(with, without));
  EXPECT_FALSE(without.requires_grad());
}

TEST(Projection, MakesOnlyTheGradientsThatAreAskedFor) {
  const Problem problem(20, 8, 100, true);
  const auto expected = problem.gradients(problem.plain());
  const std::vector<Tensor> inputs{problem.features, problem.weight, problem.bias};
  for (std::size_t wanted = 0; wanted < 3; ++wanted) {
    for (std::size_t i = 0; i < 3; ++i) Tensor(inputs[i]).requires_grad_(i == wanted);
    const auto found = torch::autograd::grad({problem.loss({.chunk_rows = 6})}, {inputs[wanted]});
    EXPECT_LE(difference(found[0], expected[wanted]), 1e-5) << "input " << wanted;
  }
}

TEST(Projection, AcceptsAWeightThatIsAnEmbeddingAsWell) {
  const Problem problem(30, 8, 60, false);
  const Tensor tokens = (problem.labels + 1).remainder(60);
  const auto gradient = [&](bool chunked) {
    const Tensor features = torch::embedding(problem.weight, tokens).tanh();
    const Tensor loss =
        chunked ? projection_cross_entropy(features, problem.weight, {}, problem.labels)
                : torch::nn::functional::cross_entropy(
                      torch::linear(features, problem.weight), problem.labels,
                      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    return torch::autograd::grad({loss}, {problem.weight});
  };
  expect_close(gradient(true), gradient(false), 1e-5);
}

TEST(Projection, AcceptsInputsInAnyMemoryOrder) {
  Problem problem(30, 8, 60, true);
  const Tensor expected = problem.loss({.chunk_rows = 11});
  const auto gradients = problem.gradients(expected);
  problem.features = problem.features.detach().t().contiguous().t().requires_grad_();
  problem.weight = problem.weight.detach().t().contiguous().t().requires_grad_();
  problem.labels = torch::stack({problem.labels, problem.labels}, 1).select(1, 0);
  const Tensor found = problem.loss({.chunk_rows = 11});
  EXPECT_LE(difference(found, expected), 1e-6);
  expect_close(problem.gradients(found), gradients, 1e-5);
}

TEST(Projection, RepeatsToTheBit) {
  const Problem problem(100, 16, 500, true);
  const Tensor first = problem.loss({.chunk_rows = 32}), second = problem.loss({.chunk_rows = 32});
  EXPECT_TRUE(torch::equal(first, second));
  expect_equal(problem.gradients(first), problem.gradients(second));
}

TEST(Projection, RunsBackwardTwiceOnAGraphThatIsKept) {
  const Problem problem(10, 4, 30, true);
  const Tensor loss = problem.loss();
  const auto once = [&](double incoming) {
    return torch::autograd::grad({loss}, {problem.weight}, {torch::full_like(loss, incoming)},
                                 /*retain_graph=*/true)[0];
  };
  const Tensor first = once(1).clone(), doubled = once(2);
  EXPECT_TRUE(torch::equal(doubled, first * 2));
  EXPECT_TRUE(torch::equal(once(1), first));
}

TEST(Projection, GivesEachParameterItsOwnGradientMemory) {
  // A gradient that is anybody else's would be copied, or worse, added into.
  const Problem problem(10, 4, 30, true);
  problem.loss().backward();
  for (const Tensor& input : {problem.features, problem.weight, problem.bias}) {
    EXPECT_EQ(input.grad().storage().use_count(), 1u);
    EXPECT_TRUE(input.grad().is_contiguous());
  }
}

TEST(Projection, RefusesASecondDerivativeAndSaysWhatHasOne) {
  const Problem problem(4, 3, 9, true);
  try {
    torch::autograd::grad({problem.loss()}, {problem.weight}, {}, true, true);
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("cross_entropy(torch::linear("), std::string::npos);
  }
}

TEST(Projection, InputsChangedInPlaceAfterwardsDoNotChangeTheGradients) {
  const Problem problem(10, 4, 30, true);
  const auto expected = problem.gradients(problem.loss());
  const Tensor features = problem.features * 1, weight = problem.weight * 1,
               bias = problem.bias * 1, labels = problem.labels.clone();
  const Tensor loss = projection_cross_entropy(features, weight, bias, labels);
  {
    const torch::NoGradGuard no_gradients;
    for (const Tensor& input : {features, weight, bias, labels}) input.zero_();
  }
  expect_equal(problem.gradients(loss), expected);
}

TEST(Projection, ALossChangedInPlaceHasTheGradientsOfWhatItBecame) {
  const Problem problem(10, 4, 30, true);
  const auto expected = problem.gradients(problem.loss(), 2);
  Tensor loss = problem.loss();
  loss.mul_(2);
  expect_equal(problem.gradients(loss), expected);
}

TEST(Projection, AGradientChangedInPlaceIsRefusedByTheNextBackward) {
  const Problem problem(10, 4, 30, true);
  const Tensor loss = problem.loss();
  torch::autograd::grad({loss}, {problem.weight}, {}, /*retain_graph=*/true)[0].mul_(2);
  EXPECT_THROW(torch::autograd::grad({loss}, {problem.weight}), c10::Error);
}

TEST(Projection, OfNoRowsIsZero) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const Problem problem(0, 4, 30, true, type);
    const Tensor loss = problem.loss();
    EXPECT_EQ(loss.item<double>(), 0);
    const auto gradients = problem.gradients(loss);
    EXPECT_EQ(gradients[0].sizes(), problem.features.sizes());
    for (const Tensor& gradient : gradients) EXPECT_TRUE(gradient.eq(0).all().item<bool>());
  }
}

TEST(Projection, RefusesLabelsOutsideTheVocabulary) {
  for (const std::int64_t label : {-1, 30, 1000}) {
    Problem problem(5, 4, 30, true);
    problem.labels[3] = label;
    EXPECT_THROW(problem.loss(), ConfigError) << label;
  }
}

TEST(Projection, RefusesWhatDoesNotFit) {
  const Problem problem(5, 4, 30, true), other(6, 3, 20, true);
  const auto loss = [](const Tensor& features, const Tensor& weight, const Tensor& bias,
                       const Tensor& labels) {
    return projection_cross_entropy(features, weight, bias, labels);
  };
  EXPECT_THROW(loss(other.features, problem.weight, {}, problem.labels), std::logic_error);
  EXPECT_THROW(loss(problem.features, problem.weight, other.bias, problem.labels),
               std::logic_error);
  EXPECT_THROW(loss(problem.features, problem.weight, {}, other.labels), std::logic_error);
  EXPECT_THROW(problem.loss({.label_smoothing = 1.5}), ConfigError);
  EXPECT_THROW(problem.loss({.chunk_rows = -1}), ConfigError);
}

/// Products in the 16-bit type while it lives.
struct Autocast {
  explicit Autocast(torch::ScalarType type) {
    at::autocast::set_autocast_enabled(torch::kCPU, true);
    at::autocast::set_autocast_dtype(torch::kCPU, type);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(torch::kCPU, false);
    at::autocast::set_autocast_dtype(torch::kCPU, torch::kBFloat16);
    at::autocast::clear_cache();
  }
};

TEST(Projection, WorksUnderAutocast) {
  const Problem problem(40, 8, 100, true);
  const Tensor expected = problem.plain();
  const auto gradients = problem.gradients(expected);
  for (const auto type : {torch::kBFloat16, torch::kHalf}) {
    const Autocast autocast(type);
    const Tensor found = problem.loss({.chunk_rows = 16});
    EXPECT_EQ(found.scalar_type(), torch::kFloat32);
    EXPECT_LE(difference(found, expected), 2e-2);  // bfloat16 has 8 bits
    expect_close(problem.gradients(found), gradients, 2e-2);
    // Features often come out of a product of 16 bits.
    const Tensor narrow = problem.features.detach().to(type).requires_grad_();
    const Tensor loss =
        projection_cross_entropy(narrow, problem.weight, problem.bias, problem.labels);
    EXPECT_LE(difference(loss, expected), 2e-2);
    EXPECT_EQ(torch::autograd::grad({loss}, {narrow})[0].scalar_type(), type);
    EXPECT_TRUE(std::isfinite(problem.sampled(50).item<double>()));
  }
}

TEST(Projection, KeepsSmallGradientsOfHalfPrecisionUntilTheyAreScaled) {
  const Problem problem(40, 8, 100, true);
  const Tensor narrow = (1e-4 * problem.features).detach().to(torch::kHalf).requires_grad_();
  const Tensor weight = (1e-4 * problem.weight).detach();
  const auto gradient = [&](const Tensor& features, double scale) {
    const Tensor loss = projection_cross_entropy(features, weight, {}, problem.labels);
    return torch::autograd::grad({loss * scale}, {features})[0].to(torch::kFloat64);
  };
  const Tensor wide = narrow.detach().to(torch::kFloat64).requires_grad_();
  const Tensor expected = gradient(wide, 65536), found = gradient(narrow, 65536);
  EXPECT_LE((found - expected).abs().max().item<double>(),
            1e-2 * expected.abs().max().item<double>());
}

TEST(SampledSoftmax, ApproachesTheWholeWithManySamples) {
  const Problem problem(20, 8, 50, true);
  torch::manual_seed(1);
  // The error of the partition function falls with the root of the samples.
  EXPECT_LE(difference(problem.sampled(1'000'000), problem.plain()), 5e-3);
}

TEST(SampledSoftmax, HasTheGradientOfTheWholeOnAverage) {
  constexpr int kDraws = 300;
  Problem problem(10, 6, 80, true);
  problem.features = problem.features.detach().mul(0.3).requires_grad_();
  const auto expected = problem.gradients(problem.plain());
  torch::manual_seed(2);
  std::vector<Tensor> mean;
  for (const Tensor& gradient : expected) mean.push_back(torch::zeros_like(gradient));
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto found = problem.gradients(problem.sampled(800));
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i].add_(found[i], 1.0 / kDraws);
  }
  expect_close(mean, expected, 0.05);  // its logarithm leaves a bias, of about one in the samples
}

TEST(SampledSoftmax, TouchesOnlyTheRowsOfSamplesAndLabels) {
  constexpr std::int64_t kVocabulary = 5000, kSamples = 20, kRows = 4;
  const Problem problem(kRows, 6, kVocabulary, true);
  torch::manual_seed(3);
  const auto gradients = problem.gradients(problem.sampled(kSamples));
  const Tensor touched = gradients[1].ne(0).any(1);
  EXPECT_TRUE(touched.index_select(0, problem.labels).all().item<bool>());
  EXPECT_LE(touched.sum().item<std::int64_t>(), kSamples + kRows);
  EXPECT_TRUE(torch::equal(touched, gradients[2].ne(0)));
}

TEST(SampledSoftmax, DrawsFrequentTokensMoreOften) {
  constexpr std::int64_t kVocabulary = 1000;
  Problem problem(1, 2, kVocabulary, false);
  problem.labels.fill_(kVocabulary - 1);
  torch::manual_seed(4);
  double low = 0, high = 0;
  for (int draw = 0; draw < 200; ++draw) {
    const Tensor touched = problem.gradients(problem.sampled(10))[1].ne(0).any(1);
    low += touched.narrow(0, 0, 10).sum().item<double>();
    high += touched.narrow(0, kVocabulary / 2, 400).sum().item<double>();
  }
  EXPECT_GT(low, 1.5 * high);  // log 11 / log 1001 against log(900 / 500) / log 1001
}

TEST(SampledSoftmax, NeverCountsTheLabelTwice) {
  // With one token to draw, which is the label, nothing competes with it.
  const Problem problem(3, 4, 1, true);
  EXPECT_EQ(problem.sampled(5).item<double>(), 0);
}

TEST(SampledSoftmax, RepeatsWithTheSameSeed) {
  const Problem problem(10, 4, 300, true);
  const auto drawn = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return problem.gradients(problem.sampled(30));
  };
  const auto first = drawn(7);
  expect_equal(drawn(7), first);
  EXPECT_FALSE(torch::equal(drawn(8)[1], first[1]));
}

TEST(SampledSoftmax, HasItsSecondDerivative) {
  const Problem problem(6, 4, 30, true, torch::kFloat64);
  const auto loss = [&](const Tensor& features, const Tensor& weight) {
    torch::manual_seed(7);  // the same tokens each time
    return sampled_cross_entropy(features, weight, problem.bias, problem.labels, 20);
  };
  expect_second_derivative([&](const Tensor& x) { return loss(x, problem.weight); },
                           problem.features);
  expect_second_derivative([&](const Tensor& x) { return loss(problem.features, x); },
                           problem.weight);
}

TEST(SampledSoftmax, InputsChangedInPlaceAreRefusedByBackward) {
  const Problem problem(6, 4, 30, true);
  const Tensor features = problem.features * 1;
  const Tensor loss =
      sampled_cross_entropy(features, problem.weight, problem.bias, problem.labels, 20);
  {
    const torch::NoGradGuard no_gradients;
    features.mul_(2);
  }
  EXPECT_THROW(problem.gradients(loss), c10::Error);
}

TEST(SampledSoftmax, OfNoRowsIsZero) {
  const Problem problem(0, 4, 30, true);
  EXPECT_EQ(problem.sampled(5).item<double>(), 0);
}

TEST(SampledSoftmax, RefusesWhatDoesNotFit) {
  const Problem problem(5, 4, 30, true), other(6, 3, 20, true);
  EXPECT_THROW(problem.sampled(0), ConfigError);
  EXPECT_THROW(sampled_cross_entropy(other.features, problem.weight, {}, problem.labels, 5),
               std::logic_error);
  EXPECT_THROW(sampled_cross_entropy(problem.features, problem.weight, {}, other.labels, 5),
               std::logic_error);
  EXPECT_THROW(
      sampled_cross_entropy(problem.features, problem.weight, other.bias, problem.labels, 5),
      std::logic_error);
}

}  // namespace projection_test
