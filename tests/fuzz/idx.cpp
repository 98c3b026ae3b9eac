// Any bytes as an IDX file, plain or gzipped: content as its dimensions say, or CorruptFile.

#include <lockstep/error.h>

#include <cstdlib>

#include "temporary_file.h"
#include "vision/idx_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TemporaryFile file(data, size);
  try {
    const auto content = lockstep::vision::read_idx_content(file.path());
    std::size_t total = 1;
    for (const std::int64_t each : content.sizes) total *= static_cast<std::size_t>(each);
    if (content.sizes.empty() || content.sizes.size() > 4 || content.bytes.size() != total)
      std::abort();
  } catch (const lockstep::CorruptFile& error) {
    if (error.path != file.path()) std::abort();
  }
  return 0;
}
