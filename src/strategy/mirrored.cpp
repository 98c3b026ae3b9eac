#include <lockstep/mirrored.h>

#include "strategy/engine.h"

namespace lockstep {

std::vector<std::string> Strategy::device_names() const {
  std::vector<std::string> names;
  for (const Device& device : where().devices) names.push_back(device.name());
  return names;
}

MirroredBase::MirroredBase(MirroredOptions options, const Factory& replica, detail::Making making)
    : engine_(std::make_unique<strategy::Engine>(std::move(options), replica, making)) {}

MirroredBase::~MirroredBase() = default;
MirroredBase::MirroredBase(MirroredBase&&) noexcept = default;
MirroredBase& MirroredBase::operator=(MirroredBase&&) noexcept = default;

std::string MirroredBase::name() const { return "mirrored"; }
const Method& MirroredBase::method() const { return engine_->options().method; }
const Where& MirroredBase::where() const { return engine_->options().where; }
std::vector<std::string> MirroredBase::device_names() const { return engine_->roster().names; }
Share MirroredBase::share() const {
  const strategy::ShardRange own = engine_->share();
  return {.shards = method().shards, .first = own.first, .end = own.end};
}
Seconds MirroredBase::now() const { return engine_->now(); }
const torch::nn::Module& MirroredBase::module() const { return engine_->module(); }
std::int64_t MirroredBase::steps() const { return engine_->steps(); }
std::int64_t MirroredBase::skipped() const { return engine_->skipped(); }
void MirroredBase::set_learning_rate(double lr) { engine_->set_learning_rate(0, lr); }
void MirroredBase::reset_slots(const std::string& pattern) { engine_->reset_slots(pattern); }

void MirroredBase::set_learning_rate(const std::string& group, double lr) {
  engine_->set_learning_rate(optim::group_number(method(), group), lr);
}

void MirroredBase::set_optimizer(const Optimizer& optimizer) {
  engine_->set_optimizer(0, optimizer);
}

void MirroredBase::set_optimizer(const std::string& group, const Optimizer& optimizer) {
  engine_->set_optimizer(optim::group_number(method(), group), optimizer);
}

State MirroredBase::state() const { return engine_->state(); }

void MirroredBase::with_averaged_weights(const std::function<void()>& evaluation) {
  engine_->with_averaged_weights(evaluation);
}

StepResult MirroredBase::run_step(const detail::ShardWork& work) { return engine_->step(work); }

StepResult MirroredBase::run_gradients(const detail::ShardWork& work) {
  return engine_->gradients(work);
}

StepResult MirroredBase::run_compute(const detail::ShardWork& work) {
  return engine_->compute(work);
}

void MirroredBase::set_trainable(const std::string& pattern, bool trainable) {
  engine_->set_trainable(pattern, trainable);
}

torch::Device MirroredBase::device() const { return engine_->device(); }

void MirroredBase::run_stage(detail::Shards& shards) { engine_->stage(shards); }
detail::Place MirroredBase::shown() { return engine_->shown(); }
torch::Device MirroredBase::device_of(Place place) const { return engine_->device_of(place); }
void MirroredBase::load(const State& state) { engine_->load(state); }
std::optional<State> MirroredBase::rescue(const std::exception_ptr& failure) {
  return engine_->rescue(failure);
}

MirroredBase::Turn MirroredBase::turn() const {
  if (!where().machines) return {};
  return {where().machines->rank(), where().machines->size()};
}

std::vector<std::string> MirroredBase::all_results(const std::vector<std::string>& own) {
  return engine_->all_results(own);
}

void MirroredBase::call_off(const std::string& why) { where().machines->abort(why); }

void MirroredBase::run_tasks(const std::function<Task()>& next) { engine_->run_tasks(next); }

}  // namespace lockstep
