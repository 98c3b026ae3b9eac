#include "vision/box_faults.h"

#include <lockstep/error.h>

#include <charconv>
#include <cmath>
#include <numeric>

#include "base/utf8.h"

namespace lockstep::vision {
namespace {

constexpr std::size_t kMostBoxExamples = 8;
constexpr std::int64_t kMostExamplesOfAKind = 3;
constexpr std::size_t kMostQuotedBytes = 80;

/// What an example says in the end.
const char* consequence(BoxFault fault) {
  switch (fault) {
    case BoxFault::beyond:
      return "cut";
    case BoxFault::other_size:
      return "boxes kept";
    default:
      return "left out";
  }
}

bool is_coordinate(double number) {
  return std::isfinite(number) && std::abs(number) <= kMostCoordinate;
}

}  // namespace

const char* about(BoxFault fault) {
  switch (fault) {
    case BoxFault::no_picture:
      return "annotations of pictures that the set does not have, left out";
    case BoxFault::bad_picture:
      return "pictures that cannot be read, left out";
    case BoxFault::twice:
      return "pictures, classes or boxes that are there twice, left out once";
    case BoxFault::bad_annotation:
      return "annotations with a missing or wrong field, left out";
    case BoxFault::unknown_class:
      return "boxes of an unknown class, left out";
    case BoxFault::no_area:
      return "boxes without area, left out";
    case BoxFault::outside:
      return "boxes outside of their picture, left out";
    case BoxFault::beyond:
      return "boxes that reach beyond their picture, cut";
    case BoxFault::other_size:
      return "pictures of another size than their annotation says, kept";
  }
  return "other faults";
}

std::int64_t BoxReport::total() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::int64_t BoxSet::boxes() const {
  std::int64_t total = 0;
  for (const BoxedPicture& picture : pictures)
    total += static_cast<std::int64_t>(picture.boxes.size());
  return total;
}

void BoxFaults::add(BoxFault fault, const std::string& where, const std::string& what,
                    const char* done) {
  const std::string text = where + ": " + what;
  if (on_bad_ == OnBadBox::refuse)
    throw ConfigError(text + "; correct it, or let what is wrong be left out and counted");
  const std::int64_t count = ++report_.counts[static_cast<std::size_t>(fault)];
  if (count <= kMostExamplesOfAKind && report_.examples.size() < kMostBoxExamples)
    report_.examples.push_back(text + ", " + (done ? done : consequence(fault)));
}

std::string BoxPlace::where() const { return std::string(file) + ":" + std::to_string(line); }

void PictureBoxes::add(const LabelledBox& box, const BoxPlace& place, BoxFaults& faults,
                       BoxedPicture& to) {
  const Box& at = box.box;
  const auto fail = [&](BoxFault fault, const std::string& what) {
    const std::string field(place.field);
    faults.add(fault, place.where(), field.empty() ? what : field + ": " + what);
  };
  for (const double number : {at.left, at.top, at.width, at.height})
    if (!is_coordinate(number))
      return fail(BoxFault::bad_annotation, number_text(number) + " is not a place in a picture");
  if (!(at.width > 0)) return fail(BoxFault::no_area, "a box of width " + number_text(at.width));
  if (!(at.height > 0)) return fail(BoxFault::no_area, "a box of height " + number_text(at.height));
  const Key key = {static_cast<double>(box.label), at.left, at.top, at.width, at.height};
  if (!seen_.insert(key).second)
    return fail(BoxFault::twice, "the same box as one before it in this picture");
  to.boxes.push_back(box);
  to.lines.push_back(place.line);
}

std::map<std::string, int> class_numbers(const std::vector<std::string>& classes) {
  std::map<std::string, int> numbers;
  for (std::size_t i = 0; i < classes.size(); ++i) numbers.emplace(classes[i], static_cast<int>(i));
  return numbers;
}

std::string number_text(double number) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

std::string in_quotes(std::string_view text) {
  const bool whole = text.size() <= kMostQuotedBytes;
  const std::string shown = base::valid_utf8(text.substr(0, kMostQuotedBytes));
  return "\"" + shown + (whole ? "\"" : "...\"");
}

}  // namespace lockstep::vision
