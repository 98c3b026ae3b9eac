#include <lockstep/error.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <set>

#include "train/trainer_impl.h"

// The trainer's arithmetic of when and how long.

namespace lockstep {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// "every 100 steps, 1 epochs or 600 s", or nothing.
std::string describe(const Every& every) {
  std::vector<std::string> parts;
  if (every.steps > 0) parts.push_back(std::to_string(every.steps) + " steps");
  if (every.epochs > 0)
    parts.push_back(every.epochs == 1 ? "epoch" : std::to_string(every.epochs) + " epochs");
  if (every.seconds > Seconds(0)) parts.push_back(number(every.seconds.count()) + " s");
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "every " : " or ") + part;
  return text;
}

std::string describe(const Asynchrony& how) {
  const auto late = [](int updates) {
    return std::to_string(updates) + (updates == 1 ? " update late" : " updates late");
  };
  if (how.order == Order::delay) return "applies each gradient " + late(how.delay);
  return "applies gradients as they come" +
         (how.staleness ? ", at most " + late(*how.staleness) : "");
}

bool crossed(std::int64_t every, std::int64_t last, std::int64_t now) {
  return every > 0 && now / every > last / every;
}

}  // namespace

std::string describe_phases(const std::vector<PhasePlan>& phases) {
  if (phases.empty()) throw ConfigError("a job has at least one phase.");
  if (phases.front().same_batch)
    throw ConfigError("the first phase, '" + phases.front().name +
                      "', must take the next batch: else no phase would.");
  std::set<std::string> names;
  std::string text;
  for (const PhasePlan& phase : phases) {
    if (phase.name.empty() || !names.insert(phase.name).second)
      throw ConfigError("phases need names, all of them different: '" + phase.name + "'.");
    if (phase.steps < 1)
      throw ConfigError("the phase '" + phase.name + "' must have at least one step.");
    text += phase.name + ": " + std::to_string(phase.steps) + " steps, updates " + phase.update +
            ", " + (phase.same_batch ? "same batch" : "next batch") + "\n";
  }
  return text;
}

void Trainer::Impl::count_time() {
  const Seconds time = now();
  progress_.seconds += (time - clock_).count();
  session_ += time - clock_;
  clock_ = time;
}

LastDone Trainer::Impl::mark() const {
  return {.step = progress_.step, .epoch = progress_.epoch(), .seconds = progress_.seconds};
}

bool Trainer::Impl::due(const Every& every, const LastDone& last) const {
  return crossed(every.steps, last.step, progress_.step) ||
         crossed(every.epochs, last.epoch, progress_.epoch()) ||
         (every.seconds > Seconds(0) && progress_.seconds - last.seconds >= every.seconds.count());
}

/// "test/accuracy" for "accuracy"; empty without a goal.
std::string Trainer::Impl::goal_key() const {
  const std::string& metric = options_.goal.metric;
  const auto sets = job_.sets();
  if (metric.empty() || sets.empty() || metric.find('/') != std::string::npos) return metric;
  return sets.front() + "/" + metric;
}

Goal Trainer::Impl::full_goal() const {
  Goal goal = options_.goal;
  goal.metric = goal_key();
  return goal;
}

void Trainer::Impl::estimate(TrainingReport& report) const {
  const auto limit = static_cast<double>(step_limit(options_.limits, job_.steps_per_epoch()));
  const auto step = static_cast<double>(progress_.step);
  const auto taken = static_cast<double>(progress_.step - session_begin_);
  if (limit > 0) {
    report.done = step / limit;
    if (taken > 0) report.left = session_ / taken * (limit - step);
  }
  if (const Seconds most = options_.limits.seconds; most > Seconds(0)) {
    const double part = progress_.seconds / most.count();
    if (part > report.done || limit == 0) {
      report.done = part;
      report.left = most - Seconds(progress_.seconds);
    }
  }
  report.done = std::clamp(report.done, 0.0, 1.0);
  report.left = std::max(report.left, Seconds(0));
}

std::vector<std::string> Trainer::Impl::plan() const {
  std::vector<std::string> lines;
  std::string limits;
  const auto limit = [&](const std::string& text) {
    limits += (limits.empty() ? "" : " or ") + text;
  };
  if (options_.limits.steps > 0) limit(std::to_string(options_.limits.steps) + " steps");
  if (options_.limits.epochs > 0)
    limit(std::to_string(options_.limits.epochs) +
          (options_.limits.epochs == 1 ? " epoch" : " epochs"));
  if (options_.limits.seconds > Seconds(0))
    limit(number(options_.limits.seconds.count()) + " seconds");
  if (const auto& async = method_.async) lines.push_back(describe(*async));
  lines.push_back("trains " + (limits.empty() ? "until it is stopped" : "for " + limits));
  if (const auto phases = job_.phases(); !phases.empty()) {
    std::string names;
    for (const std::string& phase : phases) names += (names.empty() ? "" : ", ") + phase;
    lines.push_back("takes steps in turn: " + names);
  }
  if (!job_.sets().empty()) {
    const std::string cadence = describe(options_.evaluate);
    lines.push_back("evaluates " + (cadence.empty() ? "" : cadence + " and ") + "at the end" +
                    (options_.averaged ? ", with averaged weights" : ""));
  }
  if (options_.goal.patience > 0)
    lines.push_back("stops early after " + std::to_string(options_.goal.patience) +
                    " evaluations without a better " + options_.goal.metric);
  if (saver_) {
    const std::string cadence = describe(options_.save);
    const bool best = options_.keep.best > 0 && !options_.goal.metric.empty();
    lines.push_back("saves " + (cadence.empty() ? "" : cadence + ", ") +
                    (best ? "at a best evaluation and " : "") + "at the end; keeps " +
                    lockstep::describe(options_.keep));
  }
  return lines;
}

Manifest Trainer::Impl::manifest() const {
  auto fields = fields_of(method_);
  fields.erase("seed");
  fields.erase("shards");
  Manifest manifest{.progress = progress_,
                    .seed = method_.seed,
                    .shards = method_.shards,
                    .method = std::move(fields),
                    .time = static_cast<std::int64_t>(std::time(nullptr)),
                    .recipe = options_.recipe};
  if (metrics_step_ == progress_.step) manifest.metrics = metrics_;
  return manifest;
}

}  // namespace lockstep
