#include "events/records.h"

#include <lockstep/error.h>

#include <cstdint>

#include "events/crc32c.h"

namespace lockstep::events {
namespace {

constexpr std::size_t kLength = 8, kCrc = 4;

void put(std::string& to, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to += static_cast<char>((value >> (8U * i)) & 0xffU);
}

std::uint64_t number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::string record(std::string_view data) {
  std::string result;
  result.reserve(kLength + kCrc + data.size() + kCrc);
  put(result, data.size(), kLength);
  put(result, masked_crc32c(result), kCrc);
  result += data;
  put(result, masked_crc32c(data), kCrc);
  return result;
}

std::vector<std::string_view> read_records(const std::string& path, std::string_view bytes) {
  std::vector<std::string_view> records;
  std::size_t at = 0;
  const auto require = [&](bool holds, const char* expected) {
    if (!holds) throw CorruptFile(path, at, expected);
  };
  while (at < bytes.size()) {
    std::string_view rest = bytes.substr(at);
    require(rest.size() >= kLength + kCrc, "a record's length and its checksum (12 bytes)");
    const std::string_view length = rest.substr(0, kLength);
    require(number(rest.substr(kLength, kCrc)) == masked_crc32c(length),
            "a record whose length has the checksum that follows it");
    rest.remove_prefix(kLength + kCrc);
    const std::uint64_t size = number(length);
    require(size <= rest.size() && rest.size() - size >= kCrc,
            "a record with as much data as its length says, and a checksum");
    const std::string_view data = rest.substr(0, size);
    require(number(rest.substr(size, kCrc)) == masked_crc32c(data),
            "a record whose data has the checksum that follows it");
    records.push_back(data);
    at += kLength + kCrc + size + kCrc;
  }
  return records;
}

}  // namespace lockstep::events
