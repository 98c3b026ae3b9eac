// Any bytes are read as an event file, or refused with the offset of the first bad record.

#include <lockstep/error.h>

#include <cstdlib>

#include "../events/decoded.h"
#include "base/utf8.h"
#include "events/crc32c.h"
#include "events/records.h"

namespace {

using namespace lockstep::events;

void require(bool holds) {
  if (!holds) std::abort();
}

void decode_quietly(std::string_view data) {
  try {
    for (const DecodedValue& value : decode(data).values) {
      const std::string text = lockstep::base::valid_utf8(value.tag);
      require(lockstep::base::valid_utf8(text) == text);
    }
  } catch (const protozero::exception&) {
  }
}

std::string together(const std::vector<std::string_view>& records) {
  std::string bytes;
  for (const std::string_view one : records) bytes += record(one);
  return bytes;
}

/// `bytes` as a file: what is read makes the same file again, up to the offset of an error.
void read_file(std::string_view bytes) {
  std::size_t sound = bytes.size();
  try {
    read_records("input", bytes);
  } catch (const lockstep::CorruptFile& error) {
    sound = error.offset;
    require(sound < bytes.size());
  }
  const auto records = read_records("input", bytes.substr(0, sound));
  require(together(records) == bytes.substr(0, sound));
  for (const std::string_view one : records) decode_quietly(one);
}

/// `bytes` behind a length with a right checksum, which a fuzzer would not find by itself.
void read_claimed_length(std::string_view bytes) {
  if (bytes.size() < 8) return;
  std::string file(bytes.substr(0, 8));
  const std::uint32_t crc = masked_crc32c(file);
  for (unsigned i = 0; i < 4; ++i) file += static_cast<char>((crc >> (8U * i)) & 0xffU);
  read_file(file.append(bytes.substr(8)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_file(bytes);
  read_claimed_length(bytes);
  read_file(record(bytes));
  decode_quietly(bytes);
  return 0;
}
