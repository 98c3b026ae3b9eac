#include <algorithm>

#include "device/accelerator.h"
#include "strategy/async_engine.h"

namespace lockstep::strategy {
namespace {

/// The newest buffers with what a batch has changed added: `made` of `start`. Where nothing else
/// has changed them meanwhile, what it made.
torch::Tensor changed(const torch::Tensor& newest, const torch::Tensor& start,
                      const torch::Tensor& made) {
  if (newest.is_same(start)) return made;
  const torch::Tensor touched = made.ne(start).logical_or_(made.ne(made));  // NaN counts
  const torch::Tensor alone = newest.eq(start);
  torch::Tensor both = made;
  if (made.is_floating_point() || made.is_complex()) {
    const auto wide = made.is_complex() ? torch::kComplexDouble : torch::kFloat64;
    both = (newest.to(wide) + made.to(wide) - start.to(wide)).to(made.scalar_type());
  } else if (made.scalar_type() != torch::kBool) {
    both = newest + (made - start);
  }
  return torch::where(touched, torch::where(alone, made, both), newest);
}

}  // namespace

/// Forward, backward and gradient of a batch, on its tower's thread. The weights are there.
void AsyncEngine::compute(Tower& tower, Batch& batch) {
  drop_gradients(replicas_[tower.place].tensors.trainable);
  replicas_.begin_batch(tower.place, batch.start.buffers);
  replicas_.require_gradients(tower.place, batch.selected);
  batch.outcome = gradient_of(tower, batch);
  tower.end_step();
  batch.result = result_of(batch.number, *batch.work, batch.outcome, {&tower, 1});
}

/// As Engine::train, up to the update.
Outcome AsyncEngine::gradient_of(Tower& tower, Batch& batch) {
  Outcome outcome{.selected = batch.selected};
  runner_.run(tower, *batch.work);
  if (!weigh(tower, outcome)) return outcome;
  for (const torch::Tensor& mean : Replicas::mean_of_buffers(tower.buffers))
    batch.buffers.push_back(mean.cpu());
  std::vector<collective::GradientSlice> slices = gradient_slices(tower.place, batch.gradient);
  outcome.applied = reduce(tower, slices, outcome);
  if (!device::is_accelerator(kind_)) return outcome;
  const c10::Stream compute = device::current_stream(tower.device);
  batch.gradient.ready = std::make_shared<c10::Event>(compute.device_type());
  batch.gradient.ready->record(compute);
  return outcome;
}

/// Memory for a gradient on the device of `place`, as slices that are whole arenas.
std::vector<collective::GradientSlice> AsyncEngine::gradient_slices(Place place,
                                                                    Gradient& gradient) {
  {
    const Lock lock(mutex_);
    if (std::vector<Gradient>& spare = spare_[place]; !spare.empty()) {
      gradient = std::move(spare.back());
      spare.pop_back();
    }
  }
  if (gradient.flats.empty()) gradient.flats = allocate(map_.layouts, replicas_.device(place));
  for (const auto& event : gradient.used)
    event->block(device::current_stream(towers_.device(place)));
  gradient.used.clear();
  const Tower& tower = *towers_.at(place);
  gradient.device = static_cast<std::size_t>(&tower - towers_.begin());
  std::vector<collective::GradientSlice> slices;
  for (std::size_t i = 0; i < map_.layouts.size(); ++i)
    slices.push_back({&map_.layouts[i],
                      {0, map_.layouts[i].size},
                      gradient.flats[i],
                      std::vector<double>(static_cast<std::size_t>(map_.layouts[i].blocks()))});
  return slices;
}

void AsyncEngine::give_back(Place place, Gradient gradient) {
  if (!gradient.flats.empty()) spare_[place].push_back(std::move(gradient));
}

/// The update of a batch, on the thread of any tower, one at a time: the next version of the
/// weights, or the same again when the batch is to be skipped.
void AsyncEngine::apply(Batch& batch) {
  Outcome& outcome = batch.outcome;
  Version next = next_version(batch);
  if (outcome.applied) {
    optim::Moment now = moment(outcome);
    now.compensation = how_.compensation;
    const bool then = free_ && how_.compensation != 0;
    versions_->update(options_.method, now, batch.gradient, outcome.reached, batch.version,
                      then ? replicas_.parameters(batch.place) : Flats{});
  } else {
    versions_->skip(batch.gradient);
  }
  mirror();  // a device that is lost up to here costs nothing but its time
  if (outcome.applied) numbers_.count(updates_++, outcome.reached);
  if (options_.method.precision == Precision::float16 && (outcome.applied || outcome.overflow))
    loss_scale_.update(outcome.overflow);
  next.loss_scale = loss_scale_.value();
  next.made = device::host_now(kind_);
  version_at(versions_->newest()) = std::move(next);
  batch.result.step = steps_++;
  batch.result.staleness = versions_->newest() - 1 - batch.version;
  const Lock lock(mutex_);
  newest_ = versions_->newest();
  if (outcome.applied) audits_ = false;
  give_back(last_place_, std::exchange(last_, std::move(batch.gradient)));
  last_place_ = batch.place;
}

/// Its buffers; the rest is filled in when the update is done.
AsyncEngine::Version AsyncEngine::next_version(const Batch& batch) const {
  const torch::NoGradGuard no_grad;
  const auto newest = static_cast<std::size_t>(versions_->newest()) % beside_.size();
  Version next{.buffers = beside_[newest].buffers};
  if (batch.outcome.applied)
    for (std::size_t i = 0; i < batch.buffers.size(); ++i)
      next.buffers[i] = changed(next.buffers[i], batch.start.buffers[i], batch.buffers[i]);
  return next;
}

/// Copies to the host what a device alone has, so that the others can go on without it.
void AsyncEngine::mirror() {
  if (options_.where.on_device_failure != OnDeviceFailure::replay || !device::is_accelerator(kind_))
    return;
  Flats newest = allocate(map_.layouts, torch::kCPU);
  versions_->pull(versions_->newest(), newest);
  std::vector<Flats> kept = versions_->kept();  // nothing is taken over before all of it is here
  mirrored_kept_ = std::move(kept);
  mirrored_versions_.push_back(std::move(newest));
  if (mirrored_versions_.size() > beside_.size())
    mirrored_versions_.erase(mirrored_versions_.begin());
}

}  // namespace lockstep::strategy
