#include "numpy_random.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

namespace bench {
namespace {

/// Four 64-bit words that numpy's `SeedSequence(seed).generate_state(4, uint64)` returns:
/// O'Neill's seed_seq_fe with a pool of four 32-bit words.
std::array<std::uint64_t, 4> seed_words(std::uint64_t seed) {
  constexpr std::uint32_t kInitA = 0x43b0d7e5, kMultiplierA = 0x931e8875;
  constexpr std::uint32_t kInitB = 0x8b51f9dd, kMultiplierB = 0x58f38ded;
  constexpr std::uint32_t kMixLeft = 0xca01f9dd, kMixRight = 0x4973f715;

  auto hash = [](std::uint32_t value, std::uint32_t& constant, std::uint32_t multiplier) {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ (value >> 16);
  };

  std::array<std::uint32_t, 4> pool = {static_cast<std::uint32_t>(seed),
                                       static_cast<std::uint32_t>(seed >> 32)};
  std::uint32_t constant = kInitA;
  for (std::uint32_t& word : pool) word = hash(word, constant, kMultiplierA);
  for (std::size_t source = 0; source < pool.size(); ++source) {
    for (std::size_t target = 0; target < pool.size(); ++target) {
      if (source == target) continue;
      std::uint32_t hashed = hash(pool[source], constant, kMultiplierA);
      std::uint32_t mixed = kMixLeft * pool[target] - kMixRight * hashed;
      pool[target] = mixed ^ (mixed >> 16);
    }
  }

  std::array<std::uint64_t, 4> words;
  constant = kInitB;
  for (std::size_t index = 0; index < words.size(); ++index) {
    std::uint64_t low = hash(pool[2 * index % 4], constant, kMultiplierB);
    std::uint64_t high = hash(pool[(2 * index + 1) % 4], constant, kMultiplierB);
    words[index] = high << 32 | low;
  }
  return words;
}

/// Uniform in [0, 1) of 24 bits.
float unit_float(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

/// Layers of equal area under exp(-x²/2), x >= 0 (Marsaglia and Tsang, with 256 layers). Layer 0
/// is the lowest one and includes the tail from kTail on.
struct Ziggurat {
  static constexpr std::size_t kLayers = 256;
  static constexpr double kTail = 3.6541528853610087963519472518;
  static constexpr double kArea = 0.0049286732339746519;
  static constexpr double kScale = 0x1p23;  // candidates are integers below this, times width

  std::array<std::uint32_t, kLayers> sure;  // a candidate below this lies under the curve
  std::array<float, kLayers> width;         // of a layer, divided by kScale
  std::array<float, kLayers> height;        // the curve at the layer's right end

  Ziggurat() {
    auto density = [](double x) { return std::exp(-0.5 * x * x); };
    std::array<double, kLayers> edge;
    edge.back() = kTail;
    for (std::size_t layer = kLayers - 2; layer > 0; --layer) {
      double below = edge[layer + 1];
      edge[layer] = std::sqrt(-2 * std::log(density(below) + kArea / below));
    }
    edge.front() = 0;
    auto rounded = [](double ratio) {
      return static_cast<std::uint32_t>(std::nearbyint(ratio * kScale));
    };
    sure[0] = rounded(kTail * density(kTail) / kArea);
    width[0] = static_cast<float>(kArea / density(kTail) / kScale);
    height[0] = 1;
    for (std::size_t layer = 1; layer < kLayers; ++layer) {
      sure[layer] = rounded(edge[layer - 1] / edge[layer]);
      width[layer] = static_cast<float>(edge[layer] / kScale);
      height[layer] = static_cast<float>(density(edge[layer]));
    }
  }
};

}  // namespace

NumpyRandom::NumpyRandom(std::uint64_t seed) {
  std::array<std::uint64_t, 4> words = seed_words(seed);
  auto join = [](std::uint64_t high, std::uint64_t low) { return Uint128{high} << 64 | low; };
  increment_ = join(words[2], words[3]) << 1 | 1;
  next_uint64();
  state_ += join(words[0], words[1]);
  next_uint64();
}

std::uint64_t NumpyRandom::next_uint64() {
  constexpr Uint128 kMultiplier = Uint128{2549297995355413924U} << 64 | 4865540595714422341U;
  state_ = state_ * kMultiplier + increment_;
  auto high = static_cast<std::uint64_t>(state_ >> 64);
  auto low = static_cast<std::uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

std::uint32_t NumpyRandom::next_uint32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  std::uint64_t both = next_uint64();
  half_ = static_cast<std::uint32_t>(both >> 32);
  has_half_ = true;
  return static_cast<std::uint32_t>(both);
}

float NumpyRandom::next_float() { return unit_float(next_uint32()); }

void NumpyRandom::random(std::span<float> out) {
  std::size_t index = 0;
  if (has_half_ && !out.empty()) out[index++] = next_float();
  for (; index + 1 < out.size(); index += 2) {
    std::uint64_t both = next_uint64();
    out[index] = unit_float(static_cast<std::uint32_t>(both));
    out[index + 1] = unit_float(static_cast<std::uint32_t>(both >> 32));
  }
  if (index < out.size()) out[index] = next_float();
}

void NumpyRandom::standard_normal(std::span<float> out) {
  const Ziggurat ziggurat;
  constexpr auto kTail = static_cast<float>(Ziggurat::kTail);
  constexpr auto kInverseTail = static_cast<float>(1 / Ziggurat::kTail);

  auto tail = [&](bool negative) {
    for (;;) {
      float x = -kInverseTail * std::log1p(-next_float());
      float y = -std::log1p(-next_float());
      if (y + y > x * x) return negative ? -(kTail + x) : kTail + x;
    }
  };
  auto under_curve = [&](std::size_t layer, float x) {
    float step = ziggurat.height[layer - 1] - ziggurat.height[layer];
    return step * next_float() + ziggurat.height[layer] < std::exp(-0.5 * x * x);
  };
  auto normal = [&] {
    for (;;) {
      std::uint32_t bits = next_uint32();
      std::size_t layer = bits & 0xff;
      std::uint32_t candidate = bits >> 9;
      float x = static_cast<float>(candidate) * ziggurat.width[layer];
      if (bits >> 8 & 1) x = -x;
      if (candidate < ziggurat.sure[layer]) return x;
      if (layer == 0) return tail(candidate >> 8 & 1);
      if (under_curve(layer, x)) return x;
    }
  };
  for (float& value : out) value = normal();
}

void NumpyRandom::integers(std::uint32_t bound, std::span<std::int64_t> out) {
  // Lemire's method: the high word of a product, without the low words that would favour some.
  constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
  const std::uint32_t unfair = (kMax - bound + 1) % bound;
  for (std::int64_t& value : out) {
    std::uint64_t product = 0;
    do {
      product = std::uint64_t{next_uint32()} * bound;
    } while (static_cast<std::uint32_t>(product) < unfair);
    value = static_cast<std::int64_t>(product >> 32);
  }
}

}  // namespace bench
