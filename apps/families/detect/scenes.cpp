#include "families/detect/scenes.h"

#include <fcntl.h>
#include <lockstep/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "families/detect/scene_composer.h"
#include "families/detect/scene_material.h"
#include "families/detect/workers.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;
using SceneRecord = nlohmann::ordered_json;

constexpr int kQuality = 90;
constexpr int kLeastSize = 32, kMostSize = 4096;

void write_scene_file(const fs::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  if (!file) throw IoError(path, "open", errno);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) throw IoError(path, "write", errno);
}

/// A folder beside the one that is to be made: `final`.new, or .new2 and so on where there is one.
/// It is removed unless it is committed.
class SceneFolder {
 public:
  explicit SceneFolder(const fs::path& final) : final_(final) {
    std::error_code error;
    fs::create_directories(fs::absolute(final_).parent_path(), error);
    for (int i = 1;; ++i) {
      path_ = final_.string() + ".new" + (i == 1 ? "" : std::to_string(i));
      if (fs::create_directory(path_, error)) break;
      if (error) throw IoError(path_, "make", error.value());
    }
  }
  ~SceneFolder() {
    std::error_code ignored;
    if (!committed_) fs::remove_all(path_, ignored);
  }
  SceneFolder(const SceneFolder&) = delete;
  SceneFolder& operator=(const SceneFolder&) = delete;

  const fs::path& path() const { return path_; }

  /// Gives the folder its name when all of it is on the disk.
  void commit(bool replace) {
    if (const int handle = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC); handle >= 0) {
      ::syncfs(handle);
      ::close(handle);
    }
    if (replace) fs::remove_all(final_);
    std::error_code error;
    fs::rename(path_, final_, error);
    committed_ = !error;
    if (error && !fs::is_directory(final_)) throw IoError(final_, "rename to", error.value());
  }

 private:
  const fs::path final_;
  fs::path path_;
  bool committed_ = false;
};

/// The name in the annotations: "train/000001.jpg".
std::string picture_name(std::size_t set, std::int64_t number) {
  char name[64];
  std::snprintf(name, sizeof name, "%s/%06lld.jpg", kSceneSets[set],
                static_cast<long long>(number + 1));
  return name;
}

/// "key": [...], a record a line.
std::string record_list(const std::string& key, const std::vector<SceneRecord>& records) {
  std::string text = "\"" + key + "\": [";
  for (std::size_t i = 0; i < records.size(); ++i)
    text += (i == 0 ? "\n" : ",\n") + records[i].dump();
  return text + "\n]";
}

/// COCO's annotations of a set.
std::string coco_text(std::size_t set, int size, const std::vector<std::string>& classes,
                      const std::vector<std::vector<SceneBox>>& boxes) {
  std::vector<SceneRecord> images, annotations, categories;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    images.push_back({{"id", i + 1},
                      {"file_name", picture_name(set, static_cast<std::int64_t>(i))},
                      {"width", size},
                      {"height", size}});
    for (const SceneBox& box : boxes[i])
      annotations.push_back({{"id", annotations.size() + 1},
                             {"image_id", i + 1},
                             {"category_id", box.label + 1},
                             {"bbox", {box.x, box.y, box.width, box.height}},
                             {"area", box.area},
                             {"iscrowd", 0}});
  }
  for (std::size_t i = 0; i < classes.size(); ++i)
    categories.push_back({{"id", i + 1}, {"name", classes[i]}});
  return "{" + record_list("images", images) + ",\n" + record_list("annotations", annotations) +
         ",\n" + record_list("categories", categories) + "}\n";
}

void check_scene_options(const SceneOptions& options, const fs::path& folder) {
  const auto refuse = [](const std::string& what) { throw ConfigError(what); };
  if (folder.empty()) refuse("scenes need a folder to be made in.");
  if (options.train < 1 || options.val < 1 || options.val_seen < 0)
    refuse("scenes to train on and to evaluate on are needed: at least one each.");
  if (options.size < kLeastSize || options.size > kMostSize)
    refuse("scenes of " + std::to_string(options.size) + " pixels were asked for: take " +
           std::to_string(kLeastSize) + " to " + std::to_string(kMostSize) + ".");
  if (!fs::exists(folder)) return;
  if (!options.replace) refuse("'" + folder.string() + "' is there already.");
  if (!fs::exists(folder / "train.json") || !fs::exists(folder / "val.json"))
    refuse("'" + folder.string() + "' does not hold scenes, so it is not replaced.");
}

fs::path set_up_folder(const std::string& name) { return fs::path(LOCKSTEP_SCENES) / name; }

/// Without a slash at the end, which rename and .new would stumble over.
fs::path tidy_folder(const std::string& given) {
  const fs::path folder = fs::path(given).lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();
}

/// Makes all pictures, and returns the boxes of each set.
using SceneBoxes = std::array<std::vector<std::vector<SceneBox>>, kSceneSets.size()>;
SceneBoxes make_pictures(const SceneOptions& options, const SceneMaterial& material,
                         const fs::path& folder,
                         const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const std::array counts = {options.train, options.val, options.val_seen};
  SceneBoxes boxes;
  std::vector<std::pair<std::size_t, std::int64_t>> scenes;
  for (std::size_t set = 0; set < counts.size(); ++set) {
    fs::create_directory(folder / kSceneSets[set]);
    boxes[set].resize(static_cast<std::size_t>(counts[set]));
    for (std::int64_t i = 0; i < counts[set]; ++i) scenes.emplace_back(set, i);
  }
  const auto total = static_cast<std::int64_t>(scenes.size());
  on_workers(
      total, options.workers,
      [&](std::int64_t i) {
        const auto [set, number] = scenes[static_cast<std::size_t>(i)];
        Scene scene = compose_scene(
            (set == 1 ? material.unseen : material.seen).cutouts,
            (set == 0 ? material.seen : material.unseen).backgrounds,
            KeyedRandom(options.seed, static_cast<std::int64_t>(set), number), options.size);
        write_scene_file(folder / picture_name(set, number), jpeg(scene.image, kQuality));
        boxes[set][static_cast<std::size_t>(number)] = std::move(scene.boxes);
      },
      [&](std::int64_t done) {
        if (progress) progress(done, total);
      });
  return boxes;
}

}  // namespace

SceneSummary make_scenes(
    const SceneOptions& options,
    const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
  const fs::path folder = tidy_folder(options.folder);
  check_scene_options(options, folder);
  const fs::path from =
      options.material.empty() ? set_up_folder("material") : fs::path(options.material);
  const SceneMaterial material = read_scene_material(from, 2 * options.size, options.workers);
  SceneFolder made(folder);
  const SceneBoxes boxes = make_pictures(options, material, made.path(), progress);
  SceneSummary summary{.classes = material.classes, .boxes = {}};
  for (std::size_t set = 0; set < kSceneSets.size(); ++set) {
    write_scene_file(made.path() / (std::string(kSceneSets[set]) + ".json"),
                     coco_text(set, options.size, material.classes, boxes[set]));
    summary.boxes[set].resize(material.classes.size());
    for (const auto& its : boxes[set])
      for (const SceneBox& box : its) ++summary.boxes[set][static_cast<std::size_t>(box.label)];
  }
  if (fs::exists(from / "LICENSES.txt"))
    fs::copy_file(from / "LICENSES.txt", made.path() / "LICENSES.txt");
  made.commit(options.replace);
  return summary;
}

std::string default_scenes() { return set_up_folder("made").string(); }

}  // namespace lockstep::apps
