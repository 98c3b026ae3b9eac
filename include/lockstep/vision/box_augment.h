#pragma once

// Augmentation of a picture and its boxes together. Everything random is drawn from a keyed stream,
// so a picture looks the same whichever thread makes it.

#include <lockstep/image.h>
#include <lockstep/random.h>
#include <lockstep/vision/anchors.h>
#include <lockstep/vision/augment.h>
#include <lockstep/vision/box.h>
#include <lockstep/vision/image_file.h>

#include <array>
#include <span>
#include <vector>

namespace lockstep::vision {

/// What may happen to a training picture. By default nothing does.
struct BoxAugment {
  bool flip = false;  ///< mirror it, half of the time
  /// SSD's random crop: 0.1 to 1 of the area, sides of 1/2 to 2, with at least one thing covered by
  /// a share that is drawn from 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1. Things that are covered less are
  /// left out. One picture in seven or so stays as it is.
  bool crop = false;
  double expand =
      1;  ///< zoom out, half of the time: up to so many times as wide, on a plain ground
  double jitter = 0;  ///< of colours: how far brightness, contrast and saturation may be from 1
};

/// A linear change of colours: red, green and blue from red, green, blue and 1, in bytes.
using ColourChange = std::array<std::array<float, 4>, 3>;

/// How a picture is looked at.
struct View {
  Box area = {};                 ///< in pixels of the picture; may reach beyond it
  double least_covered = 0;      ///< things with a smaller share inside are left out
  bool flip = false;             ///< left and right change places
  bool changes_colours = false;  ///< by `colours`
  ColourChange colours = {};
};

/// The whole picture as it is.
View whole_view(const ImageSize& size);

View random_view(const ImageSize& size, std::span<const LabelledBox> boxes,
                 const BoxAugment& augment, KeyedRandom& random);

/// The things of a picture as a view shows them: cut to it, as parts of it.
struct SeenBoxes {
  std::vector<Corners> things;
  std::vector<int> labels;
};

/// Crowds are left out: they are not trained on.
SeenBoxes seen_boxes(std::span<const LabelledBox> boxes, const View& view);

/// Writes what a view shows in place: [3, size, size]. `size` and `view` are of the picture as it
/// is stored; `from` may have been decoded smaller. What lies beyond the picture is the mean.
void write_view(const Image& from, const ImageSize& stored, const View& view, int size,
                const ByteScale& scale, float* to);

}  // namespace lockstep::vision
