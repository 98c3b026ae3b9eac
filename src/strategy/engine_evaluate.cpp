#include "device/random_stream.h"
#include "strategy/engine.h"
#include "strategy/task_queue.h"

namespace lockstep::detail {

using strategy::Replica;
using strategy::Tower;

namespace {

/// Puts a replica into evaluation mode and back to exactly what it was, module by module.
class EvaluationMode {
 public:
  explicit EvaluationMode(Replica& replica) : replica_(replica) {
    for (const auto& module : replica.modules) training_.push_back(module->is_training());
    replica.module->eval();
  }
  ~EvaluationMode() {
    // train() goes down to children; they come after their parents here.
    for (std::size_t i = 0; i < training_.size(); ++i) replica_.modules[i]->train(training_[i]);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Replica& replica_;
  std::vector<bool> training_;
};

}  // namespace

void Engine::run_tasks(const std::function<Task()>& next) {
  require_whole();
  replicas_->adopt();
  replicas_->restore_buffers();
  strategy::TaskQueue queue(2 * towers_.size());
  std::atomic<Tower*> failed = nullptr;
  const std::function<void(int)> work = [&](int index) {
    Tower& tower = towers_[static_cast<std::size_t>(index)];
    tower.shard = -1;
    try {
      const torch::NoGradGuard no_grad;
      const EvaluationMode mode((*replicas_)[index]);
      while (const auto task = queue.pop()) {
        tower.generator.set_current_seed(
            device::stream_seed(options_.seed, device::kEvaluateStream, task->number));
        const device::RandomScope random(tower.generator);
        task->run(index);
      }
    } catch (...) {
      keep_first(failed, tower);
      queue.cancel();
    }
  };
  pool_->start(work);
  std::exception_ptr unreadable;  // what the caller's range threw
  try {
    for (std::int64_t number = 0;; ++number) {
      Task task = next();
      if (!task || !queue.push({number, std::move(task)})) break;
    }
    queue.close();
  } catch (...) {
    unreadable = std::current_exception();
    queue.cancel();
  }
  pool_->finish();
  replicas_->restore_buffers();  // should a metric have written to them
  if (unreadable) std::rethrow_exception(unreadable);
  if (failed) fail(*failed, "evaluate");
}

void Engine::with_averaged_weights(const std::function<void()>& evaluation) {
  if (!options_.moving_average)
    throw ConfigError("there are no averaged weights; set moving_average in MirroredOptions.");
  check(!averaged_, "with_averaged_weights does not nest");
  require_whole();
  replicas_->adopt();
  const auto swap = [this] {
    averaged_ = !averaged_;
    if (updates_ == 0) return;  // the average starts from the weights
    pool_->run([this](int tower) {
      for (auto& slice : towers_[static_cast<std::size_t>(tower)].updates) slice.swap_average();
    });
  };
  swap();
  try {
    evaluation();
  } catch (...) {
    swap();
    throw;
  }
  swap();
}

/// Flat parts of all towers put together, as named tensors.
std::vector<NamedTensor> Engine::named(
    const std::function<torch::Tensor(const optim::SliceUpdate&)>& part,
    const std::string& suffix) const {
  std::vector<NamedTensor> result;
  for (std::size_t i = 0; i < replicas_->layouts().size(); ++i) {
    std::vector<torch::Tensor> parts;
    for (const Tower& tower : towers_) parts.push_back(part(tower.updates[i]));
    const torch::Tensor flat = torch::cat(parts);
    for (const arena::Seat& seat : replicas_->layouts()[i].seats)
      result.push_back({seat.name + suffix, arena::view(flat, seat).clone()});
  }
  return result;
}

State Engine::state() const {
  require_whole();
  replicas_->adopt();
  const torch::NoGradGuard no_grad;
  State state;
  for (std::size_t i = 0; i < replicas_->layouts().size(); ++i)
    for (const arena::Seat& seat : replicas_->layouts()[i].seats)
      state.parameters.push_back(
          {seat.name, arena::view(replicas_->parameters()[i], seat).clone()});
  const optim::SliceUpdate& first = towers_.front().updates.front();
  for (std::size_t k = 0; k < first.slots().size(); ++k)
    for (NamedTensor& slot : named([k](const auto& slice) { return slice.slots()[k].value; },
                                   "/" + first.slots()[k].name))
      state.slots.push_back(std::move(slot));
  if (options_.moving_average)
    state.averages = named([](const auto& slice) { return slice.average(); }, "");
  state.gradients = named([](const auto& slice) { return slice.gradient(); }, "");
  for (const arena::Entry& entry : (*replicas_)[0].tensors.buffers)
    state.buffers.push_back({entry.name, entry.tensor.detach().clone()});
  return state;
}

}  // namespace lockstep::detail
