// parse_safetensors on any bytes: CorruptFile, or a header that says the same when written again.

#include <lockstep/error.h>

#include <cstdint>
#include <cstdlib>
#include <span>

#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  io::SafetensorsHeader header;
  try {
    header = io::parse_safetensors("fuzz", std::as_bytes(std::span(data, size)));
  } catch (const CorruptFile& error) {
    if (error.offset > size) std::abort();
    return 0;
  }
  std::string again = io::safetensors_header(header.tensors, header.metadata);
  const std::uint64_t data_begin = again.size();
  again.append(size - header.data_begin, '\0');
  header.data_begin = data_begin;
  if (io::parse_safetensors("again", std::as_bytes(std::span(again))) != header) std::abort();
  return 0;
}
