// Any bytes as an XML file of VOC's kind: sound boxes, or counted faults. What is read without a
// fault is not refused either.

#include <lockstep/error.h>

#include <string_view>

#include "check_boxes.h"
#include "vision/voc_xml.h"

namespace {

using namespace lockstep::vision;

BoxSet read(std::string_view text, OnBadBox on_bad) {
  BoxSet set{.classes = {"thing"}, .class_ids = {1}, .pictures = {}};
  BoxFaults faults(on_bad, set.report);
  VocAnnotation annotation;
  if (!parse_voc_xml("a.xml", text, faults, annotation)) return set;
  require(annotation.line >= 1);
  BoxedPicture picture{.path = "a.jpg", .id = 1, .size = annotation.size, .where = "a.xml:1"};
  PictureBoxes boxes;
  for (const VocObject& object : annotation.objects) {
    require(!object.name.empty() && !object.field.empty());
    const LabelledBox box{.box = object.box, .area = object.box.area()};
    boxes.add(box, {"a.xml", object.line, object.field}, faults, picture);
  }
  set.pictures.push_back(std::move(picture));
  return set;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const BoxSet set = read(text, OnBadBox::skip);
  check_boxes(set);
  try {
    read(text, OnBadBox::refuse);
    require(set.report.total() == 0);
  } catch (const lockstep::ConfigError&) {
    require(set.report.total() > 0);
  }
  return 0;
}
