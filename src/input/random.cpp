#include <lockstep/error.h>
#include <lockstep/random.h>

#include <cmath>

#include "base/hash.h"

namespace lockstep {
namespace {

using base::kGolden;
using base::mix;

std::uint64_t with(std::uint64_t key, std::int64_t number) {
  return mix(mix(key + kGolden) ^ (static_cast<std::uint64_t>(number) * kGolden));
}

/// A round of a Feistel network: moves `x` around in 0 to n - 1 by what `y` says. n, y < 2^32; the
/// bias of n / 2^32 does no harm here.
std::uint64_t moved(std::uint64_t x, std::uint64_t n, std::uint64_t y, std::uint64_t key,
                    std::uint64_t round) {
  const std::uint64_t bits = mix(key + (round << 32U | y) * kGolden);
  const std::uint64_t result = x + (((bits >> 32U) * n) >> 32U);
  return result < n ? result : result - n;
}

}  // namespace

// The counter starts at a place of its own too: two streams overlap only if 128 bits meet.
KeyedRandom::KeyedRandom(std::uint64_t seed, std::int64_t a, std::int64_t b)
    : key_(with(with(with(seed, 0), a), b)), counter_(with(with(with(seed, 1), b), a)) {}

std::uint64_t KeyedRandom::next() { return mix(mix(counter_++ * kGolden) ^ key_); }

double KeyedRandom::uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

std::int64_t KeyedRandom::below(std::int64_t n) {
  check(n >= 1, "KeyedRandom::below: there is no number below 1");
  const auto range = static_cast<std::uint64_t>(n);
  const std::uint64_t surplus = (0 - range) % range;  // 2^64 mod n
  std::uint64_t bits = next();
  while (bits < surplus) bits = next();
  return static_cast<std::int64_t>(bits % range);
}

std::uint64_t combined_seed(std::uint64_t seed, std::span<const std::int64_t> numbers) {
  std::uint64_t key = with(seed, static_cast<std::int64_t>(numbers.size()));
  for (const std::int64_t number : numbers) key = with(key, number);
  return key;
}

std::int64_t permuted(std::int64_t i, std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  check(0 <= i && i < n, "permuted: i must be from 0 to n - 1");
  constexpr std::uint64_t kRounds = 12;
  const std::uint64_t key = with(with(seed, 2), epoch);
  // A grid of sides a and b with a * b just above n: hardly ever a second walk.
  auto a = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (a * a < static_cast<std::uint64_t>(n)) ++a;
  const std::uint64_t b = (static_cast<std::uint64_t>(n) + a - 1) / a;
  auto place = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = place / b, right = place % b;
    for (std::uint64_t round = 0; round < kRounds; round += 2) {
      left = moved(left, a, right, key, round);
      right = moved(right, b, left, key, round + 1);
    }
    place = left * b + right;
  } while (place >= static_cast<std::uint64_t>(n));
  return static_cast<std::int64_t>(place);
}

}  // namespace lockstep
