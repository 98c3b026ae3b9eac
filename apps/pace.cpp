#include "pace.h"

#include <algorithm>

#include "console.h"
#include "terminal.h"

namespace lockstep::apps {
namespace {

/// "step 125/500"
std::string counted(const std::string& what, std::int64_t number, std::int64_t all) {
  return "  " + what + " " + std::to_string(number) +
         (all > 0 ? "/" + std::to_string(std::max(number, all)) : "");
}

}  // namespace

Pace::Pace(const TrainingStart& start)
    : first_step_(start.progress.step),
      last_step_(start.last_step),
      steps_per_epoch_(start.steps_per_epoch),
      first_seconds_(start.progress.seconds),
      limit_(start.time_limit) {}

void Pace::add(const StepReport& step) {
  constexpr double kForget = 0.99;
  time_ = kForget * time_ + step.time;
  rows_ = kForget * rows_ + static_cast<double>(step.rows.value_or(0));
}

double Pace::done(const TrainingProgress& progress) const {
  double part = 0;
  if (last_step_ > 0) part = static_cast<double>(progress.step) / static_cast<double>(last_step_);
  if (limit_ > Seconds(0)) part = std::max(part, progress.seconds / limit_.count());
  return std::clamp(part, 0.0, 1.0);
}

std::string Pace::bar_at(const TrainingProgress& progress) const {
  const bool limited = last_step_ > 0 || limit_ > Seconds(0);
  std::string text =
      limited ? bar(done(progress), 10) + format(" %3.0f %%", 100 * done(progress)) : "";
  text += counted("step", progress.step, last_step_);
  if (steps_per_epoch_ > 0)
    text += counted("epoch", progress.epoch() + 1,
                    (last_step_ + steps_per_epoch_ - 1) / steps_per_epoch_);
  return limited ? text : text.substr(2);
}

std::string Pace::speed() const {
  return rows_ > 0 && time_ > Seconds(0) ? format("  %.0f samples/s", rows_ / time_.count()) : "";
}

std::string Pace::left(const TrainingProgress& progress) const {
  const double taken = progress.seconds - first_seconds_;
  const auto steps = static_cast<double>(progress.step - first_step_);
  Seconds rest{};
  if (last_step_ > 0 && steps > 0)
    rest = Seconds(taken / steps * static_cast<double>(last_step_ - progress.step));
  if (const Seconds more = limit_ - Seconds(progress.seconds);
      limit_ > Seconds(0) && (last_step_ == 0 || more < rest))
    rest = more;
  return rest > Seconds(0) ? "  " + duration_text(rest) + " left" : "";
}

}  // namespace lockstep::apps
