#pragma once

// A training in TensorBoard: an Observer that writes event files. docs/events.md lists the tags.

#include <lockstep/observer.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace lockstep {

/// What the tags of an evaluation begin with: the name of the set, or "train_set" for one that is
/// called train, because curves of the training are below "train/".
std::string tag_of_set(const std::string& set);

struct TensorBoardOptions {
  std::string folder = {};            ///< of the run: `tensorboard --logdir` takes it or its parent
  std::int64_t histograms_every = 0;  ///< steps: distributions of all parameters; 0: never
  std::string text = {};              ///< Markdown shown with the run, such as its recipe
  /// Shown in the HParams tab, and judged by the metrics of the evaluations.
  std::map<std::string, std::variant<bool, double, std::string>> hyper_parameters = {};
  std::vector<std::string> metrics = {};  ///< tags of scalars, such as "test/accuracy"
};

/// Writes, below "train/", loss by device and in total, learning rate, gradient norm and clip rate;
/// below "system/", samples per second and each device's time by stage; evaluations with their
/// pictures and texts, pictures of the input, and the model's modules as a graph. Opens its file
/// when the training starts, and throws IoError if it cannot; trouble with the disk after that does
/// not stop a training.
class TensorBoard : public Observer {
 public:
  explicit TensorBoard(TensorBoardOptions options);
  ~TensorBoard() override;

  /// Empty, or why events could not be written, or how many were lost.
  std::string error() const;

  void started(const TrainingStart& start) override;
  void stepped(const StepReport& step, const TrainingProgress& progress) override;
  void reported(const TrainingReport& report) override;
  void evaluated(const Evaluation& evaluation) override;
  void saved(const SaveReport& report) override;
  void ended(const TrainingEnd& end) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
