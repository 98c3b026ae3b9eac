#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::base {

/// A whole file. Throws IoError, or CorruptFile when it has more than `most` bytes.
std::vector<std::uint8_t> file_bytes(const std::string& path, std::uint64_t most);

}  // namespace lockstep::base
