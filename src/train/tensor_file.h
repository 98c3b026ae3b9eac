#pragma once

#include <lockstep/state.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"

namespace lockstep::train {

struct WrittenFile {
  std::uint64_t bytes = 0;
  std::string sha256;
};

/// Whether a safetensors file can hold tensors of a type.
bool can_hold(torch::ScalarType type);

/// Writes tensors as safetensors to a new file.
WrittenFile write_tensors(base::File& file, const std::vector<NamedTensor>& tensors,
                          std::map<std::string, std::string> metadata = {});

}  // namespace lockstep::train
