#pragma once

// Observers are told what happens in a training: the console, TensorBoard, a log. All calls come
// from the thread that trains, between steps.

#include <lockstep/image.h>
#include <lockstep/progress.h>
#include <lockstep/report.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep {

struct TrainingStart {
  /// One replica of the model. Call this each time you look: its device can be lost meanwhile.
  std::function<const torch::nn::Module&()> model;
  const TrainingProgress& progress;  ///< step 0, or where a checkpoint stood
  std::string strategy;              ///< "mirrored"
  std::vector<std::string> devices;
  int shards = 0;              ///< parts of the global batch; the result depends on this number
  std::int64_t last_step = 0;  ///< at which it will have ended, by its limits; 0: unknown
  std::int64_t steps_per_epoch = 0;          ///< 0: unknown
  Seconds time_limit{};                      ///< of all sessions together; 0: none
  std::vector<std::string> plan;             ///< lines for people: limits, cadence, retention
  std::vector<std::string> changes;          ///< "optimizer.lr: 0.1 -> 0.01": since the checkpoint
  std::map<std::string, Image> images = {};  ///< of the input, by name; none after a resume
};

/// The steps since the last report.
struct TrainingReport {
  TrainingProgress progress = {};  ///< after the last of them
  std::int64_t steps = 0;
  /// Sum over all of their shards divided by the total weight; NaN in a job with phases.
  double loss = 0;
  std::map<std::string, double> losses = {};  ///< by phase: the same over the steps of that phase
  /// What the loss functions measured, as weighted means; of a phase: "generator/kl".
  std::map<std::string, double> metrics = {};
  double learning_rate = 0;  ///< of the last
  double gradient_norm = 0;  ///< of the last
  double clip_rate = 0;      ///< share of them whose gradient was clipped
  Staleness staleness = {};
  /// Time spent in evaluations and saves does not count. Nothing: the rows are unknown.
  std::optional<double> rows_per_second = std::nullopt;
  double done = 0;  ///< of the whole training, from 0 to 1; 0: there is no limit
  Seconds left{};   ///< estimated; 0: unknown
  /// Losses and mean times over those steps; after a resume, over the steps since then. The
  /// weighted mean of the losses is `loss`; the times of each tower add up to `time`. In a job with
  /// phases towers have no loss (NaN). Of Async only the towers that computed a batch are here, and
  /// their times add up to `time` over many steps.
  std::vector<TowerReport> towers = {};
  Seconds time{};  ///< mean time of a step
  std::vector<std::string> notes = {};
};

struct Evaluation {
  std::string set;        ///< "test"
  std::int64_t step = 0;  ///< steps taken before it
  bool averaged = false;  ///< with the moving averages as weights
  bool best = false;      ///< the goal's metric was never better
  Seconds took{};
  std::map<std::string, double> metrics = {};
  std::map<std::string, Image> images = {};
  std::map<std::string, std::string> texts = {};  ///< Markdown
};

struct SaveReport {
  std::string path;
  std::int64_t step = 0;
  std::uint64_t bytes = 0;
  Seconds stood_still{};                  ///< training waited for the copy and for the save before
  Seconds took{};                         ///< writing, beside training
  std::string error = {};                 ///< why it failed; empty: the checkpoint is whole
  std::string trouble = {};               ///< why an older one could not be removed
  std::vector<std::string> removed = {};  ///< older ones that were not to be kept
};

/// Machines are gone, and the others go on.
struct MachinesLeft {
  std::vector<std::string> lost = {};     ///< names
  std::vector<std::string> devices = {};  ///< of those who are left
  std::int64_t step = 0;                  ///< that they go on from
  std::int64_t repeated = 0;              ///< steps that are taken again
  bool replayed = false;  ///< from what they kept of each other; else from a checkpoint
};

enum class Ending { done, input_ended, early_stop, stopped };

struct TrainingEnd {
  Ending ending = Ending::done;
  TrainingProgress progress = {};
  std::string saved = {};  ///< the last checkpoint of this session; empty: none
  std::string error = {};  ///< of the last save
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void started(const TrainingStart&) {}
  virtual void stepped(const StepReport&, const TrainingProgress&) {}
  virtual void reported(const TrainingReport&) {}
  /// A part of an evaluation is done: `batches` of `total` (0: unknown).
  virtual void evaluating(const std::string& /*set*/, std::int64_t /*batches*/,
                          std::int64_t /*total*/) {}
  virtual void evaluated(const Evaluation&) {}
  virtual void saved(const SaveReport&) {}
  virtual void machines_lost(const MachinesLeft&) {}
  virtual void ended(const TrainingEnd&) {}
};

}  // namespace lockstep
