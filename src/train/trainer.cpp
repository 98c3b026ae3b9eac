#include <lockstep/checkpoint.h>
#include <lockstep/error.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "train/tensor_file.h"
#include "train/trainer_impl.h"

namespace lockstep {
namespace {

/// Throws ConfigError for a parameter or buffer that no checkpoint can hold.
void require_savable(const torch::nn::Module& module) {
  const auto require = [](const auto& tensors) {
    for (const auto& tensor : tensors)
      if (const auto type = tensor->scalar_type(); !train::can_hold(type))
        throw ConfigError("'" + tensor.key() + "' is of type " + torch::toString(type) +
                          ", which a checkpoint cannot hold: register it as another type (a "
                          "complex tensor as torch::view_as_real of it), or give no folder for "
                          "checkpoints.");
  };
  require(module.named_parameters());
  require(module.named_buffers());
}

/// Throws NonFiniteError for weights that nobody could use or go on from.
void require_finite(const State& state) {
  for (const auto* tensors : {&state.parameters, &state.averages})
    for (const NamedTensor& tensor : *tensors)
      if (tensor.value.is_floating_point() && !torch::isfinite(tensor.value).all().item<bool>())
        throw NonFiniteError("after step " + std::to_string(state.steps) + " '" + tensor.name +
                             "' is infinite or not a number, so it is not saved");
}

}  // namespace

Trainer::Trainer(Job& job, TrainerOptions options, std::vector<Observer*> observers)
    : impl_(std::make_unique<Impl>(job, std::move(options), std::move(observers))) {}
Trainer::~Trainer() = default;
void Trainer::resume(const FoundCheckpoint& found) { impl_->resume(found); }
TrainingEnd Trainer::run() { return impl_->run(); }

Trainer::Impl::Impl(Job& job, TrainerOptions options, std::vector<Observer*> observers)
    : job_(job),
      machines_(job.strategy().where().machines.get()),
      options_(std::move(options)),
      observers_(std::move(observers)),
      method_(job.strategy().method()) {
  check_schedule(options_.schedule);
  if (!job.phases().empty() && std::holds_alternative<Plateau>(options_.schedule.shape))
    throw ConfigError(
        "a plateau schedule follows the training loss, and a job with phases has several: choose "
        "a schedule that depends on the step.");
  if (options_.report_every < 1) throw ConfigError("report_every must be at least 1 step.");
  if (!options_.clock) options_.clock = [&job] { return job.strategy().now(); };
  if (options_.averaged && !job.strategy().method().moving_average)
    throw ConfigError("averaged weights are to be evaluated, but there is no moving average.");
  if (!options_.goal.metric.empty() && job.sets().empty())
    throw ConfigError("there is a goal, '" + options_.goal.metric + "', but no set to evaluate.");
  progress_.step = job.strategy().steps();
  if (!decides() && !options_.folder.empty())
    throw ConfigError("the first machine alone saves; leave the folder empty on the others.");
  saves_ = agreed(!options_.folder.empty());
  if (options_.folder.empty()) return;
  require_savable(job.strategy().module());
  if (!options_.lock) options_.lock = lock_checkpoints(options_.folder);
  saver_.emplace(train::SaverOptions{.folder = options_.folder,
                                     .keep = options_.keep,
                                     .weight_files = options_.weight_files,
                                     .goal = full_goal()});
}

void Trainer::Impl::resume(const FoundCheckpoint& found) {
  namespace fs = std::filesystem;
  compare_method(found);
  for (const auto& [name, content] : job_.files()) {
    const auto own = found.checkpoint.files.find(name);
    if (own == found.checkpoint.files.end())
      throw ConfigError("'" + found.path + "' has no '" + name +
                        "': it is of another job, or of an older program. Begin anew in another "
                        "folder; its weights can be what that begins from.");
    if (own->second != content)
      throw ConfigError("'" + found.path + "' was trained with another '" + name +
                        "': use the one that is in it, or another folder to begin anew.");
  }
  take_over(found);
  resumed_ = true;
  if (!saver_) return;
  const bool own =
      fs::weakly_canonical(found.path).parent_path() == fs::weakly_canonical(options_.folder);
  saver_->set_aside_after(own ? progress_.step : -1);
  if (own) saved_step_ = progress_.step;
}

void Trainer::Impl::take_over(const FoundCheckpoint& found) {
  const Manifest& manifest = found.checkpoint.manifest;
  job_.strategy().load(found.checkpoint.state);
  job_.seek(manifest.progress.input);
  progress_ = manifest.progress;
  metrics_ = manifest.metrics;
  metrics_step_ = progress_.step;
}

/// Throws ConfigError when the checkpoint's method is another, and that was not allowed.
void Trainer::Impl::compare_method(const FoundCheckpoint& found) {
  std::string refused;
  changes_.clear();
  for (const FieldChange& change : changes(found.checkpoint.manifest, method_)) {
    changes_.push_back(describe(change));
    if (std::ranges::find(options_.changes, change.name) == options_.changes.end())
      refused += (refused.empty() ? "" : ", ") + describe(change);
  }
  if (!refused.empty())
    throw ConfigError("'" + found.path + "' was trained by another method (" + refused +
                      "): give it the same one, or name these fields in TrainerOptions::changes to "
                      "go on with the new one.");
}

TrainingEnd Trainer::Impl::run() {
  if (saver_ && !resumed_ && !list_checkpoints(options_.folder).empty())
    throw ConfigError("'" + options_.folder +
                      "' has checkpoints: resume from one of them, or give another folder.");
  start();
  std::exception_ptr failure;
  do try {
      return loop();
    } catch (...) {
      failure = std::current_exception();
    }
  while (go_on_without(failure));
  end_saves(/*with_what_is_there=*/!is_non_finite(failure));
  set_rates(1);
  std::rethrow_exception(failure);
}

void Trainer::Impl::start() {
  using Images = std::map<std::string, Image>;
  clock_ = now();
  session_begin_ = progress_.step;
  progress_.input = job_.position();
  const auto model = [this]() -> const torch::nn::Module& { return job_.strategy().module(); };
  tell(&Observer::started,
       TrainingStart{.model = model,
                     .progress = progress_,
                     .strategy = job_.strategy().name(),
                     .devices = job_.strategy().device_names(),
                     .shards = job_.strategy().method().shards,
                     .last_step = step_limit(options_.limits, job_.steps_per_epoch()),
                     .steps_per_epoch = job_.steps_per_epoch(),
                     .time_limit = options_.limits.seconds,
                     .plan = plan(),
                     .changes = changes_,
                     .images = resumed_ ? Images{} : job_.images()});
}

TrainingEnd Trainer::Impl::loop() {
  for (;;) {
    if (progress_.window.steps >= options_.report_every) report();
    Next next = decide();
    if (next.evaluate) {
      evaluate();
      next = decide();
    }
    if (next.ending) return end(*next.ending);
    if (next.save) save();
    if (!step()) return end(Ending::input_ended);
  }
}

/// Of method's optimizer and of those of its groups: what they began with, times `factor`.
void Trainer::Impl::set_rates(double factor) {
  Strategy& strategy = job_.strategy();
  strategy.set_learning_rate(learning_rate(method_.optimizer) * factor);
  for (const auto& [pattern, optimizer] : method_.groups)
    strategy.set_learning_rate(pattern, learning_rate(optimizer) * factor);
}

/// One step at the schedule's rate. False when the input has ended.
bool Trainer::Impl::step() {
  const double factor = rate_factor(options_.schedule, progress_.step, progress_.schedule);
  set_rates(factor);
  const auto report = job_.step();
  if (!report) return false;
  ++progress_.step;
  train::add_rows(progress_.rows, report->rows);
  progress_.input = job_.position();
  window_.add(*report, learning_rate(method_.optimizer) * factor, progress_.window);
  count_time();
  tell(&Observer::stepped, *report, progress_);
  return true;
}

TrainingReport Trainer::Impl::made_report() const {
  TrainingReport report = window_.report(progress_.window);
  const auto names =
      job_.strategy().device_names();  // towers of Async report in the order in which they come
  std::ranges::stable_sort(report.towers, {}, [&](const TowerReport& tower) {
    return std::ranges::find(names, tower.device) - names.begin();
  });
  report.progress = progress_;
  estimate(report);
  return report;
}

/// Tells of the steps since the last report, and begins anew.
void Trainer::Impl::report() {
  const TrainingReport made = made_report();
  if (progress_.window.weight > 0) note_loss(options_.schedule, progress_.schedule, made.loss);
  progress_.window = {};
  window_.clear();
  tell(&Observer::reported, made);
}

/// All sets; counts only when none of them was stopped.
void Trainer::Impl::evaluate() {
  if (job_.sets().empty()) return;
  std::vector<Evaluation> evaluations;
  const auto all_sets = [&] {
    for (std::size_t i = 0; i < job_.sets().size() && evaluations.size() == i; ++i)
      if (auto made = evaluate_set(i)) evaluations.push_back(std::move(*made));
  };
  if (options_.averaged)
    job_.strategy().with_averaged_weights(all_sets);
  else
    all_sets();
  count_time();
  if (evaluations.size() < job_.sets().size()) return;
  progress_.evaluated = mark();
  if (saved_step_ == progress_.step) saved_step_ = -1;  // that checkpoint does not know of it
  metrics_.clear();
  metrics_step_ = progress_.step;
  for (const Evaluation& evaluation : evaluations)
    for (const auto& [name, value] : evaluation.metrics)
      metrics_[evaluation.set + "/" + name] = value;
  const bool best = !goal_key().empty() && judge();
  for (Evaluation& evaluation : evaluations) {
    evaluation.best = best && goal_key().starts_with(evaluation.set + "/");
    tell(&Observer::evaluated, evaluation);
  }
}

/// Nothing when it was stopped.
std::optional<Evaluation> Trainer::Impl::evaluate_set(std::size_t i) {
  const std::string set = job_.sets()[i];
  const Seconds begin = now();
  auto result = job_.evaluate(i, [&](std::int64_t batches, std::int64_t total) {
    tell(&Observer::evaluating, set, batches, total);
    return !stopping();
  });
  if (!everywhere(result.has_value())) return std::nullopt;
  return Evaluation{.set = set,
                    .step = progress_.step,
                    .averaged = options_.averaged,
                    .took = now() - begin,
                    .metrics = std::move(result->metrics),
                    .images = std::move(result->images),
                    .texts = std::move(result->texts)};
}

/// Is the goal's metric better than ever before? Keeps count for early stopping.
bool Trainer::Impl::judge() {
  const auto found = metrics_.find(goal_key());
  if (found == metrics_.end()) {
    std::string known;
    for (const auto& [name, value] : metrics_) known += (known.empty() ? "" : ", ") + name;
    throw ConfigError("there is no metric '" + goal_key() + "' to judge by; there are: " + known);
  }
  const double value = score(full_goal(), metrics_);
  save_now_ = saver_ && saver_->among_best(value);
  const double best = options_.goal.higher_is_better ? progress_.best : -progress_.best;
  if (!(value > best || (std::isnan(best) && !std::isnan(value)))) {
    ++progress_.stale;
    return false;
  }
  progress_.best = found->second;
  progress_.best_step = progress_.step;
  progress_.stale = 0;
  return true;
}

bool Trainer::Impl::save_due() {
  if (!saver_) return false;
  tell_of_saves(/*wait=*/false);
  if (progress_.step == saved_step_) return false;
  // The loss of a machine is no loss of the training if there is a checkpoint from its beginning
  // on.
  if (machines_ && !resumed_ && saved_.empty() && save_error_.empty() && !saver_->busy())
    return true;
  return save_now_ || (due(options_.save, progress_.saved) && !saver_->busy());
}

/// Copies the state; the rest happens beside the training.
void Trainer::Impl::save() {
  const Seconds begin = now();
  tell_of_saves(/*wait=*/true);
  State state = job_.strategy().state();
  require_finite(state);
  save_now_ = false;
  saved_step_ = progress_.step;
  progress_.saved = mark();
  Checkpoint checkpoint{manifest(), std::move(state), job_.files()};
  if (saver_) saver_->start(std::move(checkpoint), now() - begin);
  count_time();
}

void Trainer::Impl::tell_of_saves(bool wait) {
  if (!saver_) return;
  for (const SaveReport& report : saver_->ended(wait)) {
    save_error_ = report.error;
    if (report.error.empty()) saved_ = report.path;
    tell(&Observer::saved, report);
  }
}

std::optional<Ending> Trainer::Impl::why_end() const {
  if (stopping()) return Ending::stopped;
  const Limits& limits = options_.limits;
  if (limits.steps > 0 && progress_.step >= limits.steps) return Ending::done;
  if (limits.epochs > 0 && progress_.epoch() >= limits.epochs) return Ending::done;
  if (limits.seconds > Seconds(0) && progress_.seconds >= limits.seconds.count())
    return Ending::done;
  if (options_.goal.patience > 0 && progress_.stale >= options_.goal.patience)
    return Ending::early_stop;
  return std::nullopt;
}

/// After a failure: the steps before it were sound, unless the towers say that they are torn. Those
/// of a training that has diverged lead to the same failure again, and are not saved.
void Trainer::Impl::end_saves(bool with_what_is_there) {
  if (!saves_) return;
  try {
    const bool more = progress_.step > session_begin_ && progress_.step != saved_step_;
    if (agreed(with_what_is_there && more)) save();
    tell_of_saves(/*wait=*/true);
  } catch (...) {  // what failed first is what the caller hears of
  }
}

TrainingEnd Trainer::Impl::end(Ending ending) {
  // The window stays: a training that goes on from here reports as if it had not stopped.
  StepWindow& window = progress_.window;
  if (window.told < window.steps && ending != Ending::stopped) {
    window.told = window.steps;
    if (saved_step_ == progress_.step) saved_step_ = -1;  // that checkpoint does not know of it
    tell(&Observer::reported, made_report());
  }
  if (agreed(ending != Ending::stopped && progress_.evaluated.step != progress_.step)) evaluate();
  if (saves_) {
    if (agreed(progress_.step != saved_step_)) save();
    tell_of_saves(/*wait=*/true);
    leave_together();
  }
  if (stopping()) ending = Ending::stopped;
  set_rates(1);
  const TrainingEnd result{ending, progress_, saved_, save_error_};
  tell(&Observer::ended, result);
  return result;
}

}  // namespace lockstep
