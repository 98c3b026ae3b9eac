#pragma once

// CRC-32C (Castagnoli), the checksum of event records.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::events {

/// Table k holds the remainder of every byte that is followed by k zero bytes.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr CrcTables crc_tables() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // bits reversed
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1U) ^ ((rest & 1U) != 0 ? kPolynomial : 0U);
    tables[0][byte] = rest;
  }
  for (std::size_t k = 1; k < tables.size(); ++k)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8U) ^ tables[0][before & 0xffU];
    }
  return tables;
}

/// Eight bytes at a time (slicing by eight), the rest one by one.
constexpr std::uint32_t crc32c(std::string_view data) {
  constexpr CrcTables kTables = crc_tables();
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(data[i]); };
  std::uint32_t crc = 0xffffffffU;
  while (data.size() >= 8) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 8; ++i)
      next ^= kTables[7 - i][byte(i) ^ (i < 4 ? (crc >> (8U * i)) & 0xffU : 0U)];
    crc = next;
    data.remove_prefix(8);
  }
  for (std::size_t i = 0; i < data.size(); ++i)
    crc = (crc >> 8U) ^ kTables[0][(crc ^ byte(i)) & 0xffU];
  return ~crc;
}

/// What a record stores: a checksum over data that has checksums in it is weak, so it is turned.
constexpr std::uint32_t masked_crc32c(std::string_view data) {
  const std::uint32_t crc = crc32c(data);
  return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
}

}  // namespace lockstep::events
