#include "vision/cifar_reader.h"

#include <lockstep/error.h>

#include "base/file.h"

namespace lockstep::vision {

void append_cifar_file(const std::string& path, std::int64_t rows, CifarRows& to) {
  constexpr std::int64_t kRow = 1 + kCifarPixels;
  constexpr std::int64_t kMostRows = 1'000'000;
  const std::vector<std::uint8_t> bytes =
      base::read_bytes(path, static_cast<std::uint64_t>((rows > 0 ? rows : kMostRows) * kRow));
  if (rows == 0) {
    rows = static_cast<std::int64_t>(bytes.size()) / kRow;
    if (rows == 0 || bytes.size() % kRow != 0)
      throw CorruptFile(
          path, static_cast<std::uint64_t>(rows * kRow),
          "whole rows of 3073 bytes; the file has " + std::to_string(bytes.size()) + " bytes");
  }
  const auto expected = static_cast<std::uint64_t>(rows * kRow);
  if (bytes.size() < expected)
    throw CorruptFile(path, bytes.size(),
                      std::to_string(rows) + " rows of 3073 bytes, " + std::to_string(expected) +
                          " bytes in all; the file ends here");
  for (std::uint64_t at = 0; at < expected; at += kRow)
    if (bytes[at] >= kCifarClasses)
      throw CorruptFile(path, at, "a label from 0 to 9, not " + std::to_string(bytes[at]));
  to.pixels.reserve(to.pixels.size() + static_cast<std::size_t>(rows * kCifarPixels));
  for (auto row = bytes.begin(); row != bytes.end(); row += kRow) {
    to.labels.push_back(*row);
    to.pixels.insert(to.pixels.end(), row + 1, row + kRow);
  }
}

}  // namespace lockstep::vision
