#pragma once

// COCO's JSON, piece by piece: the objects in its lists, as they come, with the lines they are in.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::vision {

enum class CocoList { images, annotations, categories };
inline constexpr std::array<const char*, 3> kCocoLists = {"images", "annotations", "categories"};

enum class CocoField {
  id,
  file_name,
  width,
  height,
  name,
  image_id,
  category_id,
  bbox,
  area,
  iscrowd,
};
inline constexpr std::array<const char*, 10> kCocoFields = {
    "id",       "file_name",   "width", "height", "name",
    "image_id", "category_id", "bbox",  "area",   "iscrowd"};

/// The value of a field.
struct CocoValue {
  enum class Kind { absent, whole, number, text, boolean, numbers, other };
  Kind kind = Kind::absent;  ///< absent: null too
  std::int64_t whole = 0;    ///< of whole: a number without a fraction; of boolean: 0 or 1
  double number = 0;         ///< of whole too
  std::string text = {};
  std::vector<double> numbers = {};  ///< the first of them; see kMostCocoNumbers
  std::int64_t line = 0;
};
inline constexpr std::size_t kMostCocoNumbers = 5;

/// For messages: "missing", "\"seven\"", "a list".
std::string describe(const CocoValue& value);

/// An element of one of the lists.
struct CocoRecord {
  CocoList list = CocoList::images;
  std::int64_t index = 0;  ///< in the list
  std::int64_t line = 0;   ///< where it begins
  bool object = true;      ///< false: a number, a text or a list; then it has no fields
  std::array<CocoValue, kCocoFields.size()> fields = {};

  const CocoValue& operator[](CocoField field) const {
    return fields[static_cast<std::size_t>(field)];
  }
};

/// Calls `sink` with every record, in one pass and without holding the file. Which lists come first
/// is up to the file. Throws IoError; CorruptFile for what is not JSON; ConfigError when one of the
/// lists is missing or is not a list, or as `sink` does.
void read_coco_json(const std::string& path, const std::function<void(const CocoRecord&)>& sink);

}  // namespace lockstep::vision
