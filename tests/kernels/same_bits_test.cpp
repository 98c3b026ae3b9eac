// Our loops compute the same bits with every instruction set: machines rely on it.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/product_loops.h"
#include "kernels/recurrent_loops.h"
#include "kernels/softmax_loops.h"
#include "kernels/vector_math.h"

namespace same_bits_test {

using namespace lockstep::kernels;

/// Numbers whose products and sums are rounded.
std::vector<float> numbers(std::size_t count, float seed) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(std::sin(static_cast<float>(i) * seed) / 1.7F);
  return values;
}

TEST(SameBits, OfProductsWithEveryKindOfLoops) {
  const std::int64_t rows = 29, inner = 301, columns = 77;
  const auto left = numbers(rows * inner, 0.7F), right = numbers(inner * columns, 1.3F);
  std::vector<std::vector<float>> results;
  for (const products::Loops* const loops : products::all_loops()) {
    const std::int64_t panels = (columns + loops->panel - 1) / loops->panel;
    std::vector<float> packed(static_cast<std::size_t>(panels * loops->panel * inner));
    results.emplace_back(rows * columns);
    loops->pack({right.data(), columns, 1}, inner, columns, packed.data());
    loops->multiply({.left = {left.data(), inner, 1},
                     .right = packed.data(),
                     .into = results.back().data(),
                     .into_stride = columns,
                     .rows = rows,
                     .inner = inner,
                     .columns = columns});
    EXPECT_EQ(results.back(), results.front()) << "panels of " << loops->panel;
  }
}

// This file is compiled for the least of CPUs, without FMA.

TEST(SameBits, OfExponentialsAsOnAPlainCpu) {
  const std::int64_t rows = 77, classes = 5;
  auto logits = numbers(rows * classes, 0.9F);
  const auto before = logits, bias = numbers(classes, 0.3F);
  const std::vector<float> largest(rows, 0.9F);
  std::vector<double> sums(rows);
  softmax::exponentiate(
      {.logits = logits.data(), .classes = classes, .rows = rows, .bias = bias.data()},
      largest.data(), sums.data());
  for (std::size_t i = 0; i < logits.size(); ++i)
    ASSERT_EQ(logits[i], vector_math::exp(before[i] + bias[i / rows] - 0.9F, 60)) << i;
}

TEST(SameBits, OfAGruBackwardsAsOnAPlainCpu) {
  const std::size_t n = 77;
  const auto gates = numbers(4 * n, 0.9F), hidden = numbers(n, 1.1F), back = numbers(n, 0.4F);
  std::vector<float> d_gates(4 * n), d_hidden = back;
  gru_loop_back({.rows = 1, .hidden = n}, gates.data(), hidden.data(), d_gates.data(),
                d_hidden.data());
  for (std::size_t i = 0; i < n; ++i) {
    const float candidate = gates[i], update = gates[2 * n + i];
    const float square = candidate * candidate, rest = 1 - square;
    ASSERT_EQ(d_gates[i], back[i] * (1 - update) * rest) << i;
  }
}

}  // namespace same_bits_test
