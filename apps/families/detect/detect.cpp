// `lockstep detect`: finds things in pictures with a trained detector.

#include <lockstep/error.h>
#include <lockstep/input.h>
#include <lockstep/vision/box_pictures.h>
#include <lockstep/vision/image_file.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "exit_codes.h"
#include "families/detect/detector.h"
#include "families/detect/family_commands.h"
#include "flag_checks.h"
#include "picture_files.h"
#include "run_folder.h"
#include "signals.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

struct DetectFlags {
  DetectorFlags detector;
  std::vector<std::string> pictures;
  std::string out;
  std::string json;
  bool yolo = false;
  bool plain = false;
};

/// A picture on its way to the model.
struct LoadedPicture {
  std::string path = {};
  std::string problem = {};  ///< why it could not be read; empty: it was
  Image picture = {};
  torch::Tensor input = {};
};

/// A source of the pictures in a list of files.
struct PictureList {
  std::vector<std::string> files;
  const Detector* detector;

  std::int64_t size() const { return static_cast<std::int64_t>(files.size()); }

  LoadedPicture at(std::int64_t, std::int64_t index) const {
    LoadedPicture loaded{.path = files[static_cast<std::size_t>(index)]};
    try {
      loaded.picture = vision::decode_image(loaded.path, read_picture(loaded.path));
      loaded.input = detector->seen(loaded.picture);
    } catch (const std::runtime_error& problem) {
      loaded.problem = problem.what();
    }
    return loaded;
  }
};

/// Where results go: pictures and texts in a folder, one JSON file for all.
class Results {
 public:
  Results(const DetectFlags& flags, const DetectClasses& classes)
      : flags_(flags), classes_(classes), all_(nlohmann::ordered_json::array()) {
    if (!flags.out.empty()) fs::create_directories(flags.out);
    if (flags.yolo) fs::create_directories(flags.out + "/labels");
  }

  void add(LoadedPicture& loaded, const std::vector<vision::Detection>& found) {
    ++number_;
    things_ += static_cast<std::int64_t>(found.size());
    const std::string name = name_for(loaded.path);
    add_json(loaded.path, found);
    if (flags_.yolo) write_file(flags_.out + "/labels/" + name + ".txt", yolo(loaded, found));
    if (flags_.out.empty() || flags_.plain) return;
    vision::draw_boxes(loaded.picture, vision::drawn(found, classes_.names, 0));
    write_file(flags_.out + "/" + name + ".jpg", jpeg(loaded.picture));
    if (const std::string& note = loaded.picture.note; !note.empty() && !std::exchange(told_, true))
      std::cerr << "note: in the pictures " << note << "\n";
  }

  void finish() const {
    if (!flags_.json.empty()) write_file(flags_.json, all_.dump(1) + "\n");
  }

  std::int64_t things() const { return things_; }

 private:
  /// The file's name without its ending; numbered where it was taken.
  std::string name_for(const std::string& path) {
    const std::string stem = fs::path(path).stem().string();
    std::string name = stem;
    for (int i = 2; !names_.insert(name).second; ++i) name = stem + "-" + std::to_string(i);
    return name;
  }

  /// COCO's image id is the number that a file is called, as COCO's own are, or else its place.
  std::int64_t image_id(const std::string& path) const {
    const std::string stem = fs::path(path).stem().string();
    const bool digits = stem.size() <= 18 && stem.find_first_not_of("0123456789") == stem.npos;
    return digits && !stem.empty() ? std::stoll(stem) : number_;
  }

  void add_json(const std::string& path, const std::vector<vision::Detection>& found) {
    for (const vision::Detection& thing : found)
      all_.push_back({{"image_id", image_id(path)},
                      {"category_id", classes_.ids[static_cast<std::size_t>(thing.label)]},
                      {"bbox", {thing.box.left, thing.box.top, thing.box.width, thing.box.height}},
                      {"score", thing.score},
                      {"file_name", path},
                      {"category", classes_.names[static_cast<std::size_t>(thing.label)]}});
  }

  static std::string yolo(const LoadedPicture& loaded,
                          const std::vector<vision::Detection>& found) {
    std::ostringstream text;
    const double width = loaded.picture.width, height = loaded.picture.height;
    for (const auto& [box, label, score] : found)
      text << label << " " << (box.left + box.width / 2) / width << " "
           << (box.top + box.height / 2) / height << " " << box.width / width << " "
           << box.height / height << " " << score << "\n";
    return text.str();
  }

  const DetectFlags& flags_;
  const DetectClasses& classes_;
  nlohmann::ordered_json all_;
  std::set<std::string> names_;
  std::int64_t number_ = 0, things_ = 0;
  bool told_ = false;
};

std::string line_of(const std::string& path, const std::vector<vision::Detection>& found,
                    const DetectClasses& classes) {
  std::string line = path + ":";
  for (const vision::Detection& thing : found)
    line += (line.back() == ':' ? " " : ", ") +
            classes.names[static_cast<std::size_t>(thing.label)] + format(" %.2f", thing.score);
  return found.empty() ? line + " nothing" : line;
}

int detect(const DetectFlags& flags) {
  watch_signals();
  if (flags.out.empty() && (flags.yolo || flags.plain))
    throw ConfigError("--yolo and --no-pictures are about files in a folder: give it with --out.");
  Detector detector(flags.detector);
  const PictureList list{picture_files(flags.pictures), &detector};
  std::cerr << detector.about() << "\n";
  Results results(flags, detector.classes());
  constexpr std::size_t kTogether = 8;
  const auto stream = input::prefetch(list, {.depth = 2 * kTogether, .workers = 2, .epochs = 1});
  StatusLine status;
  std::int64_t done = 0, bad = 0;
  for (bool more = true; more && !signalled();) {
    std::vector<LoadedPicture> loaded;
    std::vector<torch::Tensor> inputs;
    std::vector<vision::ImageSize> sizes;
    while (loaded.size() < kTogether) {
      auto next = stream->next();
      if (!(more = next.has_value())) break;
      ++done;
      if (!next->problem.empty()) {
        ++bad;
        status.erase();
        std::cerr << "lockstep: skipped: " << next->problem << "\n";
        continue;
      }
      inputs.push_back(next->input);
      sizes.push_back({next->picture.width, next->picture.height});
      loaded.push_back(std::move(*next));
    }
    if (loaded.empty()) continue;
    const auto found = detector.find(inputs, sizes);
    for (std::size_t i = 0; i < loaded.size(); ++i) {
      status.print(line_of(loaded[i].path, found[i], detector.classes()));
      results.add(loaded[i], found[i]);
    }
    if (status.due())
      status.show("detects " +
                  bar(static_cast<double>(done) / static_cast<double>(list.size()), 20) + " " +
                  std::to_string(done) + " of " + std::to_string(list.size()));
  }
  results.finish();
  if (bad == list.size())
    throw ConfigError("none of the " + std::to_string(bad) + " pictures could be read.");
  status.erase();
  std::cerr << done - bad << " pictures, " << results.things() << " things found";
  if (bad > 0) std::cerr << ", " << bad << " skipped";
  std::cerr << (flags.out.empty() ? "" : ": " + flags.out) << "\n";
  return signalled() ? kStopped : kDone;
}

}  // namespace

void add_detect(CLI::App& app, Run& run) {
  const auto flags = std::make_shared<DetectFlags>();
  DetectorFlags& detector = flags->detector;
  CLI::App* command = app.add_subcommand(
      "detect", "Finds things in pictures: lockstep detect RUN PICTURES... --out FOLDER.");
  command->add_option("run", detector.path, "a run, its folder of checkpoints, or one checkpoint")
      ->required();
  command->add_option("pictures", flags->pictures, "JPEG and PNG files, folders, or patterns")
      ->required();
  command->add_option("--out", flags->out, "write pictures with boxes into this folder");
  command->add_option("--json", flags->json, "write all detections to this file, as COCO results");
  command->add_flag("--yolo", flags->yolo,
                    "write YOLO's text files into OUT/labels, with the score at the end of a line");
  command->add_flag("--no-pictures", flags->plain, "write no pictures");
  command->add_option("--score", detector.score, "least score of a detection")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--overlap", detector.overlap,
                   "of two detections of a class that overlap more, one stays. By default as the "
                   "recipe says")
      ->check(CLI::Range(0.0, 1.0));
  command
      ->add_option("--most", detector.most,
                   "most detections in a picture. By default as the recipe says")
      ->check(whole_number(1));
  command
      ->add_option("--weights", detector.weights, "live, averaged, or auto: averaged if there are")
      ->check(CLI::IsMember({"auto", "live", "averaged"}));
  command->add_flag("--newest", detector.newest, "of a run, the newest checkpoint; else the best");
  command->footer(
      "Prints a line a picture. A picture that cannot be read is told and skipped.\n"
      "Exit codes: 0 done; 1 failed; 2 the user can put it right; 3 stopped by a signal.");
  command->callback([flags, &run] { run = [flags] { return detect(*flags); }; });
}

}  // namespace lockstep::apps
