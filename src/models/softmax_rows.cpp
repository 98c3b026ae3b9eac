#include "softmax_rows.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LOCKSTEP_WIDE
#endif

namespace lockstep::softmax {
namespace {

namespace narrow {

constexpr std::int64_t kWidth = 4;
#include "softmax_loops.inc"

}  // namespace narrow

#ifdef LOCKSTEP_WIDE
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace wide {

constexpr std::int64_t kWidth = 8;
#include "softmax_loops.inc"

}  // namespace wide
#pragma GCC pop_options
#endif

}  // namespace

void cross_entropy(const Block& block) {
#ifdef LOCKSTEP_WIDE
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return wide::all_rows(block);
#endif
  narrow::all_rows(block);
}

}  // namespace lockstep::softmax
