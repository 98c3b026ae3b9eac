#include "device/accelerator.h"
#include "device/autocast.h"
#include "device/device_scope.h"
#include "device/random_stream.h"
#include "strategy/core.h"
#include "strategy/task_queue.h"

namespace lockstep::strategy {
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

/// Takes tasks out of a queue until there are no more, and runs them on a tower.
void work_off(TaskQueue& tasks, Tower& tower, Replicas& replicas, const Method& method) {
  const torch::Device device = device::torch_device(tower.device);
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(replicas[tower.place]);
  tower.scripts.clear();
  const Scripts::Scope noting(tower.scripts);
  const device::DeviceScope scope(device);
  const device::AutocastScope autocast(device.type(), method.precision);
  while (const auto task = tasks.pop()) {
    replicas.begin_shard(tower.place);
    tower.generator.set_current_seed(
        device::stream_seed(method.seed, device::kEvaluateStream, task->number));
    const device::RandomScope random(tower.generator);
    task->run(tower.place);
    replicas.check_shard(tower.place);
  }
}

}  // namespace

void Core::run_tasks(const std::function<Task()>& next) {
  torn_.require_whole();
  prepare_tasks();
  TaskQueue queue(2 * static_cast<std::size_t>(towers_.size()));
  FirstFailure first;
  const Towers::Job job = [&](Tower& tower) {
    try {
      work_off(queue, tower, replicas_, options_.method);
    } catch (...) {
      first.keep(tower);
      queue.cancel();
    }
  };
  towers_.start(job);
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
  towers_.finish();
  if (replicas_.weights_written()) torn_.mark();
  try {
    replicas_.recover();         // should a metric have written to buffers
  } catch (const DeviceLost&) {  // the next step meets it
  }
  if (unreadable) std::rethrow_exception(unreadable);
  require_success(first.get(), "evaluate");
  require_same_modes();
}

}  // namespace lockstep::strategy
