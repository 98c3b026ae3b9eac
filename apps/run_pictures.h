#pragma once

// Pictures of a training as PNG files.

#include <lockstep/observer.h>

#include <string>

namespace lockstep::apps {

/// Writes `image` to <folder>/<set>-<name>.png, in place of one that is there, and makes the folder
/// if it does not exist. Returns the path. Throws IoError.
std::string write_picture(const std::string& folder, const std::string& set,
                          const std::string& name, const Image& image);

/// Writes the pictures of the input (as set "input") when a training begins, and those of every
/// evaluation in place of the one before. Trouble with the disk does not stop a training.
class RunPictures : public Observer {
 public:
  explicit RunPictures(std::string folder) : folder_(std::move(folder)) {}

  /// Empty, or how many pictures could not be written, and why the first could not.
  std::string error() const;

  /// Empty, or what could not be drawn in the first picture with a note.
  const std::string& note() const { return note_; }

  void started(const TrainingStart& start) override { write("input", start.images); }
  void evaluated(const Evaluation& evaluation) override {
    write(evaluation.set, evaluation.images);
  }

 private:
  void write(const std::string& set, const std::map<std::string, Image>& images);

  std::string folder_;
  int failed_ = 0;
  std::string first_error_, note_;
};

}  // namespace lockstep::apps
