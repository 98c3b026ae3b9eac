#include <lockstep/error.h>
#include <lockstep/vision/box_set.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "base/file.h"
#include "vision/box_faults.h"
#include "vision/data_files.h"
#include "vision/voc_xml.h"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

struct VocFolders {
  fs::path annotations, pictures;
};

VocFolders voc_folders(const fs::path& folder) {
  if (!folder_exists(folder))
    throw ConfigError(folder.string() + ": no such folder; it has to hold pictures and VOC's XML");
  if (folder_exists(folder / "Annotations")) return {folder / "Annotations", folder / "JPEGImages"};
  if (folder_exists(folder / "annotations" / "xmls"))
    return {folder / "annotations" / "xmls", folder / "images"};
  return {folder, folder};
}

/// An item of a set: the name of its files without a suffix, and where it is listed.
struct VocItem {
  std::string name, where;
};

std::vector<VocItem> all_items(const fs::path& annotations) {
  std::vector<VocItem> items;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(annotations))
      if (entry.path().extension() == ".xml" && entry.path().filename().string().front() != '.' &&
          !entry.is_directory())
        items.push_back({entry.path().stem().string(), entry.path().string()});
  } catch (const fs::filesystem_error& error) {
    throw IoError(annotations.string(), "list the folder", error.code().value());
  }
  std::sort(items.begin(), items.end(),
            [](const VocItem& a, const VocItem& b) { return a.name < b.name; });
  if (items.empty())
    throw ConfigError(annotations.string() +
                      ": no *.xml; expected Annotations/ and JPEGImages/, annotations/xmls/ and "
                      "images/, or pictures and XML files side by side");
  return items;
}

std::string list_file(const fs::path& folder, const std::string& list) {
  const fs::path in_sets = folder / "ImageSets" / "Main" / (list + ".txt");
  const fs::path in_annotations = folder / "annotations" / (list + ".txt");
  for (const fs::path& path : {in_sets, in_annotations, folder / list, fs::path(list)})
    if (file_exists(path)) return path.string();
  throw ConfigError(folder.string() + ": no list \"" + list + "\"; looked for " + in_sets.string() +
                    ", " + in_annotations.string() + " and a file " + list);
}

std::vector<VocItem> listed_items(const std::string& path) {
  std::vector<VocItem> items;
  const std::string text = base::read_file(path, kMostListBytes);
  for_each_line(text, [&](std::string_view line, std::int64_t number) {
    if (line.starts_with('#')) return;
    const std::string name(split_words(line).front());
    if (name.find('\0') != std::string::npos)
      throw ConfigError(path + ":" + std::to_string(number) + ": not a name; expected one a line");
    // Some lists have "a.jpg" where VOC's have "a".
    items.push_back({has_picture_suffix(name) ? fs::path(name).replace_extension().string() : name,
                     path + ":" + std::to_string(number)});
  });
  if (items.empty()) throw ConfigError(path + ": the list has no names");
  return items;
}

class VocReader {
 public:
  VocReader(const std::string& folder, const std::string& list, const BoxReading& how)
      : folders_(voc_folders(folder)),
        items_(list.empty() ? all_items(folders_.annotations)
                            : listed_items(list_file(folder, list))),
        how_(how),
        faults_(how.on_bad, set_.report) {
    set_.classes = how.classes;
    numbers_ = class_numbers(set_.classes);
  }

  BoxSet read() {
    for (const VocItem& item : items_) take(item);
    if (how_.classes.empty()) sort_classes();
    for (std::size_t i = 0; i < set_.classes.size(); ++i)
      set_.class_ids.push_back(static_cast<std::int64_t>(i) + 1);
    return std::move(set_);
  }

 private:
  void take(const VocItem& item);
  void add(const VocAnnotation& annotation, const std::string& xml, BoxedPicture picture);
  std::string picture_of(const std::string& filename, const std::string& name) const;
  int number_of(const std::string& name);
  void sort_classes();

  const VocFolders folders_;
  const std::vector<VocItem> items_;
  const BoxReading& how_;
  BoxSet set_;
  BoxFaults faults_;
  std::map<std::string, int> numbers_;  ///< of classes, by name
  std::unordered_set<std::string> items_seen_, pictures_seen_;
};

void VocReader::take(const VocItem& item) {
  if (!items_seen_.insert(item.name).second)
    return faults_.add(BoxFault::twice, item.where, in_quotes(item.name) + " again");
  const fs::path xml = folders_.annotations / (item.name + ".xml");
  if (!file_exists(xml))
    return faults_.add(BoxFault::bad_annotation, item.where,
                       in_quotes(item.name) + " has no annotation: there is no " + xml.string());
  const std::string path = xml.string();
  VocAnnotation annotation;
  if (!parse_voc_xml(path, base::read_file(path, kMostListBytes), faults_, annotation)) return;
  BoxedPicture picture{.path = picture_of(annotation.filename, item.name),
                       .size = annotation.size,
                       .where = path + ":" + std::to_string(annotation.line)};
  if (!pictures_seen_.insert(picture.path).second)
    return faults_.add(BoxFault::twice, picture.where, "the picture " + picture.path + " again");
  add(annotation, path, std::move(picture));
}

void VocReader::add(const VocAnnotation& annotation, const std::string& xml, BoxedPicture picture) {
  PictureBoxes placed;
  for (const VocObject& object : annotation.objects) {
    const int label = number_of(object.name);
    if (label < 0) {
      faults_.add(BoxFault::unknown_class, xml + ":" + std::to_string(object.line),
                  object.field + "/name: " + in_quotes(object.name) +
                      " is not one of the classes that are used");
      continue;
    }
    placed.add({.box = object.box,
                .label = label,
                .difficult = object.difficult,
                .area = object.box.area()},
               {xml, object.line, object.field + "/bndbox"}, faults_, picture);
  }
  picture.id = static_cast<std::int64_t>(set_.pictures.size()) + 1;
  set_.pictures.push_back(std::move(picture));
}

std::string VocReader::picture_of(const std::string& filename, const std::string& name) const {
  const fs::path said = folders_.pictures / filename;
  if (!filename.empty() && file_exists(said)) return said.string();
  for (const char* suffix : {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"})
    if (const fs::path path = folders_.pictures / (name + suffix); file_exists(path))
      return path.string();
  return filename.empty() ? (folders_.pictures / (name + ".jpg")).string() : said.string();
}

/// -1: not one of the given classes.
int VocReader::number_of(const std::string& name) {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  if (!how_.classes.empty()) return -1;
  const int number = static_cast<int>(set_.classes.size());
  set_.classes.push_back(name);
  numbers_.emplace(name, number);
  return number;
}

void VocReader::sort_classes() {
  const std::vector<std::string> found = set_.classes;
  std::sort(set_.classes.begin(), set_.classes.end());
  const std::map<std::string, int> sorted = class_numbers(set_.classes);
  for (BoxedPicture& picture : set_.pictures)
    for (LabelledBox& box : picture.boxes)
      box.label = sorted.at(found[static_cast<std::size_t>(box.label)]);
}

}  // namespace

BoxSet read_voc(const std::string& folder, const std::string& list, const BoxReading& how) {
  return VocReader(folder, list, how).read();
}

}  // namespace lockstep::vision
