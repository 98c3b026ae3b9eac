#pragma once

// What happens in a training, told to whoever wants to know: the console, TensorBoard, a log. All
// calls come from the thread that trains, between steps.

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
  /// The replica that stands for all. Call it whenever you look: a device can be lost meanwhile.
  std::function<const torch::nn::Module&()> model;
  const TrainingProgress& progress;  ///< step 0, or where a checkpoint stood
  std::vector<std::string> devices;
  int shards = 0;                    ///< of the global batch: what the result depends on
  std::vector<std::string> plan;     ///< lines for people: limits, cadence, retention
  std::vector<std::string> changes;  ///< "optimizer.lr: 0.1 -> 0.01": not as in the checkpoint
};

/// The steps since the last report.
struct TrainingReport {
  TrainingProgress progress = {};  ///< after the last of them
  std::int64_t steps = 0;
  double loss = 0;           ///< sum over all of their shards divided by the total weight
  double learning_rate = 0;  ///< of the last
  double gradient_norm = 0;  ///< of the last
  double clip_rate = 0;      ///< the part of them whose gradient was clipped
  /// While training: evaluations and saves are left out. Nothing: the rows are unknown.
  std::optional<double> rows_per_second = std::nullopt;
  double done = 0;  ///< of the whole training, from 0 to 1; 0: there is no limit
  Seconds left{};   ///< estimated; 0: unknown
  /// Loss over, and mean times of, those steps; after a resume, of those since. The losses,
  /// weighted, average to `loss`; the times of each add up to `time`.
  std::vector<TowerReport> towers = {};
  Seconds time{};  ///< that a step took, on average
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
  Seconds stood_still{};                  ///< training waited for the copy, and for the save before
  Seconds took{};                         ///< writing, beside training
  std::string error = {};                 ///< why it failed; empty: it is there, whole
  std::string trouble = {};               ///< why an older one could not be removed
  std::vector<std::string> removed = {};  ///< older ones that were not to be kept
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
  virtual void ended(const TrainingEnd&) {}
};

}  // namespace lockstep
