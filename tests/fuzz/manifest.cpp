// A manifest that is read is one that can be written and read again, to the same text.

#include <lockstep/error.h>
#include <lockstep/manifest.h>

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const lockstep::Manifest manifest =
        lockstep::parse_manifest("m", std::string(reinterpret_cast<const char*>(data), size));
    const std::string text = lockstep::to_json(manifest);
    if (lockstep::to_json(lockstep::parse_manifest("m", text)) != text) std::abort();
  } catch (const lockstep::CorruptFile&) {
  }
  return 0;
}
