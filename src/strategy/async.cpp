#include <lockstep/async.h>

#include "strategy/async_engine.h"

namespace lockstep {

AsyncBase::AsyncBase(AsyncOptions options, const Factory& replica, detail::Making making)
    : engine_(std::make_unique<strategy::AsyncEngine>(std::move(options), replica, making)) {}

AsyncBase::~AsyncBase() = default;
AsyncBase::AsyncBase(AsyncBase&&) noexcept = default;
AsyncBase& AsyncBase::operator=(AsyncBase&&) noexcept = default;

std::string AsyncBase::name() const { return "async"; }
const Method& AsyncBase::method() const { return engine_->options().method; }
const Where& AsyncBase::where() const { return engine_->options().where; }
std::int64_t AsyncBase::lookahead() const { return engine_->lookahead(); }
Seconds AsyncBase::now() const { return engine_->now(); }
std::int64_t AsyncBase::steps() const { return engine_->steps(); }
std::int64_t AsyncBase::skipped() const { return engine_->skipped(); }
void AsyncBase::set_learning_rate(double lr) { engine_->set_learning_rate(0, lr); }

void AsyncBase::set_learning_rate(const std::string& group, double lr) {
  engine_->set_learning_rate(optim::group_number(method(), group), lr);
}

void AsyncBase::set_trainable(const std::string& pattern, bool trainable) {
  engine_->set_trainable(pattern, trainable);
}

State AsyncBase::state() const { return engine_->state(); }
void AsyncBase::load(const State& state) { engine_->load(state); }

void AsyncBase::with_averaged_weights(const std::function<void()>& evaluation) {
  engine_->with_averaged_weights(evaluation);
}

const torch::nn::Module& AsyncBase::module() const { return engine_->module(); }

void AsyncBase::set_optimizer(const Optimizer& optimizer) { engine_->set_optimizer(0, optimizer); }

void AsyncBase::set_optimizer(const std::string& group, const Optimizer& optimizer) {
  engine_->set_optimizer(optim::group_number(method(), group), optimizer);
}

void AsyncBase::reset_slots(const std::string& pattern) { engine_->reset_slots(pattern); }
torch::Device AsyncBase::device() const { return engine_->device(); }

std::optional<StepResult> AsyncBase::finish() {
  return engine_->begun() > 0 ? std::optional(engine_->step()) : std::nullopt;
}

void AsyncBase::drop() { engine_->drop(); }

void AsyncBase::run_begin(std::shared_ptr<const detail::ShardWork> work) {
  engine_->begin(std::move(work));
}

StepResult AsyncBase::run_step() { return engine_->step(); }
std::int64_t AsyncBase::begun() const { return engine_->begun(); }

void AsyncBase::run_tasks(const std::function<std::function<void(Place place)>()>& next) {
  engine_->run_tasks(next);
}

detail::Place AsyncBase::shown() { return engine_->shown(); }
torch::Device AsyncBase::device_of(Place place) const { return engine_->device_of(place); }

}  // namespace lockstep
