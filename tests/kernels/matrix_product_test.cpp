// Products of our own against LibTorch's.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <stdexcept>

#include <lockstep/kernels/products.h>

namespace matrix_product_test {

using lockstep::kernels::PackedMatrix;
using torch::Tensor;

/// Integers, whose products and sums are exact in any order.
Tensor integers(std::int64_t rows, std::int64_t columns) {
  return torch::randint(-3, 4, {rows, columns}).to(torch::kFloat32);
}

void expect_products(const Tensor& left, const Tensor& matrix) {
  SCOPED_TRACE(testing::Message() << left.sizes() << " by " << matrix.sizes());
  const PackedMatrix packed(matrix);
  const Tensor start = integers(left.size(0), matrix.size(1)), expected = left.mm(matrix);
  Tensor found = start.clone();
  packed.add_product(left, found);
  EXPECT_TRUE(torch::equal(found, start + expected));
  found.copy_(start);
  lockstep::kernels::add_product(left, matrix, found);
  EXPECT_TRUE(torch::equal(found, start + expected));
  found.fill_(std::numeric_limits<float>::quiet_NaN());
  packed.product_into(left, found);
  EXPECT_TRUE(torch::equal(found, expected));
  found.fill_(std::numeric_limits<float>::quiet_NaN());
  lockstep::kernels::product_into(left, matrix, found);
  EXPECT_TRUE(torch::equal(found, expected));
  EXPECT_TRUE(torch::equal(lockstep::kernels::product(left, matrix), expected));
}

TEST(MatrixProduct, EqualsThePlainOneForAllShapes) {
  torch::manual_seed(1);
  for (const std::int64_t rows : {0, 1, 2, 5, 6, 7, 11, 12, 13, 32, 97})
    for (const std::int64_t inner : {1, 7, 16, 255, 256, 257, 600})
      for (const std::int64_t columns : {1, 8, 15, 16, 17, 31, 32, 33, 70})
        expect_products(integers(rows, inner), integers(inner, columns));
  expect_products(integers(30, 300), integers(300, 2100));  // several blocks of panels
}

TEST(MatrixProduct, TakesAnyMemoryOrder) {
  torch::manual_seed(2);
  for (const std::int64_t rows : {1, 9, 12, 40})
    for (const std::int64_t columns : {1, 20, 50, 64}) {
      expect_products(integers(rows, 45), integers(columns, 45).t());
      expect_products(integers(45, rows).t(), integers(45, columns));
      expect_products(integers(45, rows).t(), integers(columns, 45).t());
      expect_products(integers(rows, 90).slice(1, 0, 90, 2),
                      integers(45, 2 * columns).slice(1, 0, 2 * columns, 2));
    }
  expect_products(integers(9, 60).narrow(1, 10, 40), integers(80, 50).narrow(0, 3, 40));
}

TEST(MatrixProduct, WritesOnlyItsColumns) {
  torch::manual_seed(3);
  const Tensor left = integers(7, 20), matrix = integers(20, 21);
  Tensor around = torch::full({7, 40}, 5.0F);
  const auto expect = [&] {
    EXPECT_TRUE(torch::equal(around.narrow(1, 10, 21), left.mm(matrix)));
    EXPECT_TRUE(around.narrow(1, 0, 10).eq(5).all().item<bool>());
    EXPECT_TRUE(around.narrow(1, 31, 9).eq(5).all().item<bool>());
  };
  PackedMatrix(matrix).product_into(left, around.narrow(1, 10, 21));
  expect();
  around.fill_(5);
  lockstep::kernels::product_into(left, matrix, around.narrow(1, 10, 21));
  expect();
}

TEST(MatrixProduct, GoesWhereColumnsAreNotSideBySide) {
  torch::manual_seed(6);
  const Tensor left = integers(7, 20), matrix = integers(20, 21);
  const Tensor into = torch::empty({21, 7}).t();
  lockstep::kernels::product_into(left, matrix, into);
  EXPECT_TRUE(torch::equal(into, left.mm(matrix)));
}

TEST(MatrixProduct, IsAsExactAsTheSumAllows) {
  torch::manual_seed(7);
  const Tensor left = torch::randn({50, 3000}), matrix = torch::randn({3000, 60});
  const Tensor exact = left.to(torch::kFloat64).mm(matrix.to(torch::kFloat64));
  const Tensor error = (lockstep::kernels::product(left, matrix) - exact).abs().max();
  EXPECT_LT(error.item<double>(), 1e-3);  // a sum of 3000 has a spread of 55
}

TEST(MatrixProduct, GivesTheSameBitsOnAnyNumberOfThreads) {
  torch::manual_seed(4);
  const Tensor left = torch::randn({30, 700}), matrix = torch::randn({700, 1000});
  const PackedMatrix packed(matrix);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = lockstep::kernels::product(left, matrix);
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    Tensor found = torch::empty({30, 1000});
    packed.product_into(left, found);
    EXPECT_TRUE(torch::equal(one, found)) << count << " threads, packed";
    EXPECT_TRUE(torch::equal(one, lockstep::kernels::product(left, matrix))) << count << " threads";
  }
  at::set_num_threads(threads);
}

TEST(MatrixProduct, ARowGivesTheSameBitsInAnyBatch) {
  torch::manual_seed(8);
  const Tensor left = torch::randn({29, 600}), matrix = torch::randn({600, 70});
  const Tensor whole = lockstep::kernels::product(left, matrix);
  for (const std::int64_t rows : {1, 5, 16})
    for (std::int64_t first = 0; first + rows <= left.size(0); first += rows)
      EXPECT_TRUE(torch::equal(lockstep::kernels::product(left.narrow(0, first, rows), matrix),
                               whole.narrow(0, first, rows)));
}

TEST(MatrixProduct, TakesOtherTypes) {
  torch::manual_seed(5);
  for (const auto type : {torch::kFloat64, torch::kBFloat16}) {
    const Tensor left = integers(4, 5).to(type), matrix = integers(5, 6).to(type);
    Tensor found = torch::zeros({4, 6}, type);
    PackedMatrix(matrix).add_product(left, found);
    EXPECT_TRUE(torch::equal(found, left.mm(matrix)));
    EXPECT_TRUE(torch::equal(lockstep::kernels::product(left, matrix), left.mm(matrix)));
  }
}

TEST(MatrixProduct, RefusesWhatDoesNotFit) {
  const Tensor matrix = torch::ones({4, 5}), into = torch::zeros({3, 5});
  const PackedMatrix packed(matrix);
  EXPECT_ANY_THROW(packed.product_into(torch::ones({3, 5}), into));
  EXPECT_ANY_THROW(packed.product_into(torch::ones({2, 4}), into));
  EXPECT_ANY_THROW(packed.product_into(torch::ones({3, 4}), torch::zeros({3, 6})));
  EXPECT_ANY_THROW(lockstep::kernels::product(torch::ones({3, 5}), matrix));
  EXPECT_ANY_THROW(
      lockstep::kernels::product_into(torch::ones({3, 4}), matrix, torch::zeros({3, 6})));
  EXPECT_THROW(PackedMatrix(torch::ones({4})), std::logic_error);
}

}  // namespace matrix_product_test
