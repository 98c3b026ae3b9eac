#pragma once

// What the numbers that a classifier takes and gives mean: a file of each of its checkpoints.

#include <lockstep/vision/augment.h>

#include <map>
#include <string>
#include <vector>

namespace lockstep::apps {

inline constexpr const char* kImagesFile = "images.json";

struct ImageMeaning {
  std::vector<std::string> classes = {};  ///< by label
  int channels = 3;
  vision::Normalisation normalisation = {};
};

std::string text_of(const ImageMeaning& meaning);

/// Throws CorruptFile, at `where`.
ImageMeaning parse_meaning(const std::string& text, const std::string& where);

/// "only a: cat, cow; only b: dog": what of two lists of classes differs; `a` and `b` are where
/// they are from.
std::string class_differences(const std::vector<std::string>& in_a,
                              const std::vector<std::string>& in_b, const std::string& a,
                              const std::string& b);

/// Throws ConfigError when the data has other classes than a checkpoint's files: labels would mean
/// other things to the model.
void compare_meaning(const ImageMeaning& now, const std::map<std::string, std::string>& kept);

}  // namespace lockstep::apps
