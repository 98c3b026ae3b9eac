#include "strategy/engine.h"

#include <algorithm>

#include "device/accelerator.h"

namespace lockstep::strategy {
namespace {

/// On the CPUs of one machine an arena is one bucket: nothing moves.
std::int64_t bucket_bytes(const Where& where) {
  const bool accelerators =
      !where.devices.empty() && device::is_accelerator(where.devices.front().kind);
  return accelerators || where.machines ? where.exchange.bucket_bytes : 0;
}

}  // namespace

Engine::Engine(const MirroredOptions& options, const Factory& replica, detail::Making making,
               const Towers::MakeCollective& make_collective)
    : Core(options, replica, making, Ties::together, bucket_bytes(options.where), make_collective),
      balances_(options_.where.balance == Balance::automatic) {
  if (options_.method.async)
    throw ConfigError("method.async is of Async<Model>; leave it out, or use that.");
  if (options_.where.machines) compare_machines();
  towers_.make(replicas_.places());
  if (options_.where.on_device_failure == OnDeviceFailure::replay) {
    if (options_.where.machines) {
      neighbours_.emplace(options_.where.machines, map_);
    } else {
      rescue_.emplace(towers_, replicas_, map_);
      towers_.run([this](Tower& tower) { rescue_->mirror(tower); });
    }
  }
  if (const auto note = uneven_shards(options_.method.shards, roster().total()); !note.empty())
    notes_.add(note);
  if (options_.where.machines) note_traffic();
}

// One step on one tower: the whole algorithm. Only the calls of the collective cross towers.
Outcome Engine::train(Tower& tower, const ShardWork& work) {
  Outcome outcome{.selected = tower.pass.selected};
  runner_.run(tower, work);      // forward and backward of its shards, gradients summed up the tree
  if (!weigh(tower, outcome)) {  // weightless, or not finite and to be skipped
    tower.collective->skip(tower.rank, tower.gradients.sums());
    return outcome;
  }
  if (&tower == towers_.begin()) average_buffers();
  if (!reduce(tower, tower.slices, outcome)) return outcome;
  tower.pass.updates ? update(tower, outcome) : hand_out(tower, outcome);
  outcome.applied = true;
  return outcome;
}

/// Updates the tower's slices, while those that are done are on their way; afterwards it sees what
/// the others updated.
void Engine::update(Tower& tower, const Outcome& outcome) {
  tower.enter(Stage::update);
  for (std::size_t bucket = 0; bucket < tower.updates.size(); ++bucket) {
    tower.updates[bucket].apply(options_.method, moment(outcome), outcome.reached);
    tower.collective->updated(tower.rank, bucket);
  }
  tower.collective->gather(tower.rank);
}

/// Puts the tower's slices of the gradient together with those of the others.
void Engine::hand_out(Tower& tower, const Outcome& outcome) {
  const torch::NoGradGuard no_grad;
  std::vector<collective::ArenaPart> mine;
  for (std::size_t i = 0; i < tower.slices.size(); ++i) {
    const collective::GradientSlice& slice = tower.slices[i];
    if (outcome.clipped) torch::Tensor(slice.gradient).mul_(clip_factor(options_.method, outcome));
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

/// When it fails, no other machine waits for this one.
StepResult Engine::attempt(const ShardWork& work, Pass pass, Seconds begin) try {
  Outcome outcome;
  run_towers(work, pass, [&](Tower& tower) {
    Outcome own = train(tower, work);
    if (own.applied && pass.updates && rescue_) rescue_->mirror(tower);
    if (&tower == towers_.begin()) outcome = std::move(own);
  });
  if (!pass.updates) show_gradients(outcome);
  settle_buffers(outcome.applied);
  const std::vector<char> none(outcome.reached.size(), 0);  // their update is the caller's
  if (outcome.applied) numbers_.count(updates_++, pass.updates ? outcome.reached : none);
  if (outcome.applied) audits_ = false;
  if (options_.method.precision == Precision::float16 && (outcome.applied || outcome.overflow))
    loss_scale_.update(outcome.overflow);
  const std::int64_t step = steps_++;
  if (neighbours_) copy_to_neighbour();
  StepResult result = report(step, work, outcome, begin);
  if (neighbours_) neighbours_->confirm();  // all machines have reported
  if (balances_) balance(result);
  return result;
} catch (const std::exception& error) {
  if (options_.where.machines) options_.where.machines->abort(error.what());
  throw;
}

/// Prepares the buffers that will go with the updated weights. By the first tower, when the others
/// have computed their shards and cannot have begun to update.
void Engine::average_buffers() {
  require_same_modes();
  replicas_.average_buffers(buffers_of_all());
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
    Outcome outcome;
    run_towers(work, {.exchanges = false}, [&](Tower& tower) {
      Outcome own;
      runner_.run(tower, work);
      weigh(tower, own);
      if (&tower == towers_.begin()) outcome = own;
    });
    replicas_.restore_buffers();
    return report(steps_, work, outcome, begin);
  });
}

/// With its notes, and what the step took.
StepResult Engine::report(std::int64_t step, const ShardWork& work, const Outcome& outcome,
                          Seconds begin) {
  std::vector<std::string> said = notes_.take(outcome, map_);
  StepResult result = result_of(step, work, outcome, {towers_.begin(), towers_.end()});
  result.notes = std::move(said);
  if (options_.where.machines) gather_results(result);
  settle_times(result, now() - begin);
  return result;
}

/// Runs one step's `job` on all towers. When one fails, what the step has left is cleared away, and
/// the first error comes out as a TowerError.
void Engine::run_towers(const ShardWork& work, Pass pass, const Towers::Job& job) {
  check(!averaged_, "no step inside with_averaged_weights");
  torn_.require_whole();
  replicas_.adopt();
  agree("a step");
  if (neighbours_ && !copied_) {  // what the caller has changed
    copy_to_neighbour();
    options_.where.machines->all_gather({});
    neighbours_->confirm();
  }
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

/// False when the step cannot be replayed.
bool Engine::go_on_without(const TowerError& error) {
  if (!rescue_ || torn_ || averaged_ || !is_device_failure(error.cause)) return false;
  if (!rescue_->go_on_without(error.device, torn_)) return false;
  notes_.add(std::string(error.what()) + ". The other devices go on without it.");
  return true;
}

/// Gives slow devices fewer shards. The step is over: what fails here must not make it look as if
/// it had failed.
void Engine::balance(const StepReport& report) {
  const Ranges now = towers_.ranges();
  std::vector<Seconds> times;
  for (const TowerReport& tower : report.towers) {
    Seconds& time = shard_times_[tower.device];
    if (tower.shards > 0) time = smoothed(time, (tower.forward + tower.backward) / tower.shards);
    times.push_back(time);
  }
  const Ranges then = balanced(now, times);
  if (then == now) return;
  try {
    towers_.assign(then);
  } catch (const std::exception& error) {
    balances_ = false;
    notes_.add("shards stay where they are, for the exchange could not be planned anew: " +
               std::string(error.what()));
    try {
      towers_.assign(now);
    } catch (const std::exception&) {  // the next step plans it, or says why it cannot
    }
  }
}

void Engine::prepare_tasks() {
  surviving("evaluate", [this] { replicas_.adopt(); });
}

Place Engine::shown() {
  replicas_.touch();
  written_ = true;
  copied_ = false;
  return replicas_.first();
}

}  // namespace lockstep::strategy
