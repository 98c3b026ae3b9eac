// Any bytes as a compiled gettext catalogue: tidy pairs, or CorruptFile.

#include "check_pairs.h"
#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TemporaryFile file(data, size);
  check_pairs(file.path(), [&](const lockstep::text::PairSink& sink) {
    return lockstep::text::read_gettext_pairs(file.path(), lockstep::text::OnBadPair::skip, sink);
  });
  return 0;
}
