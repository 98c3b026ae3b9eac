// Any bytes as a pair file: pairs that lie inside of it and can be read, or CorruptFile.

#include <lockstep/error.h>
#include <lockstep/text/pair_file.h>

#include <cstdlib>

#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TemporaryFile file(data, size);
  try {
    const lockstep::text::PairFile pairs(file.path());
    std::size_t bytes = pairs.key().size();
    std::uint32_t sum = 0;
    for (std::int64_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].source.empty()) std::abort();
      for (const auto& tokens : {pairs[i].source, pairs[i].target}) {
        bytes += tokens.size_bytes();
        for (const std::int32_t token : tokens) sum += static_cast<std::uint32_t>(token);
      }
    }
    if (bytes > size || (bytes == 0 && sum != 0)) std::abort();
  } catch (const lockstep::CorruptFile& error) {
    if (error.path != file.path()) std::abort();
  }
  return 0;
}
