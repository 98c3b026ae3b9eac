// Scenes of drawn things: squares and discs in plain colours.

#include "families/detect/scenes.h"

#include <gtest/gtest.h>
#include <lockstep/error.h>
#include <lockstep/vision/image_file.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "families/detect/scene_composer.h"
#include "families/detect/scene_material.h"
#include "folder.h"

namespace {

using namespace lockstep;
using namespace lockstep::apps;
using tests::Folder;
namespace fs = std::filesystem;

using Colour = std::array<std::uint8_t, 3>;
constexpr Colour kRed = {200, 0, 0}, kGreen = {0, 200, 0}, kBlue = {0, 0, 200}, kBlack = {0, 0, 0};

/// RGBA, with a margin that nothing is in.
Image drawn(Colour colour, int side, int margin, bool disc = false) {
  const int full = side + 2 * margin;
  Image image{full, full, 4, {}};
  for (int y = 0; y < full; ++y)
    for (int x = 0; x < full; ++x) {
      const int dx = 2 * x + 1 - full, dy = 2 * y + 1 - full;
      const bool inside =
          disc ? dx * dx + dy * dy <= side * side : std::max(std::abs(dx), std::abs(dy)) < side;
      image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
      image.pixels.push_back(inside ? 255 : 0);
    }
  return image;
}

Image plain(Colour colour, int width, int height) {
  Image image{width, height, 3, {}};
  for (int i = 0; i < width * height; ++i)
    image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
  return image;
}

void put(const Folder& folder, const std::string& name, const Image& image) {
  const std::string bytes = png(image);
  folder.write(name, {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

/// What is held back is red on blue, the rest green on black.
void put_material(const Folder& folder) {
  const auto names = [](int count) {
    std::vector<std::string> result;
    for (int i = 0; i < count; ++i) result.push_back("thing" + std::to_string(i) + ".png");
    return result;
  };
  const auto things = names(8), backgrounds = names(5);
  for (std::size_t i = 0; i < things.size(); ++i)
    for (const char* kind : {"disc", "square"})
      put(folder, std::string("cutouts/") + kind + "/" + things[i],
          drawn(unseen_names(things)[i] ? kRed : kGreen, 40, 6, kind[0] == 'd'));
  for (std::size_t i = 0; i < backgrounds.size(); ++i)
    put(folder, "backgrounds/" + backgrounds[i],
        plain(unseen_names(backgrounds)[i] ? kBlue : kBlack, 150, 120));
}

SceneOptions small(const Folder& material, const Folder& folder, const std::string& name) {
  return {.material = material.path(),
          .folder = folder.path(name),
          .train = 12,
          .val = 8,
          .val_seen = 4,
          .size = 64};
}

std::vector<std::uint8_t> content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::vector<std::uint8_t>((std::istreambuf_iterator<char>(file)), {});
}

/// Every file under a folder, by its relative path.
std::map<std::string, std::vector<std::uint8_t>> files(const fs::path& folder) {
  std::map<std::string, std::vector<std::uint8_t>> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      found[fs::relative(entry.path(), folder).string()] = content(entry.path());
  return found;
}

/// How many pixels have much of a colour channel.
std::array<int, 3> strong(const Image& image) {
  std::array<int, 3> counts = {};
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    if (image.pixels[i] > 100) ++counts[i % 3];
  return counts;
}

/// Around all pixels that `is` is true of: x, y, width, height, count.
template <typename Is>
std::array<int, 5> bounds(const Image& image, const Is& is) {
  int left = image.width, top = image.height, right = 0, bottom = 0, count = 0;
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      if (is(&image.pixels[3 * static_cast<std::size_t>(y * image.width + x)])) {
        left = std::min(left, x);
        right = std::max(right, x + 1);
        top = std::min(top, y);
        bottom = std::max(bottom, y + 1);
        ++count;
      }
  return {left, top, right - left, bottom - top, count};
}

/// The message of the ConfigError that `action` throws.
template <typename Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

void no_progress(std::int64_t, std::int64_t) {}

TEST(Scenes, BoxesAreAroundExactlyWhatCanBeSeen) {
  const std::vector<std::vector<Image>> cutouts = {
      {drawn(kRed, 40, 0)}, {drawn(kGreen, 60, 0)}, {drawn(kBlue, 50, 0)}};
  const std::vector<Image> backgrounds = {plain(kBlack, 200, 200)};
  int checked = 0, covered = 0;
  for (int number = 0; number < 200; ++number) {
    const Scene scene = compose_scene(cutouts, backgrounds, KeyedRandom(5, 0, number), 120);
    std::multiset<int> labels;
    for (const SceneBox& box : scene.boxes) labels.insert(box.label);
    for (const SceneBox& box : scene.boxes) {
      if (labels.count(box.label) > 1)
        continue;  // which of two red squares a pixel is of is unknown
      const auto seen =
          bounds(scene.image, [&](const std::uint8_t* pixel) { return pixel[box.label] > 100; });
      EXPECT_EQ(seen, (std::array<int, 5>{box.x, box.y, box.width, box.height,
                                          static_cast<int>(box.area)}))
          << "scene " << number << ", class " << box.label;
      ++checked;
      covered += box.area < box.width * box.height ? 1 : 0;
    }
  }
  EXPECT_GT(checked, 150);
  EXPECT_GT(covered, 20) << "some overlap";
}

TEST(Scenes, ASoftEdgeBelongsToTheThingFromHalfOn) {
  const std::vector<std::vector<Image>> cutouts = {{drawn(kRed, 90, 5, /*disc=*/true)}};
  const std::vector<Image> backgrounds = {plain(kBlack, 200, 200)};
  for (int number = 0; number < 50; ++number) {
    const Scene scene = compose_scene(cutouts, backgrounds, KeyedRandom(6, 0, number), 150);
    if (scene.boxes.size() != 1) continue;
    std::uint8_t full = 0;
    for (const std::uint8_t value : scene.image.pixels) full = std::max(full, value);
    const auto seen =
        bounds(scene.image, [&](const std::uint8_t* pixel) { return pixel[0] > full / 2; });
    // A pixel that shows just half of the thing may be rounded to either side.
    EXPECT_NEAR(seen[2], scene.boxes[0].width, 1);
    EXPECT_NEAR(seen[3], scene.boxes[0].height, 1);
  }
}

TEST(Scenes, AtLeastHalfOfEveryThingCanBeSeen) {
  const std::vector<std::vector<Image>> cutouts = {{drawn(kRed, 80, 0)}, {drawn(kGreen, 80, 0)}};
  const std::vector<Image> backgrounds = {plain(kBlack, 200, 200)};
  int most = 0;
  for (int number = 0; number < 300; ++number) {
    const Scene scene = compose_scene(cutouts, backgrounds, KeyedRandom(7, 0, number), 90);
    ASSERT_GE(scene.boxes.size(), 1U);
    most = std::max(most, static_cast<int>(scene.boxes.size()));
    for (const SceneBox& box : scene.boxes) {
      const int side = std::max(box.width, box.height);  // of a square, or less
      EXPECT_GE(2 * box.area, side * side);
      EXPECT_LE(side, 54);
      EXPECT_GE(side, 12);
    }
  }
  EXPECT_EQ(most, 4);
}

TEST(Scenes, EqualOptionsGiveEqualBytesOnAnyNumberOfThreads) {
  Folder material, folder;
  put_material(material);
  SceneOptions options = small(material, folder, "one");
  options.workers = 1;
  make_scenes(options, no_progress);
  options.workers = 3;
  options.folder = folder.path("deeper/three/");
  make_scenes(options, no_progress);
  const auto one = files(folder.path("one"));
  EXPECT_EQ(one.size(), 12U + 8U + 4U + 3U);
  EXPECT_EQ(one, files(folder.path("deeper/three")));
  options.seed = 2;
  options.folder = folder.path("other");
  make_scenes(options, no_progress);
  EXPECT_NE(one.at("train.json"), files(folder.path("other")).at("train.json"));
}

TEST(Scenes, ValHasThingsAndBackgroundsThatTrainHasNot) {
  Folder material, folder;
  put_material(material);
  make_scenes(small(material, folder, "made"), no_progress);
  std::map<std::string, std::array<int, 3>> counts;
  for (const auto& [name, bytes] : files(folder.path("made"))) {
    if (!name.ends_with(".jpg")) continue;
    const auto its = strong(vision::decode_image(name, bytes));
    for (std::size_t c = 0; c < 3; ++c) counts[name.substr(0, name.find('/'))][c] += its[c];
  }
  for (const auto& [set, red, green, blue] : {std::tuple{"train", false, true, false},
                                              {"val", true, false, true},
                                              {"val_seen", false, true, true}}) {
    EXPECT_EQ(counts[set][0] > 0, red) << set;
    EXPECT_EQ(counts[set][1] > 0, green) << set;
    EXPECT_EQ(counts[set][2] > 0, blue) << set;
  }
}

TEST(Scenes, AQuarterOfTheNamesIsUnseenAndGroupsStayTogether) {
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("picture" + std::to_string(i) + ".jpg");
  const auto unseen = unseen_names(names);
  EXPECT_EQ(std::ranges::count(unseen, true), 10);
  // It depends on the names alone: data that was made on another machine is split in the same way.
  std::string first;
  for (std::size_t i = 0; i < 12; ++i) first += unseen[i] ? '1' : '0';
  EXPECT_EQ(first, "100100001000");
  for (int i = 0; i < 20; ++i) names[static_cast<std::size_t>(i)] = "room." + std::to_string(i);
  const auto grouped = unseen_names(names);
  const auto rooms = std::count(grouped.begin(), grouped.begin() + 20, true);
  EXPECT_TRUE(rooms == 0 || rooms == 20) << rooms;
}

TEST(Scenes, AnnotationsAreCocos) {
  Folder material, folder;
  put_material(material);
  const SceneSummary summary = make_scenes(small(material, folder, "made"), no_progress);
  EXPECT_EQ(summary.classes, (std::vector<std::string>{"disc", "square"}));
  for (std::size_t set = 0; set < kSceneSets.size(); ++set) {
    const std::string path = folder.path("made/" + std::string(kSceneSets[set]) + ".json");
    const auto coco = nlohmann::json::parse(std::ifstream(path));
    EXPECT_EQ(coco["categories"].dump(), R"([{"id":1,"name":"disc"},{"id":2,"name":"square"}])");
    std::set<int> ids;
    for (const auto& image : coco["images"]) {
      ids.insert(image["id"].get<int>());
      const auto bytes = content(folder.path("made/" + image["file_name"].get<std::string>()));
      const auto size = vision::image_size("a scene", bytes);
      EXPECT_EQ(size.width, image["width"]);
      EXPECT_EQ(size.height, image["height"]);
    }
    EXPECT_EQ(ids.size(), (std::array{12U, 8U, 4U})[set]);
    std::vector<std::int64_t> boxes(2);
    for (const auto& annotation : coco["annotations"]) {
      ++boxes[annotation["category_id"].get<std::size_t>() - 1];
      EXPECT_EQ(ids.count(annotation["image_id"].get<int>()), 1U);
      const auto box = annotation["bbox"].get<std::vector<int>>();
      EXPECT_TRUE(box[0] >= 0 && box[1] >= 0 && box[2] > 0 && box[3] > 0);
      EXPECT_TRUE(box[0] + box[2] <= 64 && box[1] + box[3] <= 64);
      EXPECT_LE(annotation["area"], box[2] * box[3]);
    }
    EXPECT_EQ(boxes, summary.boxes[set]);
  }
}

TEST(Scenes, WhatIsWrongIsRefusedByName) {
  Folder material, folder;
  SceneOptions options = small(material, folder, "made");
  const auto making = [&] { make_scenes(options, no_progress); };
  EXPECT_NE(refusal(making).find("run scripts/setup --scenes"), std::string::npos);
  put_material(material);
  put(material, "cutouts/void/a.png", drawn(kRed, 20, 2));
  EXPECT_NE(refusal(making).find("cutouts/void' has 1 pictures"), std::string::npos);
  put(material, "cutouts/void/a.2.png", drawn(kRed, 20, 2));
  EXPECT_NE(refusal(making).find("show the same thing by their names: 'a.2.png'"),
            std::string::npos);
  put(material, "cutouts/void/b.png", Image{1, 1, 4, {9, 9, 9, 0}});
  EXPECT_NE(refusal(making).find("b.png' is transparent everywhere"), std::string::npos);
  options.size = 10;
  EXPECT_NE(refusal(making).find("32 to 4096"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Scenes, OnlyScenesAreReplaced) {
  Folder material, folder;
  put_material(material);
  SceneOptions options = small(material, folder, "made");
  const auto making = [&] { make_scenes(options, no_progress); };
  put(folder, "made/holiday.png", plain(kRed, 2, 2));
  EXPECT_NE(refusal(making).find("is there already"), std::string::npos);
  options.replace = true;
  EXPECT_NE(refusal(making).find("does not hold scenes"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder.path("made/holiday.png")));
  options.folder = folder.path("scenes");
  making();
  options.train = 3;
  making();
  EXPECT_FALSE(fs::exists(folder.path("scenes/train/000004.jpg")));
  EXPECT_TRUE(fs::exists(folder.path("scenes/train/000003.jpg")));
}

TEST(Scenes, WhatIsStoppedLeavesNothingBehind) {
  Folder material, folder;
  put_material(material);
  EXPECT_THROW(make_scenes(small(material, folder, "made"),
                           [](std::int64_t, std::int64_t) { throw std::runtime_error("stop"); }),
               std::runtime_error);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  put(material, "cutouts/disc/broken.png", drawn(kRed, 20, 2));
  fs::resize_file(material.path("cutouts/disc/broken.png"), 60);
  EXPECT_THROW(make_scenes(small(material, folder, "made"), no_progress), CorruptFile);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
