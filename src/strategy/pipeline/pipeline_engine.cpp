#include "strategy/pipeline/pipeline_engine.h"

#include <algorithm>
#include <cmath>

#include "device/accelerator.h"

namespace lockstep::strategy {

// One step on one device: the whole algorithm, as in Engine::train. Sums over the batch are those
// of the last stage, for the others bring none.
Outcome PipelineEngine::train(StageTower& at, const detail::StageWork& work) {
  Tower& tower = at.tower;
  Outcome outcome{.selected = tower.pass.selected};
  const auto sum = [&](const collective::SumTerms& terms) {
    return meeting_->sum(at.number, {&terms, 1});
  };
  const Adding adding{sum, at.number == 0};
  runner_->run(at, work);

  at.enter(Stage::reduce);
  if (!weigh(tower, adding, outcome)) return outcome;  // weightless, or not finite
  if (options_.method.clip.per_shard_norm > 0) {
    runner_->bring_norms(at, shard_norms_);
    meeting_->meet(at.number);
    runner_->clip_shards(at, shard_norms_);
  }
  reduce(at, outcome);
  if (!accept(tower, adding, options_.method, outcome)) return outcome;
  update(at, outcome);
  outcome.applied = true;
  return outcome;
}

/// Sums the stage's gradients over its towers; the norm is that of all stages.
void PipelineEngine::reduce(StageTower& at, Outcome& outcome) {
  Tower& tower = at.tower;
  std::vector<char> own(map_->seats.size());
  if (!tower.slices.empty())
    own = tower.collective->reduce(tower.rank, tower.gradients.sums(),
                                   outcome.weight * loss_scale_.value(), tower.slices);
  norm_->bring(at.stage_index(), tower, buckets_[at.stage_index()]);
  outcome.reached = meeting_->any(at.number, own);
  if (at.number == 0) squares_.assign(1, norm_->squares(kind()));
  tower.square_terms.assign(
      1, at.number == 0 ? collective::SumTerms(squares_) : collective::SumTerms());
  outcome.norm = std::sqrt(meeting_->sum(at.number, tower.square_terms));
}

/// Updates the tower's slices; afterwards it has what the others of its stage updated, and stages
/// that share its parameters have them too.
void PipelineEngine::update(StageTower& at, const Outcome& outcome) {
  const torch::NoGradGuard no_grad;
  Tower& tower = at.tower;
  at.enter(Stage::update);
  const optim::Moment moment = moment_of(options_.method, updates_, numbers_, outcome);
  for (optim::SliceUpdate& slice : tower.updates)
    slice.apply(options_.method, moment, outcome.reached);
  if (!tower.slices.empty()) tower.collective->gather(tower.rank);
  for (std::size_t stage = 0; stage < plan_->stages(); ++stage)
    for (auto& [parameter, copy] : memory_of(at.replica, stage).copies)
      if (plan_->owner(parameter) == at.stage_index())
        copy.copy_(room_of(at.replica, at.stage_index(), parameter), /*non_blocking=*/true);
}

StepResult PipelineEngine::step(const detail::StageWork& work) {
  if (static_cast<int>(work.stages()) != stages())
    throw ConfigError("the loss has " + std::to_string(work.stages()) + " parts, but there are " +
                      std::to_string(stages()) +
                      " stages; give stages(...) one function for each.");
  check(work.shards.front()->count() == options_.method.shards,
        "the batch was staged for other shards");
  takes_batch_ = work.takes_batch;
  const Seconds begin = now();
  return surviving("input", [&] { return attempt(work, begin); });
}

StepResult PipelineEngine::attempt(const detail::StageWork& work, Seconds begin) {
  check(!averaged_, "no step inside with_averaged_weights");
  torn_.require_whole();
  prepare(work);
  const Pass pass = begin_pass(work);
  Outcome outcome;
  const std::vector<char> trainable = whole().trainable();
  require_gradients(pass.selected);
  const std::optional<Failure> failure = run_together([&](StageTower& at) {
    at.tower.begin_step(*collectives_[at.stage_index()], pass);
    at.spans.assign(1, -1);
    at.last_buffers.clear();
    at.taken.clear();
    if (at.stage == 0) copy_all(at.memory->start, models_->first().buffers);
    Outcome own = train(at, work);
    if (own.applied && replays()) mirror(at);
    if (at.number == 0) outcome = std::move(own);
    at.tower.end_step();
  });
  require_gradients(trainable);
  if (failure) {
    const auto written = [this](const auto& at) {
      return std::ranges::any_of(at->modules, [this](Place place) {
        const Replica& model = (*models_)[place];
        return !model.watch.written(model.tensors).empty();
      });
    };
    if (failure->stage == Stage::update || std::ranges::any_of(towers_, written)) torn_.mark();
    clear_away();
    fail(*failure);
  }
  if (outcome.applied) {
    stale_ = true;
    settle_buffers();
    numbers_.count(updates_++, outcome.reached);
  }
  if (options_.method.precision == Precision::float16 && (outcome.applied || outcome.overflow))
    loss_scale_.update(outcome.overflow);
  return report(steps_++, work, outcome, begin);
}

Pass PipelineEngine::begin_pass(const detail::StageWork& work) {
  device::begin_step(kind(), steps_);
  for (const auto& at : towers_)
    for (const Place place : at->modules) {
      Replica& model = (*models_)[place];
      drop_gradients(model.tensors.trainable);
      model.watch.begin_step(model.tensors);
    }
  shard_norms_.assign(static_cast<std::size_t>(options_.method.shards),
                      {std::vector<double>(map_->seats.size())});
  return {.step = steps_,
          .loss_scale = loss_scale_.value(),
          .selected = selection_.of(work.update, whole().trainable(), *map_)};
}

/// Of all models: what the next backward is about.
void PipelineEngine::require_gradients(const std::vector<char>& wanted) {
  whole().require_gradients(wanted);
  for (const auto& at : towers_)
    for (const Place place : at->modules) {
      std::vector<arena::Entry>& entries = (*models_)[place].tensors.trainable;
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (entries[i].tensor.requires_grad() != static_cast<bool>(wanted[i]))
          entries[i].tensor.set_requires_grad(wanted[i]);
    }
}

/// What the last stages made of the buffers, as in Mirrored.
void PipelineEngine::settle_buffers() {
  std::vector<Flats> by_shard;
  for (const auto& at : towers_)
    by_shard.insert(by_shard.end(), at->last_buffers.begin(), at->last_buffers.end());
  whole().average_buffers(by_shard);
  whole().commit_buffers();
}

void PipelineEngine::run(const Job& job) {
  pool_.run([&](int device) {
    if (StageTower* at = tower_at_[static_cast<std::size_t>(device)]) job(*at);
  });
}

/// Runs `job`, in which towers may wait for each other; the first one to fail frees the others.
std::optional<Failure> PipelineEngine::run_together(const Job& job) {
  meeting_->reset();
  for (const auto& collective : collectives_) collective->reset();
  for (const auto& channel : channels_) channel->reset();
  FirstFailure first;
  run([&](StageTower& at) {
    try {
      job(at);
    } catch (const collective::Aborted&) {
    } catch (...) {
      first.keep(at.tower);
      meeting_->abort();
      for (const auto& collective : collectives_) collective->abort();
      for (const auto& channel : channels_) channel->abort();
    }
  });
  for (const auto& at : towers_) at->tower.shard = -1;
  return first.get();
}

/// What a failed step has left.
void PipelineEngine::clear_away() {
  for (const auto& at : towers_) {
    at->tower.gradients.clear();
    at->tied.clear();
    at->taken.clear();
    for (Flight& flight : at->flights) flight = {};
    for (const Place place : at->modules) drop_gradients((*models_)[place].tensors.trainable);
  }
  for (const auto& channel : channels_) channel->reset();
}

/// Throws a TowerError that names device, shard and stage. What fails in an update has lost the
/// weights.
void PipelineEngine::fail(const Failure& failure) const {
  int stage = 0;
  for (const auto& at : towers_)
    if (at->tower.device.name() == failure.device) stage = at->stage + 1;
  throw TowerError(failure.device, steps_, failure.shard,
                   "stage " + std::to_string(stage) + " of " + std::to_string(stages()) + ", " +
                       name_of(failure.stage),
                   failure.cause);
}

/// False when the step cannot be replayed. A replica that has lost a device goes as a whole; the
/// others, which have all of the model, take over its shards.
bool PipelineEngine::go_on_without(const TowerError& error) {
  if (!replays() || !plan_ || torn_ || averaged_ || !is_device_failure(error.cause)) return false;
  std::vector<int> left;
  for (const int replica : alive_) {
    bool whole = true;
    for (int stage = 0; stage < stages(); ++stage) {
      const Device& device = pool_.device(replica * stages() + stage);
      whole = whole && device.name() != error.device && device::answers(device);
    }
    if (whole) left.push_back(replica);
  }
  if (left.size() == alive_.size()) return false;
  if (left.empty())
    throw TowerError(
        error.device, error.step, error.shard,
        error.stage + "; no other replica has all of the model, so nobody can take it over",
        error.cause);
  alive_ = std::move(left);
  torn_.until_done([&] {
    make_towers();
    restore_kept(kept_);
  });
  notes_.add(std::string(error.what()) + ". The other replicas go on without its replica.");
  return true;
}

void PipelineEngine::set_trainable(const std::string& pattern, bool trainable) {
  std::vector<char> flags = whole().trainable();
  const std::vector<char> chosen = matching("set_trainable: pattern", pattern, *map_);
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (chosen[i]) flags[i] = trainable;
  whole().require_gradients(flags);
}

Place PipelineEngine::shown() {
  surviving("state", [this] { pull(); });
  shown_ = true;
  whole().touch();
  return {0};
}

const torch::nn::Module& PipelineEngine::module() {
  surviving("state", [this] { pull(); });
  return *models_->first().module;
}

}  // namespace lockstep::strategy
