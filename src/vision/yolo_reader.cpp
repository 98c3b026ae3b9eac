#include <lockstep/error.h>
#include <lockstep/vision/box_set.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "base/file.h"
#include "vision/box_faults.h"
#include "vision/data_files.h"
#include "vision/picture_headers.h"
#include "vision/yolo_labels.h"
#include "vision/yolo_yaml.h"

namespace lockstep::vision {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostDataYamlBytes = std::uint64_t{16} << 20U;

YoloYaml read_data_yaml(const std::string& path) {
  return parse_yolo_yaml(path, base::read_file(path, kMostDataYamlBytes));
}

/// A picture of a split, and where it is named: a list's line, or the picture itself.
struct YoloItem {
  std::string path, where;
};

/// The pictures of a split.
class YoloSplit {
 public:
  YoloSplit(const std::string& yaml, const YoloYaml& data, const std::string& split)
      : yaml_(yaml), data_(data), split_(split), root_(base::folder_of(yaml)) {}

  std::vector<YoloItem> items() {
    const auto entry = data_.entries.find(split_);
    if (entry == data_.entries.end() || entry->second.texts.empty())
      throw ConfigError(yaml_ + ": no \"" + split_ + "\"; it has to name a folder of pictures");
    set_root();
    for (const std::string& text : entry->second.texts) add(text, entry->second.line);
    if (items_.empty())
      throw ConfigError(where(entry->second.line) + ": " + split_ +
                        ": no pictures there (*.jpg, *.jpeg, *.png)");
    return std::move(items_);
  }

 private:
  std::string where(std::int64_t line) const { return yaml_ + ":" + std::to_string(line); }

  void set_root() {
    const auto path = data_.entries.find("path");
    if (path == data_.entries.end() || path->second.texts.empty()) return;
    root_ /= checked(path->second.texts.front(), where(path->second.line));
    if (!folder_exists(root_.string()))
      throw ConfigError(where(path->second.line) + ": path: no folder " + root_.string() +
                        "; it is relative to the folder of this file");
  }

  void add(const std::string& text, std::int64_t line) {
    std::string path = (root_ / checked(text, where(line))).string();
    // Roboflow writes "../train/images" for what is beside data.yaml.
    if (!path_exists(path) && text.starts_with("../")) {
      const std::string beside = (root_ / text.substr(3)).string();
      if (path_exists(beside)) path = beside;
    }
    if (folder_exists(path)) return add_folder(path);
    if (!file_exists(path))
      throw ConfigError(where(line) + ": " + split_ + ": no folder or list " + path);
    if (has_picture_suffix(path))
      items_.push_back({path, path});
    else
      add_list(path);
  }

  void add_folder(const std::string& folder) {
    const std::size_t before = items_.size();
    try {
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
        if (has_picture_suffix(entry.path().string()) && !entry.is_directory() &&
            entry.path().filename().string().front() != '.')
          items_.push_back({entry.path().string(), entry.path().string()});
    } catch (const fs::filesystem_error& error) {
      throw IoError(folder, "list the folder", error.code().value());
    }
    std::sort(items_.begin() + static_cast<std::ptrdiff_t>(before), items_.end(),
              [](const YoloItem& a, const YoloItem& b) { return a.path < b.path; });
  }

  /// Paths are relative to the list, or to the data set.
  void add_list(const std::string& list) {
    const std::string text = base::read_file(list, kMostListBytes);
    for_each_line(text, [&](std::string_view line, std::int64_t number) {
      if (line.starts_with('#')) return;
      const std::string at = list + ":" + std::to_string(number), name = checked(line, at);
      const std::string beside = (fs::path(base::folder_of(list)) / name).string();
      const std::string in_root = (root_ / name).string();
      items_.push_back({!file_exists(beside) && file_exists(in_root) ? in_root : beside, at});
    });
  }

  static std::string checked(std::string_view path, const std::string& where) {
    if (path.empty() || path.find('\0') != std::string_view::npos)
      throw ConfigError(where + ": not the path of a file");
    return std::string(path);
  }

  const std::string& yaml_;
  const YoloYaml& data_;
  const std::string& split_;
  fs::path root_;
  std::vector<YoloItem> items_;
};

/// .../images/a.jpg has its labels in .../labels/a.txt; one elsewhere has them beside it.
std::string label_file(const std::string& picture) {
  constexpr std::string_view kImages = "/images/", kLabels = "/labels/";
  std::string path = fs::path(picture).replace_extension(".txt").string();
  const std::size_t at = path.rfind(kImages);
  if (at != std::string::npos) path.replace(at, kImages.size(), kLabels);
  return path;
}

/// Of YOLO's classes; -1: not one of the classes that are used.
std::vector<int> used_labels(const std::vector<std::string>& names,
                             const std::vector<std::string>& classes) {
  const std::map<std::string, int> numbers = class_numbers(classes);
  std::vector<int> labels;
  for (const std::string& name : names) {
    const auto found = numbers.find(name);
    labels.push_back(found == numbers.end() ? -1 : found->second);
  }
  return labels;
}

/// Each picture once.
std::vector<YoloItem> without_repeats(std::vector<YoloItem> items, BoxFaults& faults) {
  std::unordered_set<std::string> seen;
  std::vector<YoloItem> once;
  for (YoloItem& item : items) {
    if (seen.insert(item.path).second)
      once.push_back(std::move(item));
    else
      faults.add(BoxFault::twice, item.where, "the picture " + item.path + " again");
  }
  return once;
}

}  // namespace

BoxSet read_yolo(const std::string& yaml, const std::string& split, const BoxReading& how) {
  const YoloYaml data = read_data_yaml(yaml);
  BoxSet set{
      .classes = how.classes.empty() ? data.names : how.classes, .class_ids = {}, .pictures = {}};
  for (std::size_t i = 0; i < set.classes.size(); ++i)
    set.class_ids.push_back(static_cast<std::int64_t>(i) + 1);
  const std::vector<int> labels = used_labels(data.names, set.classes);
  BoxFaults faults(how.on_bad, set.report);
  const auto items = without_repeats(YoloSplit(yaml, data, split).items(), faults);
  std::vector<std::string> paths;
  for (const YoloItem& item : items) paths.push_back(item.path);
  const std::vector<PictureHeader> headers = read_headers(paths, how.workers);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!headers[i].error.empty()) {
      const bool listed = items[i].where != paths[i];
      faults.add(BoxFault::bad_picture, items[i].where,
                 (listed ? paths[i] + ": " : "") + headers[i].error);
      continue;
    }
    const std::string file = label_file(paths[i]);
    const bool has_labels = file_exists(file);
    BoxedPicture picture{.path = paths[i],
                         .id = static_cast<std::int64_t>(set.pictures.size()) + 1,
                         .size = headers[i].size,
                         .where = has_labels ? file : items[i].where};
    if (has_labels)
      parse_yolo_labels(file, base::read_file(file, kMostListBytes), labels, faults, picture);
    set.pictures.push_back(std::move(picture));
  }
  return set;
}

bool yolo_has_split(const std::string& yaml, const std::string& split) {
  const YoloYaml data = read_data_yaml(yaml);
  const auto entry = data.entries.find(split);
  return entry != data.entries.end() && !entry->second.texts.empty();
}

}  // namespace lockstep::vision
