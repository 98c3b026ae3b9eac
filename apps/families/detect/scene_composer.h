#pragma once

// One scene: cut-outs on a part of a background, and exact boxes.

#include <lockstep/image.h>
#include <lockstep/random.h>

#include <cstdint>
#include <vector>

namespace lockstep::apps {

/// Around all that can be seen of a thing; pixels from the top left.
struct SceneBox {
  int label = 0;  ///< the number of its class
  int x = 0, y = 0, width = 0, height = 0;
  std::int64_t area = 0;  ///< the pixels of the thing that can be seen
};

struct Scene {
  Image image;                  ///< RGB, size x size
  std::vector<SceneBox> boxes;  ///< of every thing in the picture
};

/// Puts one to four things on a square part of a background, their longer sides 1/6 to 6/10 of
/// `size`, enlarged at most twofold. Background and things are mirrored half of the time, and vary
/// in brightness and colour a little. A pixel belongs to a thing of which it shows more than half.
/// At least half of every thing can be seen: one that would cover more of another is not placed.
/// `cutouts`: of each class, at least one; RGBA. The scene belongs to the key of `random`.
Scene compose_scene(const std::vector<std::vector<Image>>& cutouts,
                    const std::vector<Image>& backgrounds, KeyedRandom random, int size);

}  // namespace lockstep::apps
