#include "device/accelerator.h"
#include "device/random_stream.h"
#include "strategy/evaluation.h"
#include "strategy/pipeline/pipeline_engine.h"

namespace lockstep::strategy {

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
      const Place place{device};
      Replica& model = (*models_)[place];
      const auto begin = [&] {
        copy_all(model.buffers, buffers);
        model.watch.begin_shard(model.tensors);
      };
      work_off(queue,
               {.place = place,
                .replica = model,
                .device = torch::Device(torch::kCPU),
                .generator = device::make_generator(Device{}),
                .begin = begin,
                .end = [&] { models_->check(place); }},
               options_.method);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!first) first = std::current_exception();
      queue.cancel();
    }
  };
  pool_.start(job);
  const std::exception_ptr unreadable = feed(queue, next);  // what the caller's range threw
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
