#include "device/autocast.h"
#include "device/device_scope.h"
#include "device/random_stream.h"
#include "strategy/pipeline/pipeline_engine.h"
#include "strategy/task_queue.h"

#include "device/accelerator.h"

namespace lockstep::strategy {
namespace {

/// Puts a model into evaluation mode and back to exactly what it was, module by module.
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

/// Takes tasks out of a queue until there are no more, and runs them on the model at `place`.
void work_off(TaskQueue& tasks, Place place, Replicas& models, const Method& method) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(models[place]);
  const device::DeviceScope scope(torch::Device(torch::kCPU));
  const device::AutocastScope autocast(torch::kCPU, method.precision);
  at::Generator generator = device::make_generator(Device{});
  while (const auto task = tasks.pop()) {
    models.begin_shard(place);
    generator.set_current_seed(
        device::stream_seed(method.seed, device::kEvaluateStream, task->number));
    const device::RandomScope random(generator);
    task->run(place);
    models.check_shard(place);
  }
}

}  // namespace

/// On the CPU, where the whole model is, by the threads of all devices.
void PipelineEngine::run_tasks(const std::function<Task()>& next) {
  surviving("evaluate", [this] { pull(); });
  models_->adopt();
  TaskQueue queue(2 * models_->places().size());
  std::mutex mutex;
  std::exception_ptr first;
  const std::function<void(int)> job = [&](int device) {
    try {
      work_off(queue, {device}, *models_, options_.method);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!first) first = std::current_exception();
      queue.cancel();
    }
  };
  pool_.start(job);
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
  pool_.finish();
  if (models_->weights_written()) torn_.mark();
  models_->recover();  // should a metric have written to buffers
  if (unreadable) std::rethrow_exception(unreadable);
  if (first) throw TowerError(Device{}.name(), steps_, -1, "evaluate", first);
}

void PipelineEngine::with_averaged_weights(const std::function<void()>& evaluation) {
  if (!options_.method.moving_average)
    throw ConfigError("there are no averaged weights; set moving_average in the method.");
  check(!averaged_, "with_averaged_weights does not nest");
  surviving("evaluate", [this] { pull(); });
  models_->adopt();
  const Flats& whole = models_->parameters(models_->first());
  if (updates_ > 0) {  // before, the average is the weights
    const Flats averages = surviving("evaluate", [this] { return collect_kept(); }).back();
    for (const torch::Tensor& flat : whole) weights_.push_back(flat.clone());
    copy_all(whole, averages);
  }
  averaged_ = true;
  const auto put_back = [&] {
    if (!weights_.empty()) copy_all(whole, weights_);
    weights_.clear();
    averaged_ = false;
  };
  try {
    evaluation();
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

}  // namespace lockstep::strategy
