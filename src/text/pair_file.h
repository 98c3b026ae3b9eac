#pragma once

// The format of a pair file. All numbers are little-endian.
//
//   PairFileHeader
//   the key, filled up with zeros to a multiple of 8 bytes
//   int32 [tokens]         source and target of the first pair, of the second, ...; filled up too
//   uint64 [2 * pairs + 1] where each sequence begins among the tokens, and where the last one ends

#include <array>
#include <bit>
#include <cstdint>

namespace lockstep::text {

static_assert(std::endian::native == std::endian::little, "a pair file is mapped as it is");

inline constexpr std::array<char, 8> kPairMagic = {'L', 'O', 'C', 'K', 'P', 'A', 'I', 'R'};
inline constexpr std::uint64_t kPairVersion = 1;

struct PairFileHeader {
  std::array<char, 8> magic = kPairMagic;
  std::uint64_t version = kPairVersion;
  std::uint64_t key_bytes = 0;
  std::uint64_t tokens = 0;
  std::uint64_t pairs = 0;
};

/// `bytes` filled up to a multiple of 8.
inline constexpr std::uint64_t filled(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace lockstep::text
