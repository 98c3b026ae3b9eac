#include "families/detect/scene_material.h"

#include <lockstep/error.h>
#include <lockstep/random.h>
#include <lockstep/vision/image_file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "families/detect/workers.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSplitSeed = 1;
constexpr int kSeenAlpha = 127;  // alpha from which on a pixel counts
constexpr int kSoftEdge = 2;     // pixels around them that are kept

std::vector<std::uint8_t> content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError(path, "open", errno);
  std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(file)), {});
  if (file.bad()) throw IoError(path, "read", errno);
  return bytes;
}

/// The names in a folder that end in one of `endings`, sorted. Throws if there are not two.
std::vector<std::string> picture_names(const fs::path& folder,
                                       const std::vector<std::string>& endings) {
  std::vector<std::string> names;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (std::ranges::count(endings, entry.path().extension().string()) > 0)
        names.push_back(entry.path().filename());
  if (names.size() < 2)
    throw ConfigError("'" + folder.string() + "' has " + std::to_string(names.size()) +
                      " pictures (" + endings.front() +
                      "), and two are needed: one to train on, one to evaluate on.");
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> class_folders(const fs::path& cutouts) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(cutouts))
    if (entry.is_directory()) names.push_back(entry.path().filename());
  if (names.empty())
    throw ConfigError("'" + cutouts.string() + "' has no folders: one for each class is needed.");
  std::ranges::sort(names);
  return names;
}

/// Without the transparent margin.
Image without_margin(const Image& image, const std::string& path) {
  int left = image.width, top = image.height, right = 0, bottom = 0;
  const auto at = [&](int x, int y) {
    return (static_cast<std::size_t>(y) * static_cast<std::size_t>(image.width) +
            static_cast<std::size_t>(x)) *
           4;
  };
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      if (image.pixels[at(x, y) + 3] > kSeenAlpha) {
        left = std::min(left, x);
        right = std::max(right, x + 1);
        top = std::min(top, y);
        bottom = std::max(bottom, y + 1);
      }
  if (right == 0) throw ConfigError("'" + path + "' is transparent everywhere: take it out.");
  left = std::max(0, left - kSoftEdge);
  top = std::max(0, top - kSoftEdge);
  right = std::min(image.width, right + kSoftEdge);
  bottom = std::min(image.height, bottom + kSoftEdge);
  Image result{right - left, bottom - top, 4, {}};
  for (int y = top; y < bottom; ++y)
    result.pixels.insert(result.pixels.end(), image.pixels.data() + at(left, y),
                         image.pixels.data() + at(right, y));
  return result;
}

/// A picture to read, and where it is to go.
struct ToRead {
  fs::path path;
  Image* image;
  bool cutout;
};

/// Makes room for the pictures of a folder on both sides of the split, and notes where each goes.
void plan_reading(const fs::path& folder, const std::vector<std::string>& names, bool cutouts,
                  std::vector<Image>& seen, std::vector<Image>& unseen,
                  std::vector<ToRead>& to_read) {
  const std::vector<bool> is_unseen = unseen_names(names);
  const auto held = static_cast<std::size_t>(std::ranges::count(is_unseen, true));
  if (held == names.size())
    throw ConfigError("the pictures in '" + folder.string() +
                      "' all show the same thing by their names: '" + names.front() +
                      "'. Two things are needed.");
  unseen.resize(held);
  seen.resize(names.size() - held);
  std::size_t next_seen = 0, next_unseen = 0;
  for (std::size_t i = 0; i < names.size(); ++i)
    to_read.push_back(
        {folder / names[i], is_unseen[i] ? &unseen[next_unseen++] : &seen[next_seen++], cutouts});
}

}  // namespace

std::vector<bool> unseen_names(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < names.size(); ++i)
    groups[names[i].substr(0, names[i].find('.'))].push_back(i);
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [name, members] : groups)
    order.emplace_back(
        combined_seed(kSplitSeed, std::vector<std::int64_t>(name.begin(), name.end())), name);
  std::ranges::sort(order);
  std::vector<bool> unseen(names.size());
  std::size_t count = 0;
  for (const auto& [number, name] : order) {
    if (4 * count >= names.size()) break;
    for (const std::size_t i : groups[name]) unseen[i] = true;
    count += groups[name].size();
  }
  return unseen;
}

SceneMaterial read_scene_material(const std::string& folder, int short_side, int workers) {
  const fs::path cutouts = fs::path(folder) / "cutouts";
  const fs::path backgrounds = fs::path(folder) / "backgrounds";
  if (!fs::is_directory(cutouts) || !fs::is_directory(backgrounds))
    throw ConfigError("there are no pictures to compose scenes of in '" + folder +
                      "': run scripts/setup --scenes (258 MB to fetch), or give a folder with "
                      "cutouts/CLASS/*.png and backgrounds/*.jpg.");
  SceneMaterial material{.classes = class_folders(cutouts), .seen = {}, .unseen = {}};
  std::vector<ToRead> to_read;
  const std::size_t classes = material.classes.size();
  material.seen.cutouts.resize(classes);
  material.unseen.cutouts.resize(classes);
  for (std::size_t i = 0; i < classes; ++i) {
    const fs::path its = cutouts / material.classes[i];
    plan_reading(its, picture_names(its, {".png"}), true, material.seen.cutouts[i],
                 material.unseen.cutouts[i], to_read);
  }
  plan_reading(backgrounds, picture_names(backgrounds, {".jpg", ".jpeg", ".png"}), false,
               material.seen.backgrounds, material.unseen.backgrounds, to_read);
  on_workers(static_cast<std::int64_t>(to_read.size()), workers, [&](std::int64_t i) {
    const ToRead& one = to_read[static_cast<std::size_t>(i)];
    const auto bytes = content_of(one.path);
    *one.image = one.cutout ? without_margin(vision::decode_rgba(one.path, bytes), one.path)
                            : vision::decode_image(one.path, bytes, short_side);
  });
  return material;
}

}  // namespace lockstep::apps
