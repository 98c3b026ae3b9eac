#include "kernels/product_loops.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LOCKSTEP_WIDE
#endif

namespace lockstep::kernels::products {

#ifdef LOCKSTEP_WIDE
namespace {

// Numbers that are so far apart are in the way of each other in the first cache.
constexpr std::int64_t kCollision = 1024;

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {

constexpr std::int64_t kWidth = 8, kTileRows = 6;
#include "kernels/product_loops.inc"

}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f")
namespace avx512 {

constexpr std::int64_t kWidth = 16, kTileRows = 12;
#include "kernels/product_loops.inc"

}  // namespace avx512
#pragma GCC pop_options

}  // namespace

std::vector<const Loops*> all_loops() {
  std::vector<const Loops*> all;
  if (__builtin_cpu_supports("avx512f")) all.push_back(&avx512::kLoops);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back(&avx2::kLoops);
  return all;
}

#else

std::vector<const Loops*> all_loops() { return {}; }

#endif

const Loops* loops() {
  static const Loops* const first = [] {
    const auto all = all_loops();
    return all.empty() ? nullptr : all.front();
  }();
  return first;
}

}  // namespace lockstep::kernels::products
