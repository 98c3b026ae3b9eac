#pragma once

// What scenes are composed of: cut-outs by class and backgrounds, split in two.

#include <lockstep/image.h>

#include <string>
#include <vector>

namespace lockstep::apps {

struct SceneStock {
  std::vector<std::vector<Image>> cutouts;  ///< of each class: RGBA, cut to what can be seen
  std::vector<Image> backgrounds;           ///< RGB
};

struct SceneMaterial {
  std::vector<std::string> classes;  ///< sorted
  SceneStock seen;                   ///< three quarters of each class: trained on
  SceneStock unseen;                 ///< the others: never trained on
};

/// Reads FOLDER/cutouts/CLASS/*.png and FOLDER/backgrounds/*.jpg (or .jpeg, .png). Backgrounds are
/// decoded with short sides of at least `short_side`, where they have that. Throws ConfigError when
/// the folder lacks something, or what decoding throws.
SceneMaterial read_scene_material(const std::string& folder, int short_side, int workers);

/// Which of the file names are unseen: a quarter, rounded up. Depends on the names alone, so the
/// split stays when scenes are made with another seed. Names that are equal up to the first dot are
/// pictures of the same thing, and stay together.
std::vector<bool> unseen_names(const std::vector<std::string>& names);

}  // namespace lockstep::apps
