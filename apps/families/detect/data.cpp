#include "families/detect/data.h"

#include <lockstep/error.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "families/detect/model.h"
#include "families/detect/recipe.h"
#include "families/detect/scenes.h"
#include "notes.h"
#include "recipe/family.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;
using vision::BoxSet;

/// What is read, before pictures are looked at.
struct Sets {
  BoxSet train;
  std::vector<std::pair<std::string, BoxSet>> tests;
};

std::string folder_of(const std::string& file) { return fs::path(file).parent_path().string(); }

/// FNV-1a: the same on every machine.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return hash;
}

/// Moves a share of the pictures into a set of their own, by the hash of the file name.
BoxSet held_out(BoxSet& train, double share) {
  constexpr std::uint64_t kParts = 1'000'000;
  BoxSet test{train.classes, train.class_ids, {}};
  const auto goes = [&](const vision::BoxedPicture& picture) {
    const std::uint64_t hash = hash_of(fs::path(picture.path).filename().string());
    return static_cast<double>(hash % kParts) < share * static_cast<double>(kParts);
  };
  const auto first = std::stable_partition(train.pictures.begin(), train.pictures.end(),
                                           [&](const auto& picture) { return !goes(picture); });
  std::move(first, train.pictures.end(), std::back_inserter(test.pictures));
  train.pictures.erase(first, train.pictures.end());
  return test;
}

vision::BoxReading reading(const Recipe& recipe, const std::vector<std::string>& classes = {}) {
  return {.on_bad = own<DetectRecipe>(recipe).refuse_bad ? vision::OnBadBox::refuse
                                                         : vision::OnBadBox::skip,
          .classes = classes,
          .workers = recipe.data.workers};
}

/// Makes the default scenes where they are not there yet.
std::string scenes_folder() {
  const std::string folder = default_scenes();
  if (fs::exists(folder + "/train.json")) return folder;
  StatusLine line;
  if (!line.terminal()) tell_note("makes scenes of cut-outs in " + folder);
  make_scenes({.folder = folder}, [&](std::int64_t done, std::int64_t total) {
    if (line.due())
      line.show("makes scenes " + bar(static_cast<double>(done) / static_cast<double>(total), 20));
  });
  return folder;
}

Sets read_scenes(const Recipe& recipe) {
  const std::string folder = recipe.data.path.empty() ? scenes_folder() : recipe.data.path;
  const auto part = [&](const std::string& name, const std::vector<std::string>& classes) {
    return vision::read_coco(folder + "/" + name + ".json", folder, reading(recipe, classes));
  };
  Sets sets{.train = part("train", {}), .tests = {}};
  for (const std::string name : {"val", "val_seen"})
    if (fs::exists(folder + "/" + name + ".json"))
      sets.tests.emplace_back(name, part(name, sets.train.classes));
  if (sets.tests.empty())
    throw ConfigError("'" + folder +
                      "' has no val.json to evaluate on: make it with `lockstep "
                      "scenes`, or use data.kind=coco.");
  return sets;
}

Sets read_coco_sets(const Recipe& recipe) {
  const auto& its = own<DetectRecipe>(recipe);
  const auto pictures = [](const std::string& given, const std::string& file) {
    return given.empty() ? folder_of(file) : given;
  };
  Sets sets{.train = vision::read_coco(recipe.data.path, pictures(its.pictures, recipe.data.path),
                                       reading(recipe)),
            .tests = {}};
  if (!its.test_path.empty())
    sets.tests.emplace_back(
        "val", vision::read_coco(its.test_path, pictures(its.test_pictures, its.test_path),
                                 reading(recipe, sets.train.classes)));
  return sets;
}

Sets read_voc_sets(const Recipe& recipe) {
  const auto& its = own<DetectRecipe>(recipe);
  Sets sets{.train = vision::read_voc(recipe.data.path, its.list, reading(recipe)), .tests = {}};
  if (!its.test_path.empty() || !its.test_list.empty())
    sets.tests.emplace_back(
        "val", vision::read_voc(its.test_path.empty() ? recipe.data.path : its.test_path,
                                its.test_list, reading(recipe, sets.train.classes)));
  return sets;
}

Sets read_yolo_sets(const Recipe& recipe) {
  Sets sets{.train = vision::read_yolo(recipe.data.path, "train", reading(recipe)), .tests = {}};
  if (vision::yolo_has_split(recipe.data.path, "val"))
    sets.tests.emplace_back(
        "val", vision::read_yolo(recipe.data.path, "val", reading(recipe, sets.train.classes)));
  return sets;
}

Sets read_sets(const Recipe& recipe) {
  if (recipe.data.kind == "scenes") return read_scenes(recipe);
  Sets sets = recipe.data.kind == "coco"  ? read_coco_sets(recipe)
              : recipe.data.kind == "voc" ? read_voc_sets(recipe)
                                          : read_yolo_sets(recipe);
  if (sets.tests.empty())
    sets.tests.emplace_back("val", held_out(sets.train, own<DetectRecipe>(recipe).held_out));
  return sets;
}

void tell(const std::string& name, const BoxSet& set) {
  std::vector<std::int64_t> counts(set.classes.size());
  for (const vision::BoxedPicture& picture : set.pictures)
    for (const vision::LabelledBox& box : picture.boxes)
      ++counts[static_cast<std::size_t>(box.label)];
  constexpr std::size_t kMostNames = 12;
  std::string text = name + ": " + std::to_string(set.pictures.size()) + " pictures, " +
                     std::to_string(set.boxes()) + " boxes";
  for (std::size_t i = 0; i < std::min(counts.size(), kMostNames); ++i)
    text += (i == 0 ? ": " : ", ") + set.classes[i] + " " + std::to_string(counts[i]);
  if (counts.size() > kMostNames)
    text += " and " + std::to_string(counts.size() - kMostNames) + " classes more";
  tell_note(text);
  for (std::size_t kind = 0; kind < vision::kBoxFaultKinds; ++kind)
    if (set.report.counts[kind] > 0)
      tell_note("  " + std::string(vision::about(static_cast<vision::BoxFault>(kind))) + ": " +
                std::to_string(set.report.counts[kind]));
  for (const std::string& example : set.report.examples) tell_note("    " + example);
}

std::shared_ptr<const BoxSet> checked(const std::string& name, BoxSet set, const Recipe& recipe,
                                      bool quiet) {
  {
    StatusLine line;
    const auto all = static_cast<double>(std::max<std::size_t>(set.pictures.size(), 1));
    check_pictures(set, reading(recipe).on_bad, recipe.data.workers, [&](std::int64_t done) {
      if (line.due())
        line.show("looks at the pictures of " + name + " " +
                  bar(static_cast<double>(done) / all, 20));
    });
  }
  if (!quiet) tell(name, set);
  return std::make_shared<const BoxSet>(std::move(set));
}

/// A model that knows other classes would be evaluated, or go on, on labels that mean other things.
void compare_classes(const DetectClasses& now, const JobFiles& files) {
  const auto kept = files.kept.find(kClassesFile);
  if (kept == files.kept.end() || kept->second == text_of(now)) return;
  const auto listed = [](const DetectClasses& classes) {
    std::string text;
    for (const std::string& name : classes.names) text += (text.empty() ? "" : ", ") + name;
    return text;
  };
  throw ConfigError("the checkpoint was trained for the classes " +
                    listed(parse_classes(kept->second, kClassesFile)) + ", and the data has " +
                    listed(now) +
                    ": give the data it was trained for, or begin a new training "
                    "with init.weights.");
}

}  // namespace

std::string text_of(const DetectClasses& classes) {
  std::string text;
  for (std::size_t i = 0; i < classes.names.size(); ++i)
    text += std::to_string(classes.ids[i]) + "\t" + classes.names[i] + "\n";
  return text;
}

DetectClasses parse_classes(const std::string& text, const std::string& where) {
  DetectClasses classes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::int64_t id = 0;
    char tab = 0;
    std::istringstream words(line);
    std::string name;
    if (!(words >> id) || !words.get(tab) || tab != '\t' || !std::getline(words, name))
      throw CorruptFile(where, 0, "lines of a number, a tab and the name of a class");
    classes.ids.push_back(id);
    classes.names.push_back(name);
  }
  return classes;
}

DetectData detect_data(const Recipe& recipe, const JobFiles& files) {
  Sets sets = read_sets(recipe);
  const bool quiet = files.kept.contains(kClassesFile);  // it was said at the first start
  DetectData data{.classes = {sets.train.classes, sets.train.class_ids}, .train = {}, .tests = {}};
  compare_classes(data.classes, files);
  data.train = files.evaluation ? std::make_shared<const BoxSet>(std::move(sets.train))
                                : checked("train", std::move(sets.train), recipe, quiet);
  if (data.train->boxes() == 0 && !files.evaluation)
    throw ConfigError("there is not a single box to train on in the " +
                      std::to_string(data.train->pictures.size()) +
                      " pictures of data.path: check that annotations belong to these pictures.");
  for (auto& [name, set] : sets.tests)
    data.tests.push_back({name, checked(name, std::move(set), recipe, quiet)});
  return data;
}

vision::BoxedPicturesOptions picture_options(const Recipe& recipe, std::size_t classes,
                                             bool training) {
  const auto& its = own<DetectRecipe>(recipe);
  const nn::SsdOptions shape = ssd_options(its, classes);
  const auto on_broken = its.refuse_bad ? vision::OnBroken::refuse
                         : training     ? vision::OnBroken::stand_in
                                        : vision::OnBroken::leave_out;
  return {.size = its.detector.size,
          .augment = training ? box_augment(its.augment) : vision::BoxAugment{},
          .seed = static_cast<std::uint64_t>(recipe.seed),
          .normalisation = normalisation(its.detector.pixels),
          .anchors = vision::make_anchors(nn::anchor_options(shape)),
          .matching = {.overlap = its.loss.match_overlap},
          .on_broken = on_broken,
          .tell = broken_files(training ? "the next picture stands in for it" : "it is left out")};
}

}  // namespace lockstep::apps
