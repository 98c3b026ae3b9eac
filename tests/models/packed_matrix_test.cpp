// Products with a packed matrix against LibTorch's.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <stdexcept>

#include "models/packed_matrix.h"

namespace {

using lockstep::PackedMatrix;
using torch::Tensor;

/// Integers, whose products and sums are exact in any order.
Tensor integers(std::int64_t rows, std::int64_t columns) {
  return torch::randint(-3, 4, {rows, columns}).to(torch::kFloat32);
}

void expect_products(const Tensor& left, const Tensor& matrix) {
  SCOPED_TRACE(testing::Message() << left.sizes() << " by " << matrix.sizes());
  const PackedMatrix packed(matrix, left.size(0));
  const Tensor start = integers(left.size(0), matrix.size(1));
  Tensor found = start.clone();
  packed.add_product(left, found);
  EXPECT_TRUE(torch::equal(found, start + left.mm(matrix)));
  found.fill_(std::numeric_limits<float>::quiet_NaN());
  packed.product(left, found);
  EXPECT_TRUE(torch::equal(found, left.mm(matrix)));
}

TEST(PackedMatrix, EqualsThePlainProductForAllShapes) {
  torch::manual_seed(1);
  for (const std::int64_t rows : {0, 1, 2, 5, 6, 7, 11, 12, 13, 32, 95, 97})
    for (const std::int64_t inner : {1, 7, 255, 256, 257, 600})
      for (const std::int64_t columns : {1, 8, 15, 16, 17, 32, 50})
        expect_products(integers(rows, inner), integers(inner, columns));
}

TEST(PackedMatrix, TakesAnyMemoryOrder) {
  torch::manual_seed(2);
  expect_products(integers(9, 40), integers(50, 40).t());
  expect_products(integers(40, 9).t(), integers(40, 50));
  expect_products(integers(9, 60).narrow(1, 10, 40), integers(80, 50).narrow(0, 3, 40));
}

TEST(PackedMatrix, WritesOnlyItsColumns) {
  torch::manual_seed(3);
  const Tensor left = integers(7, 20), matrix = integers(20, 21);
  const Tensor around = torch::full({7, 40}, 5.0F);
  PackedMatrix(matrix, 7).product(left, around.narrow(1, 10, 21));
  EXPECT_TRUE(torch::equal(around.narrow(1, 10, 21), left.mm(matrix)));
  EXPECT_TRUE(around.narrow(1, 0, 10).eq(5).all().item<bool>());
  EXPECT_TRUE(around.narrow(1, 31, 9).eq(5).all().item<bool>());
}

TEST(PackedMatrix, GivesTheSameBitsOnAnyNumberOfThreads) {
  torch::manual_seed(4);
  const Tensor left = torch::randn({30, 700}), matrix = torch::randn({700, 1000});
  const PackedMatrix packed(matrix, 30);
  const int threads = at::get_num_threads();
  Tensor one = torch::empty({30, 1000}), three = torch::empty({30, 1000});
  at::set_num_threads(1);
  packed.product(left, one);
  at::set_num_threads(3);
  packed.product(left, three);
  at::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(one, three));
}

TEST(PackedMatrix, TakesOtherTypes) {
  torch::manual_seed(5);
  for (const auto type : {torch::kFloat64, torch::kBFloat16}) {
    const Tensor left = integers(4, 5).to(type), matrix = integers(5, 6).to(type);
    Tensor found = torch::zeros({4, 6}, type);
    PackedMatrix(matrix, 4).add_product(left, found);
    EXPECT_TRUE(torch::equal(found, left.mm(matrix)));
  }
}

TEST(PackedMatrix, RefusesWhatDoesNotFit) {
  const PackedMatrix packed(torch::ones({4, 5}), 3);
  Tensor into = torch::zeros({3, 5});
  EXPECT_ANY_THROW(packed.product(torch::ones({3, 5}), into));
  EXPECT_ANY_THROW(packed.product(torch::ones({2, 4}), into));
  EXPECT_ANY_THROW(packed.product(torch::ones({3, 4}), torch::zeros({3, 6})));
  EXPECT_THROW(PackedMatrix(torch::ones({4}), 3), std::logic_error);
}

}  // namespace
