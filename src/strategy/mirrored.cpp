#include <lockstep/mirrored.h>

#include "strategy/engine.h"

namespace lockstep {

namespace detail {

std::int64_t rows_of(const torch::Tensor& leaf) {
  if (!leaf.defined()) return kUndefined;
  if (leaf.dim() == 0)
    throw ConfigError(
        "a tensor of the batch has 0 dimensions, and so no rows to cut; give it a first dimension "
        "with one element a row, or leave it out of tensors().");
  return leaf.size(0);
}

void require_same(const std::vector<std::int64_t>& rows) {
  std::size_t first = 0;
  while (first < rows.size() && rows[first] == kUndefined) ++first;
  if (first == rows.size() && first > 0)
    throw ConfigError("all tensors of the batch are undefined; at least one must have rows.");
  for (std::size_t i = first; i < rows.size(); ++i)
    if (rows[i] != kUndefined && rows[i] != rows[first])
      throw ConfigError("the batch's tensors have different numbers of rows: number " +
                        std::to_string(first) + " has " + std::to_string(rows[first]) +
                        ", number " + std::to_string(i) + " has " + std::to_string(rows[i]) +
                        ". A batch is cut by rows, so all must have the same; a type that is cut "
                        "otherwise offers shard(i, n), see lockstep/batch.h.");
}

}  // namespace detail

MirroredBase::MirroredBase(MirroredOptions options, const Factory& replica, detail::Making making)
    : engine_(std::make_unique<strategy::Engine>(std::move(options), replica, making)) {}

MirroredBase::~MirroredBase() = default;
MirroredBase::MirroredBase(MirroredBase&&) noexcept = default;
MirroredBase& MirroredBase::operator=(MirroredBase&&) noexcept = default;

std::string MirroredBase::name() const { return "mirrored"; }
const Method& MirroredBase::method() const { return engine_->options().method; }
const Where& MirroredBase::where() const { return engine_->options().where; }
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

void MirroredBase::run_tasks(const std::function<Task()>& next) { engine_->run_tasks(next); }

}  // namespace lockstep
