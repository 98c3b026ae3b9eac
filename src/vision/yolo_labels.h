#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "vision/box_faults.h"

namespace lockstep::vision {

/// The lines of a label file, as boxes of `picture`, whose size is known: class, centre x, centre
/// y, width and height as parts of the picture. `labels` are those of YOLO's classes; -1: not one
/// of the classes that are used.
void parse_yolo_labels(const std::string& path, std::string_view text,
                       const std::vector<int>& labels, BoxFaults& faults, BoxedPicture& picture);

}  // namespace lockstep::vision
