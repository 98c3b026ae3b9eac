// average_precision_of FILE: prints all numbers of average_precision, for
// tests/oracles/average_precision.py: a line with COCO's twelve, one with VOC's two, and one a
// class. FILE is JSON: {"classes": 2, "pictures": [{"id": 7, "truth": [[left, top, width, height,
// label, crowd, difficult, area], ...], "found": [[left, top, width, height, label, score], ...]}]}

#include <lockstep/vision/average_precision.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace {

using namespace lockstep::vision;
using nlohmann::json;

Box box_of(const json& numbers) { return {numbers[0], numbers[1], numbers[2], numbers[3]}; }

JudgedPicture picture_of(const json& from) {
  JudgedPicture picture = {.id = from["id"]};
  for (const json& thing : from["truth"])
    picture.truth.push_back({.box = box_of(thing),
                             .label = thing[4],
                             .crowd = thing[5],
                             .difficult = thing[6],
                             .area = thing[7]});
  for (const json& detection : from["found"])
    picture.found.push_back(
        {.box = box_of(detection), .label = detection[4], .score = detection[5]});
  return picture;
}

void print(std::initializer_list<double> numbers) {
  for (const double number : numbers) std::printf("%.17g ", number);
  std::printf("\n");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  std::ifstream file(arguments[1]);
  const json set = json::parse(file);
  std::vector<JudgedPicture> pictures;
  for (const json& picture : set["pictures"]) pictures.push_back(picture_of(picture));
  const AveragePrecision result = average_precision(pictures, set["classes"]);
  for (const double number : result.coco) std::printf("%.17g ", number);
  std::printf("\n");
  print({result.voc2007, result.voc2010});
  for (const ClassPrecision& one : result.classes)
    print({one.ap, one.ap50, one.ar100, one.voc2007, one.voc2010, static_cast<double>(one.boxes),
           static_cast<double>(one.pictures), one.precision, one.recall, one.best_score});
  return 0;
}
