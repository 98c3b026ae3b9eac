#pragma once

// All figures of a training as one CSV file, for spreadsheets and scripts:
//
//   step,epoch,seconds,set,name,value
//   50,0,3.2,train,loss,0.7312
//   50,0,3.4,test,accuracy,0.8125

#include <lockstep/observer.h>

#include <fstream>
#include <string>

namespace lockstep::apps {

/// Appends a line for every figure. A training that goes on from a step takes out the lines of
/// later steps first, so that the file is as if it had never stopped. Trouble with the disk does
/// not stop a training.
class MetricsFile : public Observer {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {}

  /// Empty, or why the file is not complete.
  const std::string& error() const { return error_; }

  void started(const TrainingStart& start) override;
  void stepped(const StepReport&, const TrainingProgress& progress) override { stand_at(progress); }
  void reported(const TrainingReport& report) override;
  void evaluated(const Evaluation& evaluation) override;

 private:
  void stand_at(const TrainingProgress& progress) {
    step_ = progress.step;
    epoch_ = progress.epoch();
    seconds_ = progress.seconds;
  }
  void add(const std::string& set, const std::string& name, double value);
  void flush();

  const std::string path_;
  std::ofstream file_;
  std::int64_t step_ = 0, epoch_ = 0;
  double seconds_ = 0;
  std::string error_;
};

}  // namespace lockstep::apps
