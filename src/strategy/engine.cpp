#include "strategy/engine.h"

#include <algorithm>
#include <cmath>

#include "device/accelerator.h"
#include "optim/rules.h"

namespace lockstep::strategy {

namespace {

/// What sums over the batch are divided by, when `weight` is the sum of all shards' weights.
double divisor(const Tower& tower, double weight) {
  if (!std::isinf(weight)) return weight;
  const auto counts = [](double own) { return own > 0 && !std::isinf(own); };
  if (std::ranges::any_of(tower.weights, counts))
    throw ConfigError(
        "some shards returned Loss::total, others a mean or a sum with a weight; all shards of a "
        "step return the same kind.");
  return 1;
}

}  // namespace

Engine::Engine(MirroredOptions options, const Factory& replica, detail::Making making,
               const Towers::MakeCollective& make_collective)
    : options_(validated(std::move(options))),
      pool_(options_.where.devices),
      replicas_(make_replicas(options_, pool_, replica, making)),
      map_(replicas_.layouts(), device::is_accelerator(options_.where.devices.front().kind)
                                    ? options_.where.exchange.bucket_bytes
                                    : 0),
      towers_(options_.method, options_.where, pool_, replicas_, map_, make_collective),
      runner_(options_.method, replicas_, map_, towers_),
      loss_scale_(options_.method.precision == Precision::float16 ? options_.method.loss_scaling
                                                                  : LossScaling{.initial = 1}),
      balances_(options_.where.balance == Balance::automatic) {
  towers_.make(replicas_.places());
  if (options_.where.on_device_failure == OnDeviceFailure::replay) {
    rescue_.emplace(towers_, replicas_, map_);
    towers_.run([this](Tower& tower) { rescue_->mirror(tower); });
  }
  for (const std::string& note : {oversubscription(options_.where.devices, inventory()),
                                  uneven_shards(options_.method.shards, towers_.size())})
    if (!note.empty()) pending_notes_.push_back(note);
}

// One step on one tower: the whole algorithm. Only the calls of the collective cross towers.
Engine::Outcome Engine::train(Tower& tower, const ShardWork& work) {
  Outcome outcome{.selected = tower.pass.selected};
  collective::Collective& all = *tower.collective;
  runner_.run(tower, work);  // forward and backward of its shards, gradients summed up the tree

  tower.enter(Stage::reduce);
  outcome.weight = divisor(tower, all.sum(tower.rank, {&tower.weight_terms, 1}));
  if (outcome.weight < 1 && all.sum(tower.rank, {&tower.counting_terms, 1}) > 0) outcome.weight = 1;
  outcome.loss = all.sum(tower.rank, {&tower.loss_terms, 1}) / outcome.weight;
  if (!std::isfinite(outcome.loss)) return outcome;  // weightless, or not finite and to be skipped
  if (tower.rank == 0) average_buffers();
  outcome.reached = all.reduce(tower.rank, tower.gradients.sums(),
                               outcome.weight * loss_scale_.value(), tower.slices);
  outcome.norm = std::sqrt(all.sum(tower.rank, tower.square_terms));
  if (!acceptable(tower, outcome)) return outcome;
  const double limit = options_.method.clip.global_norm;
  outcome.clipped = limit > 0 && outcome.norm > limit;

  tower.pass.updates ? update(tower, outcome) : hand_out(tower, outcome);
  outcome.applied = true;
  return outcome;
}

/// Updates the tower's slices; afterwards it sees what the others updated.
void Engine::update(Tower& tower, const Outcome& outcome) {
  tower.enter(Stage::update);
  const optim::Moment moment{.updates = updates_,
                             .clip_factor = clip_factor(outcome),
                             .average_keep = average_keep(),
                             .numbers = numbers_.get(),
                             .selected = outcome.selected};
  for (optim::SliceUpdate& slice : tower.updates)
    slice.apply(options_.method, moment, outcome.reached);
  tower.collective->gather(tower.rank);
}

/// Puts the tower's slices of the gradient together with those of the others.
void Engine::hand_out(Tower& tower, const Outcome& outcome) {
  const torch::NoGradGuard no_grad;
  std::vector<collective::ArenaPart> mine;
  for (std::size_t i = 0; i < tower.slices.size(); ++i) {
    const collective::GradientSlice& slice = tower.slices[i];
    if (outcome.clipped) torch::Tensor(slice.gradient).mul_(clip_factor(outcome));
    mine.push_back({map_.buckets[i].arena, slice.range, slice.gradient});
  }
  tower.collective->collect(tower.rank, mine, handed_out_);
}

/// Afterwards the gradients that were handed out are those of the model's parameters. Before the
/// buffers follow: should a device be lost, the step starts over.
void Engine::show_gradients(const Outcome& outcome) {
  Flats here;
  try {
    for (const torch::Tensor& flat : handed_out_) here.push_back(flat.to(device()));
  } catch (...) {
    recover();
    throw;
  }
  for (std::size_t i = 0; i < map_.layouts.size(); ++i)
    for (const arena::Seat& seat : map_.layouts[i].seats)
      if (outcome.applied && outcome.reached[seat.entry])
        replicas_[replicas_.first()].tensors.trainable[seat.entry].tensor.mutable_grad() =
            arena::alone(here[i], seat);
}

double Engine::clip_factor(const Outcome& outcome) const {
  return outcome.clipped ? options_.method.clip.global_norm / outcome.norm : 1;
}

/// Whether a step with this gradient norm is to be applied. All towers come to the same answer; to
/// refuse the step, the one that has the bad shard throws.
bool Engine::acceptable(Tower& tower, Outcome& outcome) {
  if (std::isfinite(outcome.norm)) return true;
  outcome.overflow = loss_scale_.value() > 1;
  if (outcome.overflow || options_.method.non_finite == NonFinite::skip) return false;
  const int shard = tower.gradients.non_finite_shard();
  tower.culprits.assign(1, shard >= 0 ? 1.0 : 0.0);
  tower.culprit_terms = tower.culprits;
  const double culprits = tower.collective->sum(tower.rank, {&tower.culprit_terms, 1});
  if (shard >= 0 || (culprits == 0 && tower.rank == 0)) {
    tower.shard = shard;
    throw NonFiniteError(shard >= 0 ? "the gradient is not finite"
                                    : "the sum of the gradients is not finite");
  }
  return false;
}

double Engine::average_keep() const {
  if (!options_.method.moving_average) return 0;
  const auto step = static_cast<double>(updates_);
  const auto [decay, warm_up] = *options_.method.moving_average;
  return warm_up ? std::min(decay, (1 + step) / (10 + step)) : decay;
}

StepResult Engine::step(const ShardWork& work) {
  const Seconds begin = now();
  return surviving(name_of(Stage::input), [&] { return attempt(work, {}, begin); });
}

StepResult Engine::gradients(const ShardWork& work) {
  if (options_.method.moving_average)
    throw ConfigError(
        "moving_average follows Lockstep's own updates; after gradients() the update is yours: "
        "leave it out, and average the weights after your optimizer's step.");
  if (handed_out_.empty()) handed_out_ = allocate(map_.layouts, torch::kCPU);
  const Seconds begin = now();
  return surviving(name_of(Stage::input), [&] { return attempt(work, {.updates = false}, begin); });
}

StepResult Engine::attempt(const ShardWork& work, Pass pass, Seconds begin) {
  Outcome outcome;
  run_towers(work, pass, [&](Tower& tower) {
    Outcome own = train(tower, work);
    if (own.applied && pass.updates && rescue_) rescue_->mirror(tower);
    if (tower.rank == 0) outcome = std::move(own);
  });
  if (!pass.updates) show_gradients(outcome);
  settle_buffers(outcome.applied);
  const std::vector<char> none(outcome.reached.size(), 0);  // their update is the caller's
  if (outcome.applied) numbers_.count(updates_++, pass.updates ? outcome.reached : none);
  if (outcome.applied) audits_ = false;
  if (options_.method.precision == Precision::float16 && (outcome.applied || outcome.overflow))
    loss_scale_.update(outcome.overflow);
  StepResult result = report(steps_++, work, outcome, begin);
  if (balances_) balance();
  return result;
}

/// Of scripts, which all have run by now.
void Engine::require_same_modes() {
  for (const Tower* tower = towers_.begin() + 1; tower < towers_.end(); ++tower)
    (tower - 1)->scripts.require_same_modes((tower - 1)->device.name(), tower->scripts,
                                            tower->device.name());
}

/// Prepares the buffers that will go with the updated weights. By the first tower, when the others
/// have computed their shards and cannot have begun to update.
void Engine::average_buffers() {
  require_same_modes();
  std::vector<Flats> by_shard;
  for (const Tower& tower : towers_)
    by_shard.insert(by_shard.end(), tower.buffers.begin(), tower.buffers.end());
  replicas_.average_buffers(by_shard);
}

/// After an applied step the buffers follow the weights, else they are what they were.
void Engine::settle_buffers(bool applied) try {
  if (!applied) return replicas_.restore_buffers();
  torn_.until_done([this] { replicas_.commit_buffers(); });
} catch (const DeviceLost& lost) {
  throw TowerError(lost.device, steps_, -1, name_of(Stage::update), std::current_exception());
}

StepResult Engine::compute(const ShardWork& work) {
  const Seconds begin = now();
  return surviving(name_of(Stage::input), [&] {
    run_towers(work, {.exchanges = false}, [&](Tower& tower) { runner_.run(tower, work); });
    replicas_.restore_buffers();
    Mean loss;
    for (const Tower& tower : towers_)
      for (std::size_t i = 0; i < tower.losses.size(); ++i)
        loss += {tower.losses[i], tower.weights[i]};
    loss.weight = divisor(towers_.front(), loss.weight);
    const auto counts = [](const Tower& tower) {
      return std::ranges::find(tower.counting, 1) != tower.counting.end();
    };
    if (loss.weight < 1 && std::ranges::any_of(towers_, counts)) loss.weight = 1;
    return report(steps_, work, {.loss = loss.value(), .weight = loss.weight}, begin);
  });
}

/// Runs one step's `job` on all towers. When one fails, what the step has left is cleared away, and
/// the first error comes out as a TowerError.
void Engine::run_towers(const ShardWork& work, Pass pass, const Towers::Job& job) {
  check(!averaged_, "no step inside with_averaged_weights");
  torn_.require_whole();
  replicas_.adopt();
  collective::Collective& collective = towers_.collective();
  device::begin_step(options_.where.devices.front().kind, steps_);
  for (const Place place : replicas_.places())  // should the caller have run a backward of its own
    drop_gradients(replicas_[place].tensors.trainable);
  pass.step = steps_;
  pass.loss_scale = loss_scale_.value();
  pass.audits = audits_;
  const std::vector<char> trainable = replicas_.trainable();
  pass.selected = selection(work.update);
  replicas_.require_gradients(pass.selected);
  const std::optional<Failure> failure = towers_.run_together([&](Tower& tower) {
    tower.begin_step(collective, pass);
    job(tower);
    tower.end_step();
  });
  replicas_.require_gradients(trainable);
  if (!failure) return;
  if (failure->stage == Stage::update || replicas_.weights_written()) torn_.mark();
  recover();
  for (Tower& tower : towers_) {
    tower.gradients.clear();
    drop_gradients(replicas_[tower.place].tensors.trainable);
  }
  require_success(failure, name_of(failure->stage));
}

/// What a failed step has left in the replicas is cleared away.
void Engine::recover() {
  try {
    replicas_.recover();
  } catch (...) {  // the error that counts is the step's
  }
}

/// By parameter: whether it is trained in a step on those that match `update`.
std::vector<char> Engine::selection(const std::string& update) {
  std::vector<char> selected = replicas_.trainable();
  std::vector<char>& meant = matches_[update];
  if (meant.empty())
    for (const arena::Seat* seat : map_.seats) meant.push_back(optim::matches(update, seat->name));
  for (std::size_t i = 0; i < selected.size(); ++i) selected[i] = selected[i] && meant[i];
  if (std::ranges::find(selected, 1) == selected.end())
    throw ConfigError("update = '" + update +
                      "' matches no trainable parameter; the model's first is '" +
                      map_.seats.front()->name + "'.");
  return selected;
}

void Engine::set_trainable(const std::string& pattern, bool trainable) {
  bool any = false;
  std::vector<char> flags = replicas_.trainable();
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (optim::matches(pattern, map_.seats[i]->name)) {
      flags[i] = trainable;
      any = true;
    }
  if (!any)
    throw ConfigError("set_trainable: '" + pattern +
                      "' matches no parameter that was trainable when the towers were made; the "
                      "first is '" +
                      map_.seats.front()->name + "'.");
  replicas_.require_gradients(flags);
}

void Engine::require_success(const std::optional<Failure>& failure, const char* stage) const {
  if (failure) throw TowerError(failure->device, steps_, failure->shard, stage, failure->cause);
}

/// False when the step cannot be replayed.
bool Engine::go_on_without(const TowerError& error) {
  if (!rescue_ || torn_ || averaged_ || !is_device_failure(error.cause)) return false;
  if (!rescue_->go_on_without(error.device, torn_)) return false;
  pending_notes_.push_back(std::string(error.what()) + ". The other devices go on without it.");
  return true;
}

/// Gives slow devices fewer shards. The step is over: what fails here must not make it look as if
/// it had failed.
void Engine::balance() {
  Ranges now;
  std::vector<Seconds> times;
  for (const Tower& tower : towers_) {
    const Seconds all = tower.clock.in(Stage::forward) + tower.clock.in(Stage::backward);
    Seconds& time = shard_times_[tower.place];
    if (tower.computed > 0) time = smoothed(time, all / tower.computed);
    times.push_back(time);
    now.push_back(tower.shards);
  }
  const Ranges then = balanced(now, times);
  if (then == now) return;
  try {
    towers_.assign(then);
  } catch (const std::exception& error) {
    balances_ = false;
    pending_notes_.push_back(
        "shards stay where they are, for the exchange could not be planned anew: " +
        std::string(error.what()));
    try {
      towers_.assign(now);
    } catch (const std::exception&) {  // the next step plans it, or says why it cannot
    }
  }
}

Place Engine::shown() {
  replicas_.touch();
  return replicas_.first();
}

torch::Device Engine::device_of(Place place) const {
  return device::torch_device(towers_.device(place));
}

}  // namespace lockstep::strategy
