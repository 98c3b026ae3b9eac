#pragma once

// From the bytes of an image to the floats that a model is given, with the usual augmentation. All
// randomness is drawn from keyed streams, so an image looks the same whichever thread makes it.

#include <lockstep/image.h>
#include <lockstep/random.h>
#include <lockstep/vision/box.h>

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep::vision {

/// (value - mean) / deviation of values from 0 to 1, by channel; empty: values stay as they are.
struct Normalisation {
  std::vector<double> mean = {};
  std::vector<double> deviation = {};
};

/// The same, made ready for bytes.
class ByteScale {
 public:
  /// Throws ConfigError when the normalisation is of another number of channels.
  ByteScale(const Normalisation& normalisation, int channels);

  int channels() const { return static_cast<int>(tables_.size()); }
  const std::array<float, 256>& table(int channel) const { return tables_[index(channel)]; }
  float factor(int channel) const { return factors_[index(channel)]; }
  float shift(int channel) const { return tables_[index(channel)][0]; }  ///< of byte 0

 private:
  static std::size_t index(int channel) { return static_cast<std::size_t>(channel); }

  std::vector<std::array<float, 256>> tables_;
  std::vector<float> factors_;
};

/// Where a crop of an image's own size lies, in pixels to the right and down; and whether it is
/// mirrored.
struct Shift {
  int right = 0;
  int down = 0;
  bool flip = false;
};

/// For small images: up to `padding` pixels in each direction, and flipped half of the time.
Shift random_shift(int padding, KeyedRandom& random);

/// Writes one image in place: bytes [channels, height, width] to floats of the same shape, shifted;
/// what lies outside is 0 before it is scaled.
void write_shifted(const std::uint8_t* from, int height, int width, const Shift& shift,
                   const ByteScale& scale, float* to);

/// For large images in training: 0.08 to 1 of the area, sides of 3/4 to 4/3. Where that does not
/// fit in ten attempts: the largest box in the middle whose ratio is allowed.
Box random_box(int width, int height, KeyedRandom& random);

/// For large images in evaluation: the square in the middle whose side is `part` of the short side.
Box centre_box(int width, int height, double part);

/// Writes a box of an RGB image in place, resized to [3, size, size]. Bilinear; where it shrinks,
/// the filter is widened to cover every pixel.
void write_resized(const Image& from, const Box& box, int size, bool flip, const ByteScale& scale,
                   float* to);

}  // namespace lockstep::vision
