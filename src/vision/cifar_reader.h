#pragma once

// A file of CIFAR-10's binary version, without torch.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::vision {

inline constexpr std::int64_t kCifarPixels = 3 * 32 * 32;  ///< red, green, blue planes
inline constexpr int kCifarClasses = 10;

struct CifarRows {
  std::vector<std::uint8_t> pixels;  ///< kCifarPixels a row
  std::vector<std::uint8_t> labels;  ///< one a row
};

/// Appends the rows of a file. Throws IoError, or CorruptFile unless it has exactly `rows` rows,
/// with labels below kCifarClasses; `to` is then as it was.
void append_cifar_file(const std::string& path, std::int64_t rows, CifarRows& to);

}  // namespace lockstep::vision
