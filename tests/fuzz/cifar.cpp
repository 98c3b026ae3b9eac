// The first byte is the number of rows, the rest is a CIFAR file: exactly those rows, or
// CorruptFile with an offset inside the file.

#include <lockstep/error.h>

#include <cstdlib>

#include "temporary_file.h"
#include "vision/cifar_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace vision = lockstep::vision;
  if (size == 0) return 0;
  const TemporaryFile file(data + 1, size - 1);
  const std::size_t rows = data[0];
  vision::CifarRows content;
  try {
    vision::append_cifar_file(file.path(), data[0], content);
    if (rows > 0 && content.labels.size() != rows) std::abort();
    if (size - 1 != content.labels.size() * 3073) std::abort();
    for (const std::uint8_t label : content.labels)
      if (label >= vision::kCifarClasses) std::abort();
  } catch (const lockstep::CorruptFile& error) {
    if (error.offset > size - 1 || !content.labels.empty()) std::abort();
  }
  if (content.pixels.size() != content.labels.size() * vision::kCifarPixels) std::abort();
  return 0;
}
