#include <lockstep/pipeline.h>

#include "optim/rules.h"
#include "strategy/pipeline/pipeline_engine.h"

namespace lockstep {

PipelineBase::PipelineBase(PipelineOptions options, const Factory& replica, detail::Making making)
    : engine_(std::make_unique<strategy::PipelineEngine>(std::move(options), replica, making)) {}

PipelineBase::~PipelineBase() = default;
PipelineBase::PipelineBase(PipelineBase&&) noexcept = default;
PipelineBase& PipelineBase::operator=(PipelineBase&&) noexcept = default;

std::string PipelineBase::name() const { return "pipeline"; }
const Method& PipelineBase::method() const { return engine_->options().method; }
const Where& PipelineBase::where() const { return engine_->options().where; }
Seconds PipelineBase::now() const { return engine_->now(); }
std::int64_t PipelineBase::steps() const { return engine_->steps(); }
std::int64_t PipelineBase::skipped() const { return engine_->skipped(); }
const torch::nn::Module& PipelineBase::module() const { return engine_->module(); }
State PipelineBase::state() const { return engine_->state(); }
void PipelineBase::load(const State& state) { engine_->load(state); }
void PipelineBase::reset_slots(const std::string& pattern) { engine_->reset_slots(pattern); }
void PipelineBase::set_learning_rate(double lr) { engine_->set_learning_rate(0, lr); }

void PipelineBase::set_learning_rate(const std::string& group, double lr) {
  engine_->set_learning_rate(optim::group_number(method(), group), lr);
}

void PipelineBase::set_optimizer(const Optimizer& optimizer) {
  engine_->set_optimizer(0, optimizer);
}

void PipelineBase::set_optimizer(const std::string& group, const Optimizer& optimizer) {
  engine_->set_optimizer(optim::group_number(method(), group), optimizer);
}

void PipelineBase::set_trainable(const std::string& pattern, bool trainable) {
  engine_->set_trainable(pattern, trainable);
}

void PipelineBase::with_averaged_weights(const std::function<void()>& evaluation) {
  engine_->with_averaged_weights(evaluation);
}

StepResult PipelineBase::run_step(const detail::StageWork& work) { return engine_->step(work); }
void PipelineBase::run_stage(const std::vector<detail::Shards*>& shards) { engine_->stage(shards); }
void PipelineBase::run_tasks(const std::function<Task()>& next) { engine_->run_tasks(next); }

void PipelineBase::run_trial(detail::Shards& shards,
                             const std::function<bool(Place place, int shard)>& work) {
  engine_->trial(shards, work);
}

std::size_t PipelineBase::replicas(const Options& options) { return strategy::places_of(options); }
detail::Place PipelineBase::shown() { return engine_->shown(); }
torch::Device PipelineBase::device_of(Place) const { return torch::kCPU; }
int PipelineBase::stage_count() const { return engine_->options().stages; }

}  // namespace lockstep
