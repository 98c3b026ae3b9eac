// The passes of a batch norm against plain loops, for channels that fill no vector too.

#include <gtest/gtest.h>
#include <lockstep/kernels/batch_norm.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace batch_norm_test {

using namespace lockstep::kernels;

constexpr std::int64_t kRows = 7;

/// Quarters from -8 to 8, of which products and sums are exact.
std::vector<float> quarters(std::int64_t count, int start) {
  std::vector<float> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<float>((static_cast<int>(i) * 29 + start) % 65 - 32) / 4;
  return result;
}

class BatchNormPasses : public testing::TestWithParam<std::int64_t> {
 protected:
  std::size_t channel(std::size_t i) const { return i % static_cast<std::size_t>(n); }
  float before_activation(std::size_t i) const {
    return numbers[i] * scale[channel(i)] + shift[channel(i)];
  }
  float gradient(std::size_t i, NormActivation activation) const {
    const float x = before_activation(i);
    return activation == NormActivation::none || (x > 0 && x < 6) ? d_outputs[i] : 0;
  }
  NormFactors factors(NormActivation activation) const {
    return {scale.data(), shift.data(), activation};
  }

  const std::int64_t n = GetParam();
  const NormSize size{kRows, n};
  const std::vector<float> numbers = quarters(kRows * n, 1), d_outputs = quarters(kRows * n, 5),
                           scale = quarters(n, 11), shift = quarters(n, 2), slope = quarters(n, 17),
                           offset = quarters(n, 40);
  std::vector<double> sums = std::vector<double>(static_cast<std::size_t>(n), 3),
                      others = std::vector<double>(static_cast<std::size_t>(n), 4);
  std::vector<float> into = std::vector<float>(numbers.size(), NAN);
};

TEST_P(BatchNormPasses, SumNumbersAndSquares) {
  std::vector<double> expected = sums, squares = others;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    expected[channel(i)] += static_cast<double>(numbers[i]);
    squares[channel(i)] += static_cast<double>(numbers[i] * numbers[i]);
  }
  add_norm_sums(size, numbers.data(), sums.data(), others.data());
  EXPECT_EQ(sums, expected);
  EXPECT_EQ(others, squares);
}

TEST_P(BatchNormPasses, ScaleShiftAndCut) {
  for (const auto activation : {NormActivation::none, NormActivation::relu6}) {
    std::vector<float> expected;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const float x = before_activation(i);
      expected.push_back(activation == NormActivation::none ? x : std::clamp(x, 0.F, 6.F));
    }
    normalise(size, numbers.data(), factors(activation), into.data());
    EXPECT_EQ(into, expected);
  }
}

TEST_P(BatchNormPasses, SumGradientsThatGetThrough) {
  for (const auto activation : {NormActivation::none, NormActivation::relu6}) {
    std::vector<double> expected = sums, products = others;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      expected[channel(i)] += static_cast<double>(gradient(i, activation));
      products[channel(i)] += static_cast<double>(gradient(i, activation) * numbers[i]);
    }
    add_norm_gradient_sums(size, d_outputs.data(), numbers.data(), factors(activation), sums.data(),
                           others.data());
    EXPECT_EQ(sums, expected);
    EXPECT_EQ(others, products);
  }
}

TEST_P(BatchNormPasses, WriteGradientsByTheNumbers) {
  for (const auto activation : {NormActivation::none, NormActivation::relu6}) {
    std::vector<float> expected;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      expected.push_back(gradient(i, activation) * scale[channel(i)] -
                         (numbers[i] * slope[channel(i)] + offset[channel(i)]));
    normalise_back(size, d_outputs.data(), numbers.data(), factors(activation), slope.data(),
                   offset.data(), into.data());
    EXPECT_EQ(into, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, BatchNormPasses, testing::Values(1, 7, 16, 17, 33, 130));

TEST(BatchNormActivation, StopsGradientsAtBothEndsOfRelu6) {
  constexpr float kOne = 1, kZero = 0;
  const NormFactors how{&kOne, &kZero, NormActivation::relu6};
  const float tiny = std::nextafter(0.F, 1.F), most = std::nextafter(6.F, 0.F);
  for (const auto& [x, expected] : std::vector<std::pair<float, float>>{
           {-0.F, 0}, {0, 0}, {tiny, 1}, {-tiny, 0}, {most, 1}, {6, 0}, {-1, 0}, {INFINITY, 0}}) {
    double sum = 0, product = 0;
    add_norm_gradient_sums({1, 1}, &kOne, &x, how, &sum, &product);
    EXPECT_EQ(sum, static_cast<double>(expected)) << x;
  }
}

}  // namespace batch_norm_test
