// Any bytes as conversations in YAML: tidy pairs, or CorruptFile inside the file.

#include "check_pairs.h"
#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TemporaryFile file(data, size);
  for (const auto on_bad : {lockstep::text::OnBadPair::skip, lockstep::text::OnBadPair::refuse})
    check_pairs(file.path(), [&](const lockstep::text::PairSink& sink) {
      try {
        return lockstep::text::read_chatterbot_pairs(file.path(), on_bad, sink);
      } catch (const lockstep::CorruptFile& error) {
        if (error.offset > size) std::abort();
        throw;
      }
    });
  return 0;
}
