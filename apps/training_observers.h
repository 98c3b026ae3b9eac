#pragma once

// All that watches a training of the program: the console, TensorBoard, the CSV file, pictures.

#include <lockstep/observer.h>
#include <lockstep/tensorboard.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "metrics_file.h"
#include "run_pictures.h"
#include "session_file.h"
#include "train.h"

namespace lockstep {
class Job;
}

namespace lockstep::apps {

struct Recipe;

class TrainingObservers {
 public:
  TrainingObservers(const TrainFlags& flags, const Recipe& recipe, const Job& job);

  const std::vector<Observer*>& all() const { return all_; }

  /// Each tower's last report, by the number of its device.
  const std::map<std::ptrdiff_t, TowerReport>& last_towers() const { return towers_.last; }

  /// Says on the error stream what could not be written.
  void tell_problems() const;

 private:
  /// Keeps each tower's last report, for --placement-report.
  struct LastTowers : Observer {
    void started(const TrainingStart& start) override { devices = start.devices; }
    void stepped(const StepReport& step, const TrainingProgress&) override;
    std::vector<std::string> devices;
    std::map<std::ptrdiff_t, TowerReport> last;
  };

  std::unique_ptr<Observer> console_;
  LastTowers towers_;
  TensorBoard board_;
  MetricsFile csv_;
  SessionFile session_;
  RunPictures pictures_;
  std::vector<Observer*> all_;
};

}  // namespace lockstep::apps
