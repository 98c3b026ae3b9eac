#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vision/box_faults.h"

namespace lockstep::vision {

/// A thing in an XML file of VOC's kind.
struct VocObject {
  std::string name;
  Box box = {};  ///< 0-based
  bool difficult = false;
  std::int64_t line = 0;
  std::string field;  ///< "object[2]", for messages
};

struct VocAnnotation {
  std::string filename;   ///< empty: it does not say
  ImageSize size = {};    ///< 0 x 0: it does not say
  std::int64_t line = 0;  ///< of the filename, or where the annotation begins
  std::vector<VocObject> objects;
};

/// Reads one file. Objects with a wrong field are left out and counted. False, with one fault, when
/// it is not an annotation at all.
bool parse_voc_xml(const std::string& path, std::string_view text, BoxFaults& faults,
                   VocAnnotation& to);

}  // namespace lockstep::vision
