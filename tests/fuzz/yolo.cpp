// Any bytes as YOLO's labels of a picture: sound boxes, or counted faults; and as data.yaml: names
// and entries, CorruptFile inside the file, or ConfigError.

#include <lockstep/error.h>

#include <set>
#include <string>

#include "check_boxes.h"
#include "vision/yolo_labels.h"
#include "vision/yolo_yaml.h"

namespace {

using namespace lockstep::vision;

/// The second of three classes is not used.
BoxSet read(const std::string& text, OnBadBox on_bad) {
  BoxSet set{.classes = {"cat", "dog"}, .class_ids = {1, 2}, .pictures = {}};
  BoxFaults faults(on_bad, set.report);
  BoxedPicture picture{.path = "a.jpg", .id = 1, .size = {640, 480}, .where = "a.txt"};
  parse_yolo_labels("a.txt", text, {1, -1, 0}, faults, picture);
  set.pictures.push_back(std::move(picture));
  return set;
}

void check_labels(const std::string& text) {
  const BoxSet set = read(text, OnBadBox::skip);
  check_boxes(set);
  try {
    read(text, OnBadBox::refuse);
    require(set.report.total() == 0);
  } catch (const lockstep::ConfigError&) {
    require(set.report.total() > 0);
  }
}

void check_yaml(const std::string& text) {
  try {
    const YoloYaml yaml = parse_yolo_yaml("data.yaml", text);
    const std::set<std::string> names(yaml.names.begin(), yaml.names.end());
    require(!names.empty() && names.size() == yaml.names.size() && !names.contains(""));
    for (const auto& [key, entry] : yaml.entries) require(entry.line >= 1);
  } catch (const lockstep::CorruptFile& error) {
    require(error.path == "data.yaml" && error.offset <= text.size());
  } catch (const lockstep::ConfigError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_labels(text);
  check_yaml(text);
  return 0;
}
