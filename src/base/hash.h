#pragma once

// Hashes of numbers and texts: the same on every machine.

#include <cstdint>
#include <string_view>

namespace lockstep::base {

/// What SplitMix64 adds to its state: an odd number near 2^64 divided by the golden ratio.
inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

/// The finaliser of SplitMix64: a bijection of 64 bits, each of which depends on all.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// FNV-1a of a text.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return hash;
}

}  // namespace lockstep::base
