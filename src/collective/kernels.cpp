#include "collective/kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <lockstep/error.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/clones.h"

// This file is compiled with -ffp-contract=off, so that all clones round alike.

namespace lockstep::collective {
namespace {

/// What arithmetic is done in: the type itself, or float for the 16-bit types.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
LOCKSTEP_INLINE void add_loop(T* out, const T* a, const T* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<T>(static_cast<Wide<T>>(a[i]) + static_cast<Wide<T>>(b[i]));
}

constexpr int kLanes = std::tuple_size_v<Lanes>;
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

/// Adds the squares to eight lanes, which fixes the order of that sum.
template <class T>
LOCKSTEP_INLINE void square_loop(const T* in, std::int64_t n, Lanes& sums) {
  Doubles lanes;
  std::memcpy(&lanes, sums.data(), sizeof lanes);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Doubles values;
    for (int lane = 0; lane < kLanes; ++lane)
      values[lane] = static_cast<double>(static_cast<Wide<T>>(in[i + lane]));
    lanes += values * values;
  }
  for (int lane = 0; i < n; ++i, ++lane) {
    const auto value = static_cast<double>(static_cast<Wide<T>>(in[i]));
    lanes[lane] += value * value;
  }
  std::memcpy(sums.data(), &lanes, sizeof lanes);
}

/// Stores op(in) and adds its squares: a piece that stays in the first cache after the other, for
/// compilers do not vectorise both in one loop.
template <class T, class Op>
LOCKSTEP_INLINE void map_loop(T* out, const T* in, std::int64_t n, Lanes& sums, Op op) {
  constexpr std::int64_t kPiece = 1024;
  for (std::int64_t begin = 0; begin < n; begin += kPiece) {
    const std::int64_t end = std::min(begin + kPiece, n);
    for (std::int64_t i = begin; i < end; ++i)
      out[i] = static_cast<T>(op(static_cast<Wide<T>>(in[i])));
    square_loop(out + begin, end - begin, sums);
  }
}

#define LOCKSTEP_KERNELS(T)                                                                       \
  LOCKSTEP_CLONES void add_run(T* out, const T* a, const T* b, std::int64_t n) {                  \
    add_loop(out, a, b, n);                                                                       \
  }                                                                                               \
  LOCKSTEP_CLONES void scale_run(T* out, const T* in, Wide<T> factor, std::int64_t n,             \
                                 Lanes& sums) {                                                   \
    map_loop(out, in, n, sums, [factor](Wide<T> x) { return x * factor; });                       \
  }                                                                                               \
  LOCKSTEP_CLONES void divide_run(T* out, const T* in, Wide<T> by, std::int64_t n, Lanes& sums) { \
    map_loop(out, in, n, sums, [by](Wide<T> x) { return x / by; });                               \
  }                                                                                               \
  LOCKSTEP_CLONES void squares_run(const T* in, std::int64_t n, Lanes& sums) {                    \
    square_loop(in, n, sums);                                                                     \
  }

LOCKSTEP_KERNELS(float)
LOCKSTEP_KERNELS(double)
LOCKSTEP_KERNELS(c10::BFloat16)
LOCKSTEP_KERNELS(c10::Half)

/// Calls f(T{}) with the C++ type of `dtype`.
template <class F>
auto with_type(c10::ScalarType dtype, F f) {
  switch (dtype) {
    case c10::kFloat:
      return f(float{});
    case c10::kDouble:
      return f(double{});
    case c10::kBFloat16:
      return f(c10::BFloat16{});
    case c10::kHalf:
      return f(c10::Half{});
    default:
      throw ConfigError(std::string("parameters of type ") + c10::toString(dtype) +
                        " cannot be trained; use float32, float64, bfloat16 or float16, or freeze "
                        "them with requires_grad_(false).");
  }
}

}  // namespace

void add(c10::ScalarType dtype, void* out, const void* a, const void* b, std::int64_t n) {
  with_type(dtype, [&]<class T>(T) {
    add_run(static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b), n);
  });
}

double total(const Lanes& lanes) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

double scale(c10::ScalarType dtype, void* out, const void* in, double factor, std::int64_t n) {
  Lanes lanes{};
  with_type(dtype, [&]<class T>(T) {
    scale_run(static_cast<T*>(out), static_cast<const T*>(in), static_cast<Wide<T>>(factor), n,
              lanes);
  });
  return total(lanes);
}

void divide(c10::ScalarType dtype, void* out, const void* in, double divisor, std::int64_t n,
            Lanes& lanes) {
  with_type(dtype, [&]<class T>(T) {
    divide_run(static_cast<T*>(out), static_cast<const T*>(in), static_cast<Wide<T>>(divisor), n,
               lanes);
  });
}

double squares(c10::ScalarType dtype, const void* in, std::int64_t n) {
  Lanes lanes{};
  with_type(dtype, [&]<class T>(T) { squares_run(static_cast<const T*>(in), n, lanes); });
  return total(lanes);
}

void require_trainable(c10::ScalarType dtype) {
  with_type(dtype, [](auto) {});
}

}  // namespace lockstep::collective
