#include "device/autocast.h"
#include "device/device_scope.h"
#include "device/random_stream.h"
#include "strategy/engine.h"
#include "strategy/task_queue.h"

namespace lockstep::detail {

using strategy::Replica;

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
  surviving("evaluate", [this] { replicas_->adopt(); });
  strategy::TaskQueue queue(2 * towers_.size());
  std::atomic<Tower*> failed = nullptr;
  const std::function<void(int)> work = [&](int place) {
    if (!tower_at(place)) return;
    Tower& tower = *tower_at(place);
    tower.shard = -1;
    try {
      const torch::NoGradGuard no_grad;
      const EvaluationMode mode((*replicas_)[place]);
      const device::DeviceScope scope(device_of(place));
      const device::AutocastScope autocast(device_of(place).type(), options_.method.precision);
      while (const auto task = queue.pop()) {
        replicas_->begin_shard(place);
        tower.generator.set_current_seed(
            device::stream_seed(options_.method.seed, device::kEvaluateStream, task->number));
        const device::RandomScope random(tower.generator);
        task->run(place);
        replicas_->check_shard(place);
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
  torn_ = replicas_->weights_written();
  try {
    replicas_->recover();        // should a metric have written to buffers
  } catch (const DeviceLost&) {  // the next step meets it
  }
  if (unreadable) std::rethrow_exception(unreadable);
  if (failed) fail(*failed, "evaluate");
}

void Engine::with_averaged_weights(const std::function<void()>& evaluation) {
  if (!options_.method.moving_average)
    throw ConfigError("there are no averaged weights; set moving_average in MirroredOptions.");
  check(!averaged_, "with_averaged_weights does not nest");
  require_whole();
  surviving("evaluate", [this] {
    replicas_->adopt();
    swap_averages();
  });
  try {
    evaluation();
  } catch (...) {
    swap_averages();
    throw;
  }
  swap_averages();
}

/// Exchanges weights and averages, on all towers or on none.
void Engine::swap_averages() {
  if (updates_ > 0) {  // before, the average is the weights
    if (!collective_) collective_ = make_collective();
    Tower* failed = first_to_fail([](Tower& tower) {
      for (optim::SliceUpdate& slice : tower.updates) slice.prepare_swap();
    });
    if (failed) fail(*failed, "evaluate");
    torn_ = true;  // until all have swapped
    failed = first_to_fail([this](Tower& tower) {
      for (optim::SliceUpdate& slice : tower.updates) slice.swap_average();
      collective_->gather(tower.index);
    });
    if (failed) fail(*failed, "evaluate");
    torn_ = false;
  }
  averaged_ = !averaged_;
}

}  // namespace lockstep::detail
