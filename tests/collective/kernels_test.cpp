// Loops over runs of gradients, against ATen.

#include "collective/kernels.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

namespace kernels_test {

using namespace lockstep;

constexpr auto kDtypes = {torch::kFloat32, torch::kFloat64, torch::kBFloat16, torch::kHalf};
constexpr std::int64_t kLengths[] = {0, 1, 7, 8, 9, 31, 32, 33, 1000, 1024, 4099};

double divide(torch::Dtype dtype, void* out, const void* in, double divisor, std::int64_t n) {
  collective::Lanes lanes{};
  collective::divide(dtype, out, in, divisor, n, lanes);
  return collective::total(lanes);
}

/// The squares are summed as doubles, in another order than ATen's or that of another cut: each of
/// fewer than 5000 additions may round by 1.1e-16 of the sum.
constexpr double kSquaresTolerance = 1e-12;

torch::Tensor random(std::int64_t n, torch::Dtype dtype, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn({n}, generator, torch::kFloat64).to(dtype);
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.numel() == b.numel() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

double sum_of_squares(const torch::Tensor& tensor) {
  return tensor.to(torch::kFloat64).square().sum().item<double>();
}

void expect_close(double found, double expected) {
  EXPECT_NEAR(found, expected, kSquaresTolerance * expected);
}

/// Calls f(first, length) for pieces of awkward lengths that cover `n` elements.
template <class F>
void in_pieces(std::int64_t n, F f) {
  std::int64_t first = 0;
  for (std::int64_t length = 1; first < n; first += length, length = length * 3 % 101 + 1)
    f(first, std::min(length, n - first));
}

std::byte* at(const torch::Tensor& tensor, std::int64_t i) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr()) + i * tensor.element_size();
}

TEST(Kernels, AddEqualsAtenBitForBit) {
  for (const auto dtype : kDtypes)
    for (const std::int64_t n : kLengths) {
      const torch::Tensor a = random(n, dtype, 1), b = random(n, dtype, 2);
      torch::Tensor out = torch::empty_like(a);
      collective::add(dtype, out.mutable_data_ptr(), a.const_data_ptr(), b.const_data_ptr(), n);
      EXPECT_TRUE(same_bits(out, a + b)) << dtype << ", " << n;
    }
}

TEST(Kernels, AddMayWriteOverItsFirstTerm) {
  for (const auto dtype : kDtypes) {
    torch::Tensor a = random(77, dtype, 1);
    const torch::Tensor b = random(77, dtype, 2), expected = a + b;
    collective::add(dtype, a.mutable_data_ptr(), a.const_data_ptr(), b.const_data_ptr(), 77);
    EXPECT_TRUE(same_bits(a, expected)) << dtype;
  }
}

TEST(Kernels, DivideEqualsAtenBitForBitAndSumsTheSquaresOfTheQuotients) {
  for (const auto dtype : kDtypes)
    for (const std::int64_t n : kLengths)
      for (const double divisor : {1.0, 3.0, 8.0, 127.7}) {
        const torch::Tensor in = random(n, dtype, 3), expected = in / divisor;
        torch::Tensor out = torch::empty_like(in);
        const double squares =
            divide(dtype, out.mutable_data_ptr(), in.const_data_ptr(), divisor, n);
        EXPECT_TRUE(same_bits(out, expected)) << dtype << ", " << n << " / " << divisor;
        expect_close(squares, sum_of_squares(expected));
      }
}

TEST(Kernels, ScaleEqualsAtenBitForBitAndSumsTheSquaresOfTheProducts) {
  for (const auto dtype : kDtypes)
    for (const std::int64_t n : kLengths)
      for (const double factor : {1.0, 0.3, 0.25}) {
        torch::Tensor in = random(n, dtype, 4);
        const torch::Tensor expected = in * factor;
        const double squares =
            collective::scale(dtype, in.mutable_data_ptr(), in.const_data_ptr(), factor, n);
        EXPECT_TRUE(same_bits(in, expected)) << dtype << ", " << n << " * " << factor;
        expect_close(squares, sum_of_squares(expected));
      }
}

TEST(Kernels, SquaresEqualAtens) {
  for (const auto dtype : kDtypes)
    for (const std::int64_t n : kLengths) {
      const torch::Tensor in = random(n, dtype, 5);
      expect_close(collective::squares(dtype, in.const_data_ptr(), n), sum_of_squares(in));
    }
}

TEST(Kernels, ScaleDivideAndSquaresSumSquaresInTheSameOrder) {
  for (const auto dtype : kDtypes) {
    const torch::Tensor in = random(1003, dtype, 6);
    torch::Tensor out = torch::empty_like(in);
    const double alone = collective::squares(dtype, in.const_data_ptr(), 1003);
    EXPECT_EQ(collective::scale(dtype, out.mutable_data_ptr(), in.const_data_ptr(), 1, 1003),
              alone);
    EXPECT_EQ(divide(dtype, out.mutable_data_ptr(), in.const_data_ptr(), 1, 1003), alone);
  }
}

TEST(Kernels, SquaresInLanesDoNotDependOnRunsThatBeginAtMultiplesOfEight) {
  for (const auto dtype : kDtypes) {
    const torch::Tensor in = random(4099, dtype, 9), out = torch::empty_like(in);
    const double whole = divide(dtype, at(out, 0), at(in, 0), 2.7, 4099);
    collective::Lanes lanes{};
    for (const auto& [begin, end] : {std::pair{0, 8}, {8, 1032}, {1032, 4096}, {4096, 4099}})
      collective::divide(dtype, at(out, begin), at(in, begin), 2.7, end - begin, lanes);
    EXPECT_EQ(collective::total(lanes), whole) << dtype;
  }
}

TEST(Kernels, ElementsDoNotDependOnWhereARunIsCut) {
  constexpr std::int64_t n = 4099;
  for (const auto dtype : kDtypes) {
    const torch::Tensor a = random(n, dtype, 7), b = random(n, dtype, 8);
    const torch::Tensor sum = torch::empty_like(a), product = torch::empty_like(a),
                        quotient = torch::empty_like(a);
    double squares = 0;
    in_pieces(n, [&](std::int64_t i, std::int64_t length) {
      collective::add(dtype, at(sum, i), at(a, i), at(b, i), length);
      collective::scale(dtype, at(product, i), at(a, i), 0.7, length);
      squares += divide(dtype, at(quotient, i), at(a, i), 2.7, length);
    });
    const torch::Tensor whole = torch::empty_like(a);
    collective::add(dtype, at(whole, 0), at(a, 0), at(b, 0), n);
    EXPECT_TRUE(same_bits(sum, whole)) << dtype;
    collective::scale(dtype, at(whole, 0), at(a, 0), 0.7, n);
    EXPECT_TRUE(same_bits(product, whole)) << dtype;
    expect_close(squares, divide(dtype, at(whole, 0), at(a, 0), 2.7, n));
    EXPECT_TRUE(same_bits(quotient, whole)) << dtype;
  }
}

TEST(Kernels, OneInfiniteElementOrNotANumberShowsInTheSquares) {
  for (const auto dtype : kDtypes)
    for (const double bad :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
      for (const std::int64_t where : {0, 8, 100, 102}) {
        torch::Tensor in = random(103, dtype, 9);
        EXPECT_TRUE(std::isfinite(collective::squares(dtype, in.const_data_ptr(), 103)));
        in[where] = bad;
        EXPECT_FALSE(std::isfinite(collective::squares(dtype, in.const_data_ptr(), 103)));
      }
}

TEST(Kernels, LargeFloatsDoNotOverflowTheSquares) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const torch::Tensor in = torch::full({40}, 1e38, dtype);
    EXPECT_TRUE(std::isfinite(collective::squares(dtype, in.const_data_ptr(), 40))) << dtype;
  }
}

TEST(Kernels, OtherTypesAreRefusedByName) {
  std::int64_t room[2] = {};
  for (const auto dtype : {torch::kInt32, torch::kInt64, torch::kBool, torch::kComplexFloat}) {
    EXPECT_THROW(collective::add(dtype, room, room, room, 1), ConfigError);
    EXPECT_THROW(collective::scale(dtype, room, room, 1, 1), ConfigError);
    EXPECT_THROW(divide(dtype, room, room, 1, 1), ConfigError);
    EXPECT_THROW(collective::squares(dtype, room, 1), ConfigError);
    try {
      collective::require_trainable(dtype);
      FAIL() << dtype << " was not refused";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(c10::toString(dtype)), std::string::npos);
    }
  }
  for (const auto dtype : kDtypes) EXPECT_NO_THROW(collective::require_trainable(dtype));
}

}  // namespace kernels_test
