// The loops of products for each kind of machine that this one can stand for, against plain ones.

#include "kernels/product_loops.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <vector>

namespace product_loops_test {

using namespace lockstep::kernels::products;

/// Small integers, whose products and sums are exact in any order.
std::vector<float> integers(std::int64_t count, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((i * 7 + seed * 13) % 11 - 5));
  return values;
}

/// Row-major, or its transpose.
Matrix view(const std::vector<float>& values, std::int64_t rows, std::int64_t columns,
            bool turned) {
  return turned ? Matrix{values.data(), 1, rows} : Matrix{values.data(), columns, 1};
}

float at(const Matrix& matrix, std::int64_t row, std::int64_t column) {
  return matrix.data[row * matrix.row_stride + column * matrix.column_stride];
}

struct Shape {
  std::int64_t rows, inner, columns;
};

void expect_product(const Loops& loops, const Shape& shape, bool left_turned, bool right_turned,
                    bool add) {
  SCOPED_TRACE(testing::Message() << shape.rows << "x" << shape.inner << "x" << shape.columns
                                  << ", turned " << left_turned << right_turned << ", add " << add);
  const auto left_values = integers(shape.rows * shape.inner, 1);
  const auto right_values = integers(shape.inner * shape.columns, 2);
  const Matrix left = view(left_values, shape.rows, shape.inner, left_turned);
  const Matrix right = view(right_values, shape.inner, shape.columns, right_turned);

  const std::int64_t panels = (shape.columns + loops.panel - 1) / loops.panel;
  std::vector<float> packed(static_cast<std::size_t>(panels * loops.panel * shape.inner),
                            std::numeric_limits<float>::quiet_NaN());
  loops.pack(right, shape.inner, shape.columns, packed.data());

  const std::int64_t stride = shape.columns + 3;  // what is between the rows is not to change
  auto into = integers(shape.rows * stride, 3);
  const auto before = into;
  loops.multiply({.left = left,
                  .right = packed.data(),
                  .into = into.data(),
                  .into_stride = stride,
                  .rows = shape.rows,
                  .inner = shape.inner,
                  .columns = shape.columns,
                  .add = add});
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t column = 0; column < stride; ++column) {
      const auto place = static_cast<std::size_t>(row * stride + column);
      float expected = add || column >= shape.columns ? before[place] : 0;
      if (column < shape.columns)
        for (std::int64_t i = 0; i < shape.inner; ++i)
          expected += at(left, row, i) * at(right, i, column);
      ASSERT_EQ(into[place], expected) << "row " << row << ", column " << column;
    }
}

TEST(ProductLoops, OfEveryKindEqualPlainOnes) {
  for (const Loops* const loops : all_loops()) {
    SCOPED_TRACE(testing::Message() << "panels of " << loops->panel);
    for (const std::int64_t rows : {1, 6, 7, 12, 13, 16, 17, 30})
      for (const std::int64_t inner : {1, 15, 16, 33})
        for (const std::int64_t columns : {1, 15, 16, 17, 32, 33, 65})
          for (const int how : {0, 1, 2, 3})
            expect_product(*loops, {rows, inner, columns}, how % 2 == 1, how / 2 == 1, how == 2);
  }
}

TEST(ProductLoops, OfEveryKindTakeRowsThatCollideInTheCache) {
  for (const Loops* const loops : all_loops()) {
    const std::int64_t rows = 14, inner = 20, columns = 40, far = 1024;
    const auto left_values = integers(rows * far, 1), right = integers(inner * columns, 2);
    std::vector<float> packed(static_cast<std::size_t>(inner * 2 * columns)), into(rows * columns);
    loops->pack({right.data(), columns, 1}, inner, columns, packed.data());
    loops->multiply({.left = {left_values.data(), far, 1},
                     .right = packed.data(),
                     .into = into.data(),
                     .into_stride = columns,
                     .rows = rows,
                     .inner = inner,
                     .columns = columns});
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column) {
        float expected = 0;
        for (std::int64_t i = 0; i < inner; ++i)
          expected += left_values[static_cast<std::size_t>(row * far + i)] *
                      right[static_cast<std::size_t>(i * columns + column)];
        ASSERT_EQ(into[static_cast<std::size_t>(row * columns + column)], expected);
      }
  }
}

}  // namespace product_loops_test
