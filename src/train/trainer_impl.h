#pragma once

#include <lockstep/job.h>
#include <lockstep/machines.h>
#include <lockstep/trainer.h>

#include "train/report_window.h"
#include "train/saver.h"

namespace lockstep {

class Trainer::Impl {
 public:
  Impl(Job& job, TrainerOptions options, std::vector<Observer*> observers);

  void resume(const FoundCheckpoint& found);
  TrainingEnd run();

 private:
  // The loop and its parts, in trainer.cpp.
  void start();
  TrainingEnd loop();
  void compare_method(const FoundCheckpoint& found);
  void end_saves(bool with_what_is_there);
  void set_rates(double factor);
  bool step();
  void report();
  TrainingReport made_report() const;
  void evaluate();
  std::optional<Evaluation> evaluate_set(std::size_t i);
  bool judge();
  bool save_due();
  void save();
  void tell_of_saves(bool wait);
  std::optional<Ending> why_end() const;
  TrainingEnd end(Ending ending);
  bool stopping() const { return options_.stop && options_.stop(); }

  // Several machines, in trainer_machines.cpp.
  /// What to do before the next step.
  struct Next {
    bool evaluate = false, save = false;
    std::optional<Ending> ending = std::nullopt;
  };
  Next decide();
  Next agreed(Next own);
  bool agreed(bool own) { return agreed(Next{.evaluate = own}).evaluate; }
  bool everywhere(bool own);  ///< whether it is so on all machines
  void leave_together();
  void take_over(const FoundCheckpoint& found);
  bool go_on_without(std::exception_ptr& failure);
  bool replay(const Trouble& trouble, const std::exception_ptr& failure);
  bool repeat(const Trouble& trouble);
  void tell_of_machines(const Trouble& trouble, MachinesLeft left);
  bool decides() const { return !machines_ || machines_->rank() == 0; }

  // When and how long, in trainer_plan.cpp.
  Seconds now() const { return options_.clock(); }
  void count_time();
  LastDone mark() const;
  bool due(const Every& every, const LastDone& last) const;
  std::string goal_key() const;
  Goal full_goal() const;
  void estimate(TrainingReport& report) const;
  std::vector<std::string> plan() const;
  Manifest manifest() const;

  template <class Call, class... Args>
  void tell(Call call, const Args&... args) {
    for (Observer* observer : observers_) (observer->*call)(args...);
  }

  Job& job_;
  Machines* const machines_;  ///< null: this one alone
  TrainerOptions options_;
  const std::vector<Observer*> observers_;
  const Method method_;  ///< that the training began with: the schedule changes rates after that
  std::optional<train::Saver> saver_;

  TrainingProgress progress_;
  train::ReportWindow window_;
  bool resumed_ = false;
  std::vector<std::string> changes_;       ///< of the method, since the checkpoint
  std::int64_t session_begin_ = 0;         ///< step at which this session began
  Seconds session_{};                      ///< how long it is
  Seconds clock_{};                        ///< until when time was counted
  std::map<std::string, double> metrics_;  ///< "test/accuracy", of the evaluation at metrics_step_
  std::int64_t metrics_step_ = -1;
  bool saves_ = false;     ///< the first machine has a folder
  bool save_now_ = false;  ///< the last evaluation is to be kept
  std::string saved_;
  std::int64_t saved_step_ = -1;  ///< of the last checkpoint of this session
  std::string save_error_;
};

}  // namespace lockstep
