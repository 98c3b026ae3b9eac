// The first byte is the short side asked for, the rest is a JPEG or PNG file: an RGB image of the
// size that its header says, or CorruptFile.

#include <lockstep/error.h>
#include <lockstep/vision/image_file.h>

#include <algorithm>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const int short_side = data[0];
  const std::span<const std::uint8_t> bytes(data + 1, size - 1);
  try {
    const lockstep::vision::ImageSize stored = lockstep::vision::image_size("file", bytes);
    // Large images take long and find nothing more.
    if (std::int64_t{stored.width} * stored.height > 1 << 20) return 0;
    const lockstep::Image image = lockstep::vision::decode_image("file", bytes, short_side);
    const auto pixels =
        static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height);
    const int shortest = std::min(stored.width, stored.height);
    if (image.channels != 3 || image.pixels.size() != 3 * pixels || pixels == 0 ||
        image.width > stored.width || image.height > stored.height ||
        std::min(image.width, image.height) < std::min(short_side, shortest))
      std::abort();
  } catch (const lockstep::CorruptFile& error) {
    if (error.path != "file" || error.offset > bytes.size()) std::abort();
  }
  return 0;
}
