#include "strategy/async_engine.h"

#include <algorithm>

#include "device/accelerator.h"

namespace lockstep::strategy {
namespace {

MirroredOptions checked(MirroredOptions options) {
  if (!options.method.async) options.method.async.emplace();
  const Asynchrony& how = *options.method.async;
  if (how.delay < 0 || how.delay > 1024)
    throw ConfigError("async.delay is " + std::to_string(how.delay) +
                      "; it must be from 0 to 1024. Devices beyond delay + 1 have nothing to do.");
  if (how.staleness && *how.staleness < 0)
    throw ConfigError("async.staleness is " + std::to_string(*how.staleness) +
                      "; it must be 0 or more, or not be there.");
  if (how.staleness && how.order == Order::delay)
    throw ConfigError(
        "async.staleness bounds Order::free; in Order::delay each gradient is as late as "
        "async.delay "
        "says: leave it out.");
  if (!(how.compensation >= 0 && how.compensation < 1e6))
    throw ConfigError("async.compensation must be 0 or more.");
  refuse_machines(options.where, "Async");
  if (options.where.balance == Balance::automatic)
    throw ConfigError(
        "balance = automatic deals out the shards of a batch; in asynchronous training a device "
        "takes the next batch when it is free, which balances by itself: leave it out.");
  return options;
}

}  // namespace

AsyncEngine::AsyncEngine(MirroredOptions options, const Factory& replica, detail::Making making)
    : Core(checked(std::move(options)), replica, making, Ties::alone, /*bucket_bytes=*/0),
      how_(*options_.method.async),
      kind_(options_.where.devices.front().kind),
      free_(how_.order == Order::free),
      shares_(!free_ && !device::is_accelerator(kind_)),
      virtual_(kind_ == DeviceKind::sim),
      beside_(free_ ? 1 : static_cast<std::size_t>(how_.delay) + 1),
      job_([this](Tower& tower) { serve(tower); }) {
  towers_.make(replicas_.places());
  make_versions();
  Flats weights = allocate(map_.layouts, torch::kCPU), buffers;
  copy_all(weights, replicas_.parameters(replicas_.first()));
  for (const torch::Tensor& flat : replicas_[replicas_.first()].buffers)
    buffers.push_back(flat.clone());
  versions_->restore({weights}, {}, 0);
  begin_versions();
  version_at(0) = {.buffers = std::move(buffers), .loss_scale = loss_scale_.value()};
  trainable_ = replicas_.trainable();
  show_newest();
  replicas_.written_home();
  if (free_ && !device::is_accelerator(kind_))
    for (const Place place : replicas_.places())
      replicas_.seat_at(place, allocate(map_.layouts, torch::kCPU));
  mirror();
  if (const int useful = free_ ? towers_.size() : how_.delay + 1; useful < towers_.size())
    notes_.add("async.delay is " + std::to_string(how_.delay) + ", so " + std::to_string(useful) +
               " of the " + std::to_string(towers_.size()) +
               " devices have work; a larger delay is another result.");
}

AsyncEngine::~AsyncEngine() { quiet(); }

void AsyncEngine::make_versions() {
  std::vector<Device> owners;
  for (const Tower& tower : towers_) owners.push_back(tower.device);
  versions_.reset();
  versions_ = std::make_unique<Versions>(towers_.made_with(), map_, owners,
                                         static_cast<int>(beside_.size()) - 1);
}

/// Towers may take what was restored.
void AsyncEngine::begin_versions() {
  newest_ = versions_->newest();
  first_version_ = versions_->oldest();
}

std::int64_t AsyncEngine::lookahead() const { return free_ ? towers_.size() : how_.delay; }

void AsyncEngine::begin(std::shared_ptr<const ShardWork> work) {
  check(!averaged_, "no step inside with_averaged_weights");
  torn_.require_whole();
  adopt();
  run();
  std::vector<char> selected = selection(work->update);
  {
    const Lock lock(mutex_);
    Batch& batch = queue_.emplace_back();
    batch.work = std::move(work);
    batch.number = next_number_++;
    batch.selected = std::move(selected);
    batch.begun = clock();
  }
  changed_.notify_all();
}

void AsyncEngine::drop() {
  quiet();
  for (Batch& batch : queue_) give_back(batch.place, std::move(batch.gradient));
  queue_.clear();
  next_number_ = steps_;
}

StepResult AsyncEngine::step() {
  check(!averaged_, "no step inside with_averaged_weights");
  torn_.require_whole();
  check(!queue_.empty(), "step() needs a batch that was begun");
  const Seconds begin = now();
  adopt();
  device::begin_step(kind_, steps_);
  try {
    StepResult result = surviving(name_of(Stage::input), [this] { return wait_for_update(); });
    result.time = now() - begin;
    return result;
  } catch (...) {
    drop();
    throw;
  }
}

StepResult AsyncEngine::wait_for_update() {
  run();
  Lock lock(mutex_);
  open_ = true;
  changed_.notify_all();
  const auto failed = [this]() -> const Batch* {  // in its turn, unless nobody is left for that
    const bool all_gone = std::ranges::all_of(
        standing_, [](const auto& each) { return each.second.at == Standing::At::gone; });
    const auto found = std::ranges::find_if(queue_, [&](const Batch& batch) {
      return batch.failure && (free_ || all_gone || &batch == &queue_.front());
    });
    return found == queue_.end() ? nullptr : &*found;
  };
  changed_.wait(lock, [&] { return applied_ || torn_by_ || failed(); });
  open_ = false;
  if (!applied_) {
    const Failure failure = torn_by_ ? *torn_by_ : *failed()->failure;
    const std::int64_t step = torn_by_ ? steps_ : failed()->number;
    lock.unlock();
    fail(failure, step);
  }
  Batch batch = std::move(*applied_);
  applied_.reset();
  lock.unlock();
  device::host_reaches(kind_, version_at(versions_->newest()).made);
  batch.result.notes = notes_.take(batch.outcome, map_);
  return std::move(batch.result);
}

/// Nothing of the batch was applied, unless it was its update that failed.
void AsyncEngine::fail(const Failure& failure, std::int64_t step) {
  quiet();
  if (torn_by_ || replicas_.weights_written()) torn_.mark();
  torn_by_.reset();
  try {
    replicas_.recover();
  } catch (...) {  // the error that counts is the step's
  }
  for (Tower& tower : towers_) {
    tower.gradients.clear();
    tower.shard = -1;
    drop_gradients(replicas_[tower.place].tensors.trainable);
  }
  compute_again();
  throw TowerError(failure.device, step, failure.shard, name_of(failure.stage), failure.cause);
}

void AsyncEngine::run() {
  if (running_) return;
  {
    const Lock lock(mutex_);
    ending_ = false;
    standing_.clear();
    started_ = now();
    for (const Place place : replicas_.places()) standing_[place].since = started_;
  }
  running_ = true;
  towers_.start(job_);
}

void AsyncEngine::quiet() {
  if (!running_) return;
  {
    const Lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  towers_.finish();
  running_ = false;
}

/// A tower at work: it applies what can be applied, else computes what can be computed, else waits.
void AsyncEngine::serve(Tower& tower) {
  Lock lock(mutex_);
  Standing& own = standing_[tower.place];
  while (!ending_ && own.at != Standing::At::gone) {
    own.at = Standing::At::waiting;
    own.since = std::max(own.since, device::host_now(kind_));
    changed_.notify_all();
    changed_.wait(lock, [&] { return ending_ || (has_work(tower.place) && in_turn(tower.place)); });
    if (ending_) break;
    own.at = Standing::At::working;
    device::host_reaches(kind_, own.since);
    if (Batch* batch = to_apply(tower.place))
      apply_next(tower, *batch, lock);
    else
      compute_next(tower, *to_compute(tower.place), own.since, lock);
  }
  own.at = Standing::At::gone;
  changed_.notify_all();
}

/// The batch that is next to be applied, if this tower is to do that now: who computed it, or
/// anybody when that one is at work already.
AsyncEngine::Batch* AsyncEngine::to_apply(Place place) {
  if (!open_ || applying_ || applied_ || torn_by_ || pulling_ > 0) return nullptr;
  const auto can = [&](Batch& batch) {
    return batch.state == Batch::State::done && !batch.failure &&
           (batch.place == place || standing_[batch.place].at != Standing::At::waiting);
  };
  if (!free_) return !queue_.empty() && can(queue_.front()) ? &queue_.front() : nullptr;
  const auto found = std::ranges::find_if(queue_, [&](Batch& batch) {
    return batch.place == place && can(batch) && within_bound(batch);
  });
  return found == queue_.end() ? nullptr : &*found;
}

/// The batch that this tower can compute now.
AsyncEngine::Batch* AsyncEngine::to_compute(Place place) {
  if (free_ && (applying_ || held_)) return nullptr;
  int at_work = 0;
  for (const Batch& batch : queue_) {
    if (batch.state == Batch::State::waiting) continue;
    if (free_ && batch.place == place) return nullptr;  // its own gradient comes first
    ++at_work;
  }
  if (free_ && how_.staleness && at_work > *how_.staleness) return nullptr;
  const auto waiting = std::ranges::find(queue_, Batch::State::waiting, &Batch::state);
  if (waiting == queue_.end()) return nullptr;
  return free_ || waiting->number - how_.delay <= newest_ ? &*waiting : nullptr;
}

/// Whether every other gradient at work can still be applied within the bound, if this one is now
/// and the others in the order in which they were begun.
bool AsyncEngine::within_bound(const Batch& applied) const {
  if (!how_.staleness) return true;
  std::int64_t before = 0;  // at work, and begun before
  for (const Batch& other : queue_) {
    if (&other == &applied || other.state == Batch::State::waiting) continue;
    if (newest_ + 1 - other.version + before > *how_.staleness) return false;
    ++before;
  }
  return true;
}

/// Where time is virtual, whoever comes first by it goes first, so that a run repeats exactly: none
/// of the others may come before this tower any more.
bool AsyncEngine::in_turn(Place place) {
  if (!virtual_) return true;
  if (!open_) return false;
  const Seconds own = standing_[place].since;
  return std::ranges::none_of(standing_, [&](const auto& other) {
    const auto& [its, standing] = other;
    if (standing.at == Standing::At::gone || its == place) return false;
    if (standing.at == Standing::At::coming) return true;
    if (standing.at == Standing::At::working) return standing.since < own;
    return (standing.since < own || (standing.since == own && its < place)) && has_work(its);
  });
}

void AsyncEngine::claim(Batch& batch, Place place) {
  batch.state = Batch::State::computing;
  batch.place = place;
  batch.version = free_ ? newest_ : version_of(batch);
  batch.audits = audits_;
  batch.start = version_at(batch.version);
}

void AsyncEngine::compute_next(Tower& tower, Batch& batch, Seconds idle_since, Lock& lock) {
  claim(batch, tower.place);
  device::host_reaches(kind_, std::max(batch.begun, batch.start.made));
  standing_[tower.place].since = device::host_now(kind_);
  standing_[tower.place].at = Standing::At::coming;
  pulling_ += free_;
  lock.unlock();
  std::optional<Failure> failure;
  const auto attempt = [&](const auto& work) {
    try {
      if (!failure) work();
    } catch (...) {
      failure = current_failure(tower);
    }
  };
  const Seconds idle = device::host_now(kind_) - idle_since;
  attempt([&] {
    towers_.collective_of(tower).reset();
    tower.begin_step(towers_.collective_of(tower), {.step = batch.number,
                                                    .loss_scale = batch.start.loss_scale,
                                                    .audits = batch.audits,
                                                    .exchanges = false,
                                                    .selected = batch.selected});
    if (shares_)
      replicas_.seat_at(tower.place, versions_->whole(batch.version));
    else
      versions_->pull(batch.version, replicas_.parameters(tower.place));
  });
  lock.lock();
  pulling_ -= free_;
  standing_[tower.place].at = Standing::At::working;
  changed_.notify_all();  // others may be in turn
  lock.unlock();
  attempt([&] { compute(tower, batch); });
  const Seconds done = device::host_now(kind_);
  if (options_.where.trace)
    options_.where.trace->add(tower.device.name(), "batches",
                              "batch " + std::to_string(batch.number), idle_since + idle, done);
  lock.lock();
  batch.at = done;
  batch.failure = std::move(failure);
  batch.state = Batch::State::done;
  if (batch.failure && is_device_failure(batch.failure->cause))
    standing_[tower.place].at = Standing::At::gone;
  if (!batch.result.towers.empty()) batch.result.towers.front().wait += idle;
  changed_.notify_all();
}

void AsyncEngine::apply_next(Tower& tower, Batch& batch, Lock& lock) {
  applying_ = true;
  lock.unlock();
  std::optional<Failure> failure;
  const Seconds begin = device::host_now(kind_);
  try {
    device::host_reaches(kind_, batch.at);
    apply(batch);
    if (!batch.result.towers.empty())
      batch.result.towers.front().update += device::host_now(kind_) - begin;
  } catch (...) {
    failure = current_failure(tower);
    failure->stage = Stage::update;
  }
  lock.lock();
  applying_ = false;
  if (failure) {
    torn_by_ = std::move(failure);
  } else {
    open_ = false;
    applied_ = std::move(batch);
    std::erase_if(queue_, [&](const Batch& each) { return &each == &batch; });
  }
  changed_.notify_all();
}

}  // namespace lockstep::strategy
