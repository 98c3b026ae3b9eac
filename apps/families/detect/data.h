#pragma once

// The pictures and boxes of a recipe of the family `detect`.

#include <lockstep/vision/boxed_pictures.h>

#include <memory>
#include <string>
#include <vector>

#include "family_program.h"

namespace lockstep::apps {

/// The name of the file with the classes, in checkpoints: a line each, its id, a tab and its name.
inline constexpr const char* kClassesFile = "classes.txt";

struct DetectClasses {
  std::vector<std::string> names;
  std::vector<std::int64_t> ids;  ///< COCO's category ids
};

std::string text_of(const DetectClasses& classes);
/// `where` is for messages. Throws CorruptFile.
DetectClasses parse_classes(const std::string& text, const std::string& where);

struct DetectData {
  struct Test {
    std::string name;  ///< "val"
    std::shared_ptr<const vision::BoxSet> set;
  };

  DetectClasses classes;
  std::shared_ptr<const vision::BoxSet> train;
  std::vector<Test> tests;
};

/// Reads annotations and the headers of all pictures. Says what is there, and what was wrong with
/// it, on the error stream. Throws ConfigError when there is nothing to train on, or when the
/// classes are not those of the checkpoint in `files`.
DetectData detect_data(const Recipe& recipe, const JobFiles& files);

/// Pictures as the recipe's model gets them; with augmentation in training.
vision::BoxedPicturesOptions picture_options(const Recipe& recipe, std::size_t classes,
                                             bool training);

}  // namespace lockstep::apps
