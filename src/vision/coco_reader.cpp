#include <lockstep/error.h>
#include <lockstep/vision/box_set.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "vision/box_faults.h"
#include "vision/coco_json.h"

namespace lockstep::vision {
namespace {

constexpr double kMostArea = 1e18;

/// A box before its picture and its class are known: those may come later in the file.
struct CocoBox {
  std::int64_t picture = 0, category = 0, index = 0, line = 0;
  LabelledBox box = {};
};

struct CocoCategory {
  std::int64_t id = 0, line = 0, index = 0;
  std::string name;
};

class CocoReader {
 public:
  CocoReader(const std::string& path, const std::string& folder, const BoxReading& how)
      : path_(path), folder_(folder), how_(how), faults_(how.on_bad, set_.report) {}

  BoxSet read() {
    read_coco_json(path_, [this](const CocoRecord& record) { take(record); });
    name_classes();
    place_boxes();
    std::sort(set_.pictures.begin(), set_.pictures.end(),
              [](const BoxedPicture& a, const BoxedPicture& b) { return a.id < b.id; });
    return std::move(set_);
  }

 private:
  using Kind = CocoValue::Kind;

  void take(const CocoRecord& record);
  void take_picture(const CocoRecord& record);
  void take_box(const CocoRecord& record);
  void take_category(const CocoRecord& record);
  void name_classes();
  void use_given_classes();
  void place_boxes();

  std::string where(std::int64_t line) const { return path_ + ":" + std::to_string(line); }
  static std::string element(const char* list, std::int64_t index) {
    return std::string(list) + "[" + std::to_string(index) + "]";
  }

  /// Counts a fault at a field, or at its record where the field is missing.
  void fail(BoxFault fault, const CocoRecord& record, CocoField field, const std::string& what) {
    const CocoValue& value = record[field];
    faults_.add(fault, where(value.line > 0 ? value.line : record.line),
                element(kCocoLists[static_cast<std::size_t>(record.list)], record.index) + "." +
                    kCocoFields[static_cast<std::size_t>(field)] + ": " + what);
  }

  /// Nothing, after a fault, where the field is not such a value.
  std::optional<std::int64_t> whole(const CocoRecord& record, CocoField field) {
    if (record[field].kind == Kind::whole) return record[field].whole;
    fail(BoxFault::bad_annotation, record, field,
         describe(record[field]) + ", expected a whole number");
    return std::nullopt;
  }
  std::optional<std::string> text(const CocoRecord& record, CocoField field) {
    const std::string& found = record[field].text;
    if (!found.empty() && found.find('\0') == std::string::npos) return found;
    fail(BoxFault::bad_annotation, record, field, describe(record[field]) + ", expected a name");
    return std::nullopt;
  }
  int side(const CocoRecord& record, CocoField field);
  std::optional<Box> box(const CocoRecord& record);
  bool set_crowd(const CocoRecord& record, LabelledBox& to);
  bool set_area(const CocoRecord& record, LabelledBox& to);

  const std::string& path_;
  const std::filesystem::path folder_;
  const BoxReading& how_;
  BoxSet set_;
  BoxFaults faults_;

  std::vector<CocoBox> boxes_;
  std::vector<CocoCategory> categories_;
  std::unordered_map<std::int64_t, std::size_t> by_id_;  ///< in set_.pictures
  std::unordered_set<std::string> file_names_;
  std::unordered_map<std::int64_t, int> labels_;  ///< by category; -1: not one of the given classes
};

void CocoReader::take(const CocoRecord& record) {
  if (!record.object)
    return faults_.add(BoxFault::bad_annotation, where(record.line),
                       element(kCocoLists[static_cast<std::size_t>(record.list)], record.index) +
                           ": not an object");
  switch (record.list) {
    case CocoList::images:
      return take_picture(record);
    case CocoList::annotations:
      return take_box(record);
    case CocoList::categories:
      return take_category(record);
  }
}

/// 0 where the file does not say.
int CocoReader::side(const CocoRecord& record, CocoField field) {
  const CocoValue& value = record[field];
  if (value.kind == Kind::absent) return 0;
  if (value.kind == Kind::whole && value.whole >= 0 && value.whole <= kMostPixels)
    return static_cast<int>(value.whole);
  fail(BoxFault::other_size, record, field, describe(value) + " is not the size of a picture");
  return 0;
}

void CocoReader::take_picture(const CocoRecord& record) {
  const auto id = whole(record, CocoField::id);
  if (!id) return;
  auto name = text(record, CocoField::file_name);
  if (!name) return;
  if (by_id_.contains(*id))
    return fail(BoxFault::twice, record, CocoField::id,
                std::to_string(*id) + ", which another picture has");
  if (!file_names_.insert(*name).second)
    return fail(BoxFault::twice, record, CocoField::file_name,
                in_quotes(*name) + ", which another picture has");
  ImageSize size = {side(record, CocoField::width), side(record, CocoField::height)};
  if (size.width == 0 || size.height == 0) size = {};
  by_id_.emplace(*id, set_.pictures.size());
  set_.pictures.push_back(
      {.path = (folder_ / *name).string(), .id = *id, .size = size, .where = where(record.line)});
}

std::optional<Box> CocoReader::box(const CocoRecord& record) {
  const CocoValue& value = record[CocoField::bbox];
  if (value.kind == Kind::numbers && value.numbers.size() == 4)
    return Box{value.numbers[0], value.numbers[1], value.numbers[2], value.numbers[3]};
  fail(BoxFault::bad_annotation, record, CocoField::bbox,
       describe(value) + ", expected [x, y, width, height]");
  return std::nullopt;
}

bool CocoReader::set_crowd(const CocoRecord& record, LabelledBox& to) {
  const CocoValue& value = record[CocoField::iscrowd];
  to.crowd = value.whole == 1;
  const bool one_or_none = value.whole == 0 || value.whole == 1;
  if (value.kind == Kind::absent || value.kind == Kind::boolean ||
      (value.kind == Kind::whole && one_or_none))
    return true;
  fail(BoxFault::bad_annotation, record, CocoField::iscrowd, describe(value) + ", expected 0 or 1");
  return false;
}

bool CocoReader::set_area(const CocoRecord& record, LabelledBox& to) {
  const CocoValue& value = record[CocoField::area];
  to.area = value.kind == Kind::absent ? to.box.area() : value.number;
  if (value.kind == Kind::absent || ((value.kind == Kind::whole || value.kind == Kind::number) &&
                                     value.number >= 0 && value.number <= kMostArea))
    return true;
  fail(BoxFault::bad_annotation, record, CocoField::area,
       describe(value) + ", expected a number of pixels");
  return false;
}

void CocoReader::take_box(const CocoRecord& record) {
  const auto picture = whole(record, CocoField::image_id);
  if (!picture) return;
  const auto category = whole(record, CocoField::category_id);
  if (!category) return;
  const auto found = box(record);
  if (!found) return;
  CocoBox taken{*picture, *category, record.index, record[CocoField::bbox].line, {.box = *found}};
  if (!set_crowd(record, taken.box) || !set_area(record, taken.box)) return;
  boxes_.push_back(taken);
}

void CocoReader::take_category(const CocoRecord& record) {
  const auto id = whole(record, CocoField::id);
  if (!id) return;
  auto name = text(record, CocoField::name);
  if (!name) return;
  categories_.push_back({*id, record.line, record.index, std::move(*name)});
}

/// A name that two categories have is one class, with the id of the first.
void CocoReader::name_classes() {
  std::stable_sort(categories_.begin(), categories_.end(),
                   [](const CocoCategory& a, const CocoCategory& b) { return a.id < b.id; });
  std::unordered_map<std::string, int> numbers;
  std::int64_t before = 0;
  for (const CocoCategory& category : categories_) {
    const std::string at = where(category.line), name = element("categories", category.index);
    if (!labels_.empty() && category.id == before) {
      faults_.add(BoxFault::twice, at, name + ".id: " + std::to_string(before) + " again");
      continue;
    }
    before = category.id;
    const auto [number, is_new] =
        numbers.emplace(category.name, static_cast<int>(set_.classes.size()));
    labels_.emplace(category.id, number->second);
    if (!is_new) {
      faults_.add(BoxFault::twice, at, name + ".name: " + in_quotes(category.name) + " again",
                  "joined with the first");
      continue;
    }
    set_.classes.push_back(category.name);
    set_.class_ids.push_back(category.id);
  }
  if (!how_.classes.empty()) use_given_classes();
  if (set_.classes.empty())
    throw ConfigError(path_ + ": \"categories\" names no class; each has an id and a name");
}

void CocoReader::use_given_classes() {
  const std::map<std::string, int> given = class_numbers(how_.classes);
  std::vector<std::int64_t> ids(how_.classes.size(), 0);
  std::vector<bool> named(how_.classes.size(), false);
  std::vector<int> numbers;
  for (std::size_t i = 0; i < set_.classes.size(); ++i) {
    const auto found = given.find(set_.classes[i]);
    numbers.push_back(found == given.end() ? -1 : found->second);
    if (found == given.end()) continue;
    ids[static_cast<std::size_t>(found->second)] = set_.class_ids[i];
    named[static_cast<std::size_t>(found->second)] = true;
  }
  for (auto& [id, label] : labels_) label = numbers[static_cast<std::size_t>(label)];
  std::int64_t next = set_.class_ids.empty() ? 1 : set_.class_ids.back() + 1;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (!named[i]) ids[i] = next++;
  set_.classes = how_.classes;
  set_.class_ids = std::move(ids);
}

void CocoReader::place_boxes() {
  std::vector<PictureBoxes> placed(set_.pictures.size());
  for (CocoBox& each : boxes_) {
    const std::string name = element("annotations", each.index);
    const auto picture = by_id_.find(each.picture);
    if (picture == by_id_.end()) {
      faults_.add(BoxFault::no_picture, where(each.line),
                  name + ".image_id: " + std::to_string(each.picture) + " is not in \"images\"");
      continue;
    }
    const auto label = labels_.find(each.category);
    if (label == labels_.end() || label->second < 0) {
      faults_.add(BoxFault::unknown_class, where(each.line),
                  name + ".category_id: " + std::to_string(each.category) +
                      (label == labels_.end() ? " is not in \"categories\""
                                              : " is not one of the classes that are used"));
      continue;
    }
    each.box.label = label->second;
    placed[picture->second].add(each.box, {path_, each.line, name + ".bbox"}, faults_,
                                set_.pictures[picture->second]);
  }
}

}  // namespace

BoxSet read_coco(const std::string& annotations, const std::string& pictures,
                 const BoxReading& how) {
  return CocoReader(annotations, pictures, how).read();
}

}  // namespace lockstep::vision
