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
void work_off(TaskQueue& tasks, Place place, StageModels& models, const Flats& buffers,
              const Method& method) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(models[place]);
  const device::DeviceScope scope(torch::Device(torch::kCPU));
  const device::AutocastScope autocast(torch::kCPU, method.precision);
  at::Generator generator = device::make_generator(Device{});
  while (const auto task = tasks.pop()) {
    copy_all(models[place].buffers, buffers);
    models[place].watch.begin_shard(models[place].tensors);
    generator.set_current_seed(
        device::stream_seed(method.seed, device::kEvaluateStream, task->number));
    const device::RandomScope random(generator);
    task->run(place);
    models.check(place);
  }
}

}  // namespace

/// On the CPU, where the whole model is, by the threads of all devices.
void PipelineEngine::run_tasks(const std::function<Task()>& next) {
  surviving("evaluate", [this] { pull(); });
  whole().adopt();
  for (int device = 0; device < pool_.size(); ++device) {
    models_->share_frozen({device});
    (*models_)[{device}].watch.begin_step((*models_)[{device}].tensors);
  }
  Flats buffers;
  for (const torch::Tensor& flat : models_->first().buffers) buffers.push_back(flat.clone());
  TaskQueue queue(2 * static_cast<std::size_t>(pool_.size()));
  std::mutex mutex;
  std::exception_ptr first;
  const std::function<void(int)> job = [&](int device) {
    try {
      work_off(queue, {device}, *models_, buffers, options_.method);
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
  for (int device = 0; device < pool_.size(); ++device) {
    const Replica& model = (*models_)[{device}];
    if (!model.watch.written(model.tensors).empty()) torn_.mark();
  }
  whole().recover();  // should a metric have written to buffers
  if (unreadable) std::rethrow_exception(unreadable);
  if (first) throw TowerError(Device{}.name(), steps_, -1, "evaluate", first);
}

void PipelineEngine::with_averaged_weights(const std::function<void()>& evaluation) {
  if (!options_.method.moving_average)
    throw ConfigError("there are no averaged weights; set moving_average in the method.");
  check(!averaged_, "with_averaged_weights does not nest");
  surviving("evaluate", [this] { pull(); });
  whole().adopt();
  const Flats& parameters = whole().parameters({0});
  if (updates_ > 0) {  // before, the average is the weights
    const Flats averages = surviving("evaluate", [this] { return collect_kept(); }).back();
    for (const torch::Tensor& flat : parameters) weights_.push_back(flat.clone());
    copy_all(parameters, averages);
  }
  averaged_ = true;
  const auto put_back = [&] {
    if (!weights_.empty()) copy_all(parameters, weights_);
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
