#pragma once

#include <lockstep/vision/image_file.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::vision {

struct PictureHeader {
  ImageSize size = {};     ///< upright
  std::string error = {};  ///< why the picture cannot be read, without its path; empty: it can
};

/// The headers of pictures, in their order, read on `workers` threads: of each file the beginning
/// only, unless its header is longer. `progress`, if there is one, is called on the calling thread
/// with the pictures done so far, a few times a second and at the end; what it throws ends the
/// reading.
std::vector<PictureHeader> read_headers(const std::vector<std::string>& paths, int workers,
                                        const std::function<void(std::int64_t)>& progress = {});

}  // namespace lockstep::vision
