#pragma once

// How far a training is, after every step: for the line that a terminal shows.

#include <lockstep/observer.h>

#include <string>

namespace lockstep::apps {

class Pace {
 public:
  Pace() = default;
  explicit Pace(const TrainingStart& start);

  void add(const StepReport& step);

  /// "[##........]  25 %  step 125/500  epoch 2/5"; what is unknown is left out.
  std::string bar_at(const TrainingProgress& progress) const;

  std::string speed() const;                                 ///< "  1200 samples/s", or nothing
  std::string left(const TrainingProgress& progress) const;  ///< "  3 min 2 s left", or nothing

 private:
  double done(const TrainingProgress& progress) const;

  std::int64_t first_step_ = 0, last_step_ = 0, steps_per_epoch_ = 0;
  double first_seconds_ = 0;
  Seconds limit_{}, time_{};  ///< time_ and rows_: of about the last hundred steps
  double rows_ = 0;
};

}  // namespace lockstep::apps
