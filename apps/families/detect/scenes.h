#pragma once

// Data to train a detector on, made of photographed things and backgrounds.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::apps {

struct SceneOptions {
  std::string material = {};  ///< cutouts/CLASS/*.png and backgrounds/*.jpg; empty: set-up's
  std::string folder = {};    ///< what is made; there must be nothing of that name yet
  bool replace = false;       ///< if there is, and it was made by make_scenes, replace it
  int train = 2000;           ///< pictures
  int val = 500;              ///< pictures, of things and backgrounds that train has not
  int val_seen = 200;         ///< pictures, of train's things on backgrounds that train has not
  int size = 300;             ///< width and height of a picture
  std::uint64_t seed = 1;
  int workers = 2;  ///< threads
};

/// The sets that are made.
inline constexpr std::array<const char*, 3> kSceneSets = {"train", "val", "val_seen"};

struct SceneSummary {
  std::vector<std::string> classes;
  std::array<std::vector<std::int64_t>, kSceneSets.size()> boxes;  ///< of each set, by class
};

/// Makes folder/SET/*.jpg and folder/SET.json, COCO's format, whose file names are relative to the
/// folder. A scene depends on the material, the seed, its set and its number: equal options give
/// equal bytes. The folder appears whole or not at all; where another process was faster, its
/// folder stays. `progress` is called on this thread, and may throw to end it. Throws ConfigError,
/// IoError, or CorruptFile for a picture that cannot be read.
SceneSummary make_scenes(
    const SceneOptions& options,
    const std::function<void(std::int64_t done, std::int64_t total)>& progress);

/// Where the default scenes are, once they are made.
std::string default_scenes();

}  // namespace lockstep::apps
