#pragma once

// What a Trainer trains: a strategy with its input, its loss and its evaluation sets.

#include <lockstep/detail/kinds.h>
#include <lockstep/input_range.h>
#include <lockstep/metrics.h>
#include <lockstep/observer.h>
#include <lockstep/strategy.h>
#include <lockstep/stream.h>

#include <algorithm>
#include <concepts>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The result of an evaluation, for people: numbers, pictures and texts by name.
struct Summary {
  std::map<std::string, double> metrics = {};
  std::map<std::string, Image> images = {};
  std::map<std::string, std::string> texts = {};
};

inline Summary summary(const Metrics& metrics) {
  Summary result;
  for (const auto& [name, mean] : metrics) result.metrics[name] = mean.value();
  return result;
}

/// Called with the number of batches done and their total (0: unknown); false ends the evaluation.
using Evaluating = std::function<bool(std::int64_t batches, std::int64_t total)>;

/// What checkpoints hold of a phase: all but its loss.
struct PhasePlan {
  std::string name, update;
  bool same_batch = false;
  std::int64_t steps = 1;
};

/// One line a phase. Throws ConfigError for phases that a job cannot take.
std::string describe_phases(const std::vector<PhasePlan>& phases);

class Job {
 public:
  virtual ~Job() = default;

  /// One step on the next batch; nothing when the input has ended. After an exception the same
  /// batch comes again.
  virtual std::optional<StepReport> step() = 0;

  virtual Position position() const = 0;  ///< of the next batch
  virtual void seek(const Position& position) = 0;
  virtual std::int64_t steps_per_epoch() const = 0;  ///< 0: unknown

  /// The shards that this process computes from the next step on: the input need not make more of a
  /// batch. What was read ahead is read again, and the position stays. By default, all of them.
  virtual void share(const Share&) {}

  /// Of steps of different kinds, taken in turn: their names. Empty: all steps are alike.
  virtual std::vector<std::string> phases() const { return {}; }

  virtual std::vector<std::string> sets() const = 0;  ///< that can be evaluated
  /// Nothing when `evaluating` ended it.
  virtual std::optional<Summary> evaluate(std::size_t set, const Evaluating& evaluating) = 0;

  /// What its checkpoints hold in addition to the state, by file name: a vocabulary.
  virtual std::map<std::string, std::string> files() const { return {}; }

  /// Pictures of the input as the model gets it, by name; shown once, when a training begins.
  virtual std::map<std::string, Image> images() const { return {}; }

  virtual Strategy& strategy() = 0;
};

/// A loss of any type that the step of S takes.
template <class S, class Batch>
class AnyLoss {
 public:
  using Staged = decltype(std::declval<S&>().stage(std::declval<Batch>()));

  template <class LossFn>
  requires(!std::same_as<LossFn, AnyLoss>) AnyLoss(LossFn loss) {  // NOLINT: it is one
    step_ = [loss](S& strategy, Staged& batch, const StepOptions& how) -> StepReport {
      return strategy.step(batch, loss, how);
    };
    begin_ = [loss](S& strategy, Staged& batch, const StepOptions& how) {
      if constexpr (requires { strategy.begin(batch, loss, how); })
        strategy.begin(batch, loss, how);
    };
  }

  /// The step on this batch is to come: a strategy that works ahead begins with it.
  void begin(S& strategy, Staged& batch, const StepOptions& how) const {
    begin_(strategy, batch, how);
  }

  StepReport step(S& strategy, Staged& batch, const StepOptions& how) const {
    return step_(strategy, batch, how);
  }

 private:
  std::function<StepReport(S&, Staged&, const StepOptions&)> step_;
  std::function<void(S&, Staged&, const StepOptions&)> begin_;
};

/// Strategies that take part of a batch, of a type that can be cut so. The others get whole
/// batches.
template <class S, class Batch>
concept TakesPortions = detail::kPortionable<Batch> &&
    requires(S& strategy, Batch batch, const Portion& portion) {
  strategy.stage(std::move(batch), portion);
};

/// A Job on a strategy: Mirrored<Model>, or any other class that has its stage, step and evaluate.
template <class S, class Batch>
class StrategyJob : public Job {
 public:
  using Input = std::unique_ptr<Stream<Batch>>;

  /// Steps of one kind: those on a GAN's discriminator, for example.
  struct Phase {
    std::string name;  ///< for reports: "discriminator"
    AnyLoss<S, Batch> loss;
    std::string update = "*";  ///< the parameters that its steps are about: see StepOptions
    bool same_batch = false;   ///< as the step before; else the next one
    std::int64_t steps = 1;    ///< one after the other, before the next phase
  };

  /// `loss` is as for the strategy's step. `steps_per_epoch` is for estimates of how long a
  /// training takes; 0: unknown.
  template <class LossFn>
  StrategyJob(std::unique_ptr<S> strategy, std::unique_ptr<Stream<Batch>> input, LossFn loss,
              std::int64_t steps_per_epoch = 0)
      : strategy_(std::move(strategy)),
        input_(std::move(input)),
        steps_per_epoch_(steps_per_epoch),
        position_(input_->position()) {
    phases_.push_back({.name = "", .loss = std::move(loss)});
  }

  /// Steps of several kinds, phase after phase, over and over. Which phase a step belongs to
  /// follows from strategy().steps(), so a training resumes in the middle of a round. Checkpoints
  /// hold what the phases are, and those with other phases are refused. `steps_per_epoch` counts
  /// the steps of all phases. Throws ConfigError for phases that cannot be told apart or take no
  /// batch.
  StrategyJob(std::unique_ptr<S> strategy, std::unique_ptr<Stream<Batch>> input,
              std::vector<Phase> phases, std::int64_t steps_per_epoch = 0)
      : strategy_(std::move(strategy)),
        input_(std::move(input)),
        phases_(std::move(phases)),
        steps_per_epoch_(steps_per_epoch),
        position_(input_->position()) {
    std::vector<PhasePlan> plans;
    for (const Phase& phase : phases_)
      plans.push_back({phase.name, phase.update, phase.same_batch, phase.steps});
    add_file("phases.txt", describe_phases(plans));
  }

  StrategyJob(const StrategyJob&) = delete;
  StrategyJob& operator=(const StrategyJob&) = delete;

  /// Adds a set to evaluate: `open()` is a stream of its batches, `size` their number (0: unknown).
  /// `metric` is as for the strategy's evaluate; `summarise` makes a Summary of what that returns.
  template <class Metric, class Summarise = Summary (*)(const Metrics&)>
  void add_set(std::string name, std::int64_t size, std::function<Input()> open, Metric metric,
               Summarise summarise = summary) {
    sets_.push_back({std::move(name), [=, this](const Evaluating& evaluating) {
                       const Input batches = open();
                       InputRange<Batch> range(*batches, [&, done = std::int64_t{0}]() mutable {
                         return evaluating(done++, size);
                       });
                       const auto result = strategy_->evaluate(range, metric);
                       return range.stopped() ? std::nullopt : std::optional(summarise(result));
                     }});
  }

  /// Adds a file to every checkpoint. A checkpoint in which that file differs is refused.
  void add_file(const std::string& name, std::string content) { files_[name] = std::move(content); }
  std::map<std::string, std::string> files() const override { return files_; }

  /// Adds a picture of the input. A function makes it when a training begins, and not otherwise.
  void add_image(const std::string& name, std::function<Image()> make) {
    images_[name] = std::move(make);
  }
  void add_image(const std::string& name, Image image) {
    images_[name] = [image = std::move(image)] { return image; };
  }
  std::map<std::string, Image> images() const override {
    std::map<std::string, Image> made;
    for (const auto& [name, make] : images_) made[name] = make();
    return made;
  }

  /// Stages batches ahead of the step, so that accelerators copy them, or begin with them,
  /// meanwhile.
  std::optional<StepReport> step() override {
    const Seconds begin = strategy_->now();
    try {
      if constexpr (requires { strategy_->share(); }) share(strategy_->share());
      while (std::ssize(coming_) <= strategy_->lookahead() && stage_next()) {
      }
      if (coming_.empty()) return std::nullopt;
      const Coming now = std::move(coming_.front());
      coming_.pop_front();
      const Seconds input = strategy_->now() - begin;
      StepReport report = now.phase->loss.step(*strategy_, *now.batch, how(*now.phase));
      report.time += input;
      for (TowerReport& tower : report.towers) {
        // One that works ahead was waiting meanwhile, if it had nothing to do.
        const Seconds waited = report.staleness ? std::min(input, tower.wait) : input;
        tower.input += waited;
        if (report.staleness) tower.wait -= waited;
      }
      position_ = now.after;
      return report;
    } catch (...) {
      seek(position_);
      throw;
    }
  }

  Position position() const override { return position_; }

  void seek(const Position& position) override {
    input_->seek(position);
    coming_.clear();
    last_.reset();
    if constexpr (requires { strategy_->drop(); }) strategy_->drop();
    position_ = position;
  }

  void share(const Share& share) override {
    require_valid(share);
    if constexpr (TakesPortions<S, Batch>) {
      if (share == share_ || (share.whole() && share_.whole())) return;
      input_->share(share);  // or it goes on with whole batches
      share_ = share;
      if (input_->position() != position_) seek(position_);
    }
  }

  std::int64_t steps_per_epoch() const override { return steps_per_epoch_; }

  std::vector<std::string> phases() const override {
    std::vector<std::string> names;
    for (const Phase& phase : phases_)
      if (!phase.name.empty()) names.push_back(phase.name);
    return names;
  }

  std::vector<std::string> sets() const override {
    std::vector<std::string> names;
    for (const Set& set : sets_) names.push_back(set.name);
    return names;
  }

  std::optional<Summary> evaluate(std::size_t set, const Evaluating& evaluating) override {
    return sets_.at(set).evaluate(evaluating);
  }

  S& strategy() override { return *strategy_; }

 private:
  using Staged = typename AnyLoss<S, Batch>::Staged;

  struct Set {
    std::string name;
    std::function<std::optional<Summary>(const Evaluating&)> evaluate;
  };

  /// A step to come.
  struct Coming {
    const Phase* phase;
    std::shared_ptr<Staged> batch;
    Position after;  ///< of the input, once the step is done
  };

  const Phase& phase_at(std::int64_t step) const {
    std::int64_t round = 0;
    for (const Phase& phase : phases_) round += phase.steps;
    std::int64_t left = step % round;
    std::size_t i = 0;
    while (left >= phases_[i].steps) left -= phases_[i++].steps;
    return phases_[i];
  }

  static StepOptions how(const Phase& phase) {
    return {.update = phase.update, .phase = phase.name};
  }

  Staged staged(Batch batch) {
    if constexpr (TakesPortions<S, Batch>)
      return strategy_->stage(std::move(batch), input_->portion());
    else
      return strategy_->stage(std::move(batch));
  }

  /// False when the input has ended.
  bool stage_next() {
    const std::int64_t step = strategy_->steps() + std::ssize(coming_);
    const Phase& phase = phase_at(step);
    if (!phase.same_batch || !last_) {
      before_ = input_->position();
      auto batch = input_->next();
      if (!batch) return false;
      last_ = std::make_shared<Staged>(staged(std::move(*batch)));
    }
    // The batch comes again after a resume if the step after this one is to have it.
    coming_.push_back(
        {&phase, last_, phase_at(step + 1).same_batch ? before_ : input_->position()});
    phase.loss.begin(*strategy_, *last_, how(phase));
    return true;
  }

  std::unique_ptr<S> strategy_;
  Input input_;
  std::vector<Phase> phases_;
  std::int64_t steps_per_epoch_;
  Position position_;
  Share share_;
  std::deque<Coming> coming_;
  std::shared_ptr<Staged> last_;  // the batch that was read last, and where it began
  Position before_;
  std::vector<Set> sets_;
  std::map<std::string, std::string> files_;
  std::map<std::string, std::function<Image()>> images_;
};

}  // namespace lockstep
