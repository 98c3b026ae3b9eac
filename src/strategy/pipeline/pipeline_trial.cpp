#include <algorithm>

#include "device/accelerator.h"
#include "device/device_scope.h"
#include "device/random_stream.h"
#include "strategy/pipeline/pipeline_engine.h"

namespace lockstep::strategy {
namespace {

/// While it lives, all parameters of a model that can have gradients do, so that graphs show them.
class AllTrainable {
 public:
  explicit AllTrainable(arena::Tensors& tensors) {
    for (auto* list : {&tensors.trainable, &tensors.frozen})
      for (arena::Entry& entry : *list)
        if (entry.tensor.is_floating_point() && !entry.tensor.requires_grad()) {
          entry.tensor.set_requires_grad(true);
          changed_.push_back(entry.tensor);
        }
  }
  ~AllTrainable() {
    for (torch::Tensor& tensor : changed_) tensor.set_requires_grad(false);
  }
  AllTrainable(const AllTrainable&) = delete;
  AllTrainable& operator=(const AllTrainable&) = delete;

 private:
  std::vector<torch::Tensor> changed_;
};

}  // namespace

void PipelineEngine::trial(detail::Shards& shards, const Trial& work) {
  whole().adopt();
  const Place place{0};
  Replica& model = models_->first();
  bool any = false;
  for (int shard = 0; shard < shards.count(); ++shard) {
    shards.at(shard).rows = shards.load(shard, torch::kCPU);
    if (shards.at(shard).rows == 0) continue;
    any = true;
    bool more = false;
    std::exception_ptr failure;
    pool_.run([&](int tower) {
      if (tower == 0) try {
          at::Generator generator = device::make_generator(Device{});
          generator.set_current_seed(device::stream_seed(options_.method.seed, steps_, shard));
          const device::RandomScope random(generator);
          const device::DeviceScope scope(torch::Device(torch::kCPU));
          const AllTrainable all(model.tensors);
          model.watch.begin_audit(model.tensors);  // writes that leave no version, too
          more = work(place, shard);
          model.watch.end_audit(model.tensors);
          model.parts.require_same(*model.module);
          models_->check(place);
        } catch (...) {
          failure = std::current_exception();
        }
    });
    drop_gradients(model.tensors.trainable);
    drop_gradients(model.tensors.frozen);
    if (whole().weights_written()) torn_.mark();
    whole().recover();
    if (failure)
      throw TowerError(Device{}.name(), steps_, shard, "trial of the stages on the CPU", failure);
    if (!more) return;
  }
  if (!any)
    throw ConfigError(
        "the batch of the first step has no rows, so there is nothing to find out with which "
        "stage uses which parameter; begin with another batch.");
}

/// Runs each stage once, cut off from the one before, and looks at its graph; with more shards
/// until all parameters were seen.
std::unique_ptr<StagePlan> PipelineEngine::plan_of(const detail::StageWork& work) {
  const arena::Tensors& tensors = models_->first().tensors;
  std::vector<Used> used(work.stages(), used_by({}, tensors));
  detail::Shards& shards = *work.shards.back();
  trial(shards, [&](Place place, int shard) {
    detail::Crossing crossing;
    for (std::size_t stage = 0; stage < work.parts.size(); ++stage) {
      crossing = work.parts[stage](place, shards, shard, std::move(crossing));
      used[stage].join(used_by(crossing.tensors, tensors));
      for (torch::Tensor& tensor : crossing.tensors)
        if (tensor.defined()) tensor = tensor.detach().requires_grad_(tensor.requires_grad());
    }
    const Loss loss = work.last(place, shards, shard, shards.at(shard).rows, std::move(crossing));
    used.back().join(used_by({loss.sum}, tensors));
    Used all;
    for (const Used& stage : used) all.join(stage);
    return std::ranges::find(all.trainable, 0) != all.trainable.end() ||
           std::ranges::find(all.frozen, 0) != all.frozen.end();
  });
  return std::make_unique<StagePlan>(used, tensors);
}

}  // namespace lockstep::strategy
