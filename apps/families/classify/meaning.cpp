#include "families/classify/meaning.h"

#include <lockstep/error.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "recipe/words.h"

namespace lockstep::apps {
namespace {

using Json = nlohmann::ordered_json;
using ClassNames = std::vector<std::string>;

/// "only there: cat, cow and 3 more; ", or nothing.
std::string only(const ClassNames& in_one, const ClassNames& in_other, const std::string& where) {
  constexpr std::size_t kShown = 10;
  ClassNames names;
  for (const std::string& name : in_one)
    if (std::ranges::find(in_other, name) == in_other.end()) names.push_back(name);
  if (names.empty()) return "";
  const std::size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  return "only in " + where + ": " + listed(names) +
         (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

}  // namespace

std::string text_of(const ImageMeaning& meaning) {
  return Json{{"classes", meaning.classes},
              {"channels", meaning.channels},
              {"mean", meaning.normalisation.mean},
              {"deviation", meaning.normalisation.deviation}}
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

ImageMeaning parse_meaning(const std::string& text, const std::string& where) {
  try {
    const Json json = Json::parse(text);
    return {.classes = json.at("classes").get<ClassNames>(),
            .channels = json.at("channels").get<int>(),
            .normalisation = {.mean = json.at("mean").get<std::vector<double>>(),
                              .deviation = json.at("deviation").get<std::vector<double>>()}};
  } catch (const Json::exception& problem) {
    throw CorruptFile(
        where, 0,
        std::string("classes, channels, mean and deviation as JSON (") + problem.what() + ")");
  }
}

std::string class_differences(const ClassNames& in_a, const ClassNames& in_b, const std::string& a,
                              const std::string& b) {
  const std::string first = only(in_a, in_b, a), second = only(in_b, in_a, b);
  if (first.empty() && second.empty()) return "the same classes in another order";
  return first + (first.empty() || second.empty() ? "" : "; ") + second;
}

void compare_meaning(const ImageMeaning& now, const std::map<std::string, std::string>& kept) {
  const auto file = kept.find(kImagesFile);
  if (file == kept.end()) return;
  const ImageMeaning then = parse_meaning(file->second, kImagesFile);
  if (text_of(now) == file->second) return;
  const bool classes = then.classes != now.classes;
  throw ConfigError(
      classes ? "the checkpoint was trained for other classes than the data has (" +
                    class_differences(then.classes, now.classes, "the checkpoint", "the data") +
                    "): give the data it was trained for, or begin a new training with "
                    "init.weights."
              : "the checkpoint was trained on images of another kind (channels or normalisation): "
                "give the data it was trained for, or begin a new training with init.weights.");
}

}  // namespace lockstep::apps
