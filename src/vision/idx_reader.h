#pragma once

// The content of an IDX file, without torch.

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::vision {

struct IdxContent {
  std::vector<std::int64_t> sizes;  ///< one to four dimensions
  std::vector<std::uint8_t> bytes;  ///< as many as their product
};

/// Reads a plain or gzipped IDX file of bytes. Throws IoError or CorruptFile. Memory is taken as
/// the data comes, not as the header claims.
IdxContent read_idx_content(const std::string& path);

}  // namespace lockstep::vision
