#include <algorithm>

#include "device/accelerator.h"
#include "strategy/async_engine.h"

namespace lockstep::strategy {

/// Takes over what the caller did to the model since the last call.
void AsyncEngine::adopt() {
  take_over();
  const Lock lock(mutex_);
  if (std::exchange(held_, false)) changed_.notify_all();
}

void AsyncEngine::take_over() {
  const Replicas::Written written = replicas_.written_home();
  Replica& home = replicas_[replicas_.first()];
  if (written.values) {
    if (home_version_ != versions_->newest())
      throw ConfigError(
          "the model was written through a reference from before the last step: call model() again "
          "each time you write.");
    if (device::is_accelerator(kind_)) {
      versions_->write(replicas_.parameters(replicas_.first()));
      if (!mirrored_versions_.empty()) mirrored_versions_.pop_back();
      mirror();
    }
    Version& newest = version_at(versions_->newest());
    newest.buffers.clear();
    for (const torch::Tensor& flat : home.buffers) newest.buffers.push_back(flat.clone());
  }
  std::vector<char> trainable = replicas_.trainable();
  if (!written.towers && trainable == trainable_) return;
  quiet();
  if (written.towers) replicas_.spread_home();
  trainable_ = std::move(trainable);
  compute_again();
}

/// All that was computed ahead is computed once more.
void AsyncEngine::compute_again() {
  for (Batch& batch : queue_) {
    give_back(batch.place, std::move(batch.gradient));
    Batch anew;
    anew.work = std::move(batch.work);
    anew.number = batch.number;
    anew.begun = clock();
    anew.selected = selection(anew.work->update);
    batch = std::move(anew);
  }
}

/// Afterwards the home replica has the newest weights and buffers.
void AsyncEngine::show_newest() {
  if (home_version_ == versions_->newest()) return;
  const Place home = replicas_.first();
  if (device::is_accelerator(kind_))
    versions_->pull(versions_->newest(), replicas_.parameters(home));
  else
    replicas_.seat_at(home, versions_->whole(versions_->newest()));
  copy_all(replicas_[home].buffers, version_at(versions_->newest()).buffers);
  home_version_ = versions_->newest();
}

const torch::nn::Module& AsyncEngine::module() {
  show_newest();
  return *replicas_[replicas_.first()].module;
}

Place AsyncEngine::shown() {
  // What is computed with the newest weights is computed again, for the caller may write them. In
  // Order::delay that is so before the first update only.
  const auto uses_newest = [this](const Batch& batch) {
    return version_of(batch) >= versions_->newest();
  };
  if (!free_ && std::ranges::any_of(queue_, uses_newest)) {
    quiet();
    compute_again();
  }
  show_newest();
  replicas_.touch();
  Lock lock(mutex_);
  held_ = true;
  changed_.wait(lock, [this] { return pulling_ == 0; });
  return replicas_.first();
}

void AsyncEngine::prepare_tasks() {
  surviving("evaluate", [this] {
    adopt();
    quiet();
    const Version& newest = version_at(versions_->newest());
    const auto failure = [&] {
      FirstFailure first;
      towers_.run([&](Tower& tower) {
        try {
          if (shares_)
            replicas_.seat_at(tower.place, versions_->whole(versions_->newest()));
          else
            versions_->pull(versions_->newest(), replicas_.parameters(tower.place));
          replicas_.begin_batch(tower.place, newest.buffers);
        } catch (...) {
          first.keep(tower);
        }
      });
      return first.get();
    }();
    require_success(failure, "evaluate");
  });
}

void AsyncEngine::with_averaged_weights(const std::function<void()>& evaluation) {
  if (!options_.method.moving_average)
    throw ConfigError("there are no averaged weights; set moving_average in AsyncOptions.");
  check(!averaged_, "with_averaged_weights does not nest");
  torn_.require_whole();
  adopt();
  quiet();
  swap_averages();
  try {
    evaluation();
  } catch (...) {
    swap_averages();
    throw;
  }
  swap_averages();
}

void AsyncEngine::swap_averages() {
  if (updates_ > 0) {  // before, the average is the weights
    versions_->prepare_swap();
    torn_.until_done([this] {
      versions_->swap_average();
      versions_->synchronize();
    });
    home_version_ = -1;
  }
  averaged_ = !averaged_;
}

void AsyncEngine::reset_slots(const std::string& pattern) {
  check(!averaged_, "no reset_slots inside with_averaged_weights");
  torn_.require_whole();
  const std::vector<char> chosen = matching("reset_slots: pattern", pattern, map_);
  versions_->reset_slots(options_.method, chosen);
  numbers_.reset(updates_, chosen);
}

State AsyncEngine::state() {
  torn_.require_whole();
  return surviving("state", [this] {
    adopt();
    quiet();
    show_newest();
    State state = state_of(replicas_[replicas_.first()].tensors);
    const std::vector<Flats> kept = versions_->kept();
    for (std::size_t i = 0; i < slots(); ++i)
      std::ranges::move(named(kept[i], map_.layouts, slot_naming(towers_.made_with(), i)),
                        std::back_inserter(state.slots));
    if (options_.method.moving_average) state.averages = named(kept.back(), map_.layouts);
    if (averaged_ && updates_ > 0) std::swap(state.parameters, state.averages);
    Flats whole = allocate(map_.layouts, torch::kCPU);
    for (std::int64_t v = versions_->oldest(); v < versions_->newest(); ++v) {
      versions_->pull(v, whole);
      state.older.push_back({.parameters = named(whole, map_.layouts),
                             .buffers = named(version_at(v).buffers, replicas_.buffer_layouts()),
                             .loss_scale = state.loss_scale > 0 ? version_at(v).loss_scale : 0});
    }
    state.gradients = named(last_gradient(), map_.layouts);
    return state;
  });
}

/// That was applied last, as it was applied; zeros if there was none.
Flats AsyncEngine::last_gradient() const {
  if (device::is_accelerator(kind_)) return versions_->landed();
  return last_.flats.empty() ? allocate(map_.layouts, torch::kCPU) : last_.flats;
}

void AsyncEngine::load(const State& state) {
  check(!averaged_, "no load inside with_averaged_weights");
  Loaded loaded = read(state);  // all that may be wrong with the state comes first
  std::vector<Flats> versions;
  std::vector<Version> beside;
  for (const OlderVersion& older : state.older) {
    versions.push_back(ByName(older.parameters).flats(map_.layouts));
    beside.push_back({.buffers = ByName(older.buffers).flats(replicas_.buffer_layouts()),
                      .loss_scale = older.loss_scale > 0 ? older.loss_scale : 1});
  }
  quiet();
  queue_.clear();
  take_scale(state);
  if (torn_) towers_.make(replicas_.places());
  replicas_.recover();
  versions.push_back(loaded.parameters);
  beside.push_back({.buffers = loaded.buffers, .loss_scale = loss_scale_.value()});
  while (versions.size() > beside_.size()) {
    versions.erase(versions.begin());
    beside.erase(beside.begin());
  }
  torn_.until_done([&] {
    make_versions();
    versions_->restore(versions, loaded.kept, state.steps);
    begin_versions();
    for (std::size_t i = 0; i < beside.size(); ++i)
      version_at(state.steps - static_cast<std::int64_t>(beside.size() - 1 - i)) = beside[i];
    take_numbers(state, std::move(loaded.numbers));
    next_number_ = steps_;
    home_version_ = -1;
    show_newest();
    Replica& home = replicas_[replicas_.first()];
    for (std::size_t i = 0; i < loaded.frozen.size(); ++i)
      copy_all({home.tensors.frozen[i].tensor}, {loaded.frozen[i]});
    replicas_.written_home();
    replicas_.spread_home();
  });
  take_flags(state);
  trainable_ = replicas_.trainable();
  spare_.clear();
  last_ = {};
  mirrored_versions_.clear();
  mirror();
}

/// The others take over the batches of a device that is lost, and its slices of the weights.
bool AsyncEngine::go_on_without(const TowerError& error) {
  if (options_.where.on_device_failure != OnDeviceFailure::replay || averaged_ ||
      !device::is_accelerator(kind_) || !is_device_failure(error.cause))
    return false;
  quiet();
  std::vector<Place> lost;
  for (const Place place : replicas_.places())
    if (towers_.device(place).name() == error.device || !device::answers(towers_.device(place)))
      lost.push_back(place);
  if (lost.empty() || lost.size() == replicas_.places().size()) return false;
  for (const Place place : lost) replicas_.retire(place);
  spare_.clear();
  last_ = {};
  torn_.until_done([this] {
    towers_.make(replicas_.places());
    make_versions();
    versions_->restore(mirrored_versions_, mirrored_kept_, steps_);
    begin_versions();
  });
  compute_again();
  notes_.add(std::string(error.what()) + ". The other devices go on without it.");
  return true;
}

}  // namespace lockstep::strategy
