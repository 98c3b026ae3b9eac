#include "device/accelerator.h"
#include "strategy/pipeline/pipeline_engine.h"
#include "strategy/ready_hook.h"

namespace lockstep::strategy {

StageMemory& PipelineEngine::memory_of(int replica, std::size_t stage) {
  return memories_[{accelerators() ? replica : 0, stage}];
}

/// Where a stage has a parameter that it holds.
torch::Tensor PipelineEngine::room_of(int replica, std::size_t stage, std::size_t parameter) {
  const bool copied = accelerators() && plan_->owner(parameter) != stage;
  if (copied) return memory_of(replica, stage).copies.at(parameter);
  const OwnSeat& own = seats_[parameter];
  return arena::view(memory_of(replica, plan_->owner(parameter)).parameters[own.layout], *own.seat);
}

/// Memory for the parameters of every stage, and all models seated there.
void PipelineEngine::make_memory() {
  const torch::NoGradGuard no_grad;
  layouts_.clear();
  buckets_.clear();
  for (std::size_t stage = 0; stage < plan_->stages(); ++stage) {
    layouts_.emplace_back(map_->layouts, *plan_, stage);
    buckets_.push_back(arena::buckets(layouts_.back().layouts,
                                      accelerators() ? options_.where.exchange.bucket_bytes : 0));
  }
  seats_.assign(map_->seats.size(), {});
  for (const StageLayout& stage : layouts_)
    for (std::size_t i = 0; i < stage.layouts.size(); ++i)
      for (const arena::Seat& seat : stage.layouts[i].seats) seats_[seat.entry] = {i, &seat};
  norm_ = std::make_unique<StageNorm>(map_->layouts, layouts_);
  const arena::Tensors& shown = models_->first().tensors;
  for (const int replica : alive_)
    for (std::size_t stage = 0; stage < plan_->stages(); ++stage) {
      StageMemory& memory = memory_of(replica, stage);
      if (!memory.parameters.empty() || !memory.start.empty()) continue;
      const torch::Device device =
          device::torch_device(pool_.device(replica * stages() + static_cast<int>(stage)));
      memory.parameters = allocate(layouts_[stage].layouts, device);
      if (stage == 0) memory.start = allocate(whole().buffer_layouts(), device);
      if (!accelerators()) continue;
      for (const arena::Seat* seat : map_->seats)
        if (plan_->holds(stage, seat->entry) && plan_->owner(seat->entry) != stage)
          memory.copies[seat->entry] =
              torch::empty_strided(seat->sizes, seat->strides,
                                   shown.trainable[seat->entry].tensor.options().device(device));
      for (std::size_t i = 0; i < shown.frozen.size(); ++i)
        if (plan_->holds_frozen(stage, i))
          memory.frozen[i] = shown.frozen[i].tensor.detach().to(device);
    }
}

void PipelineEngine::seat(const StageTower& at) {
  const torch::NoGradGuard no_grad;
  const int device = at.replica * stages() + at.stage;
  for (const Place place : at.modules) {
    Replica& model = (*models_)[place];
    for (std::size_t i = 0; i < map_->seats.size(); ++i) {
      torch::Tensor& tensor = model.tensors.trainable[i].tensor;
      const std::size_t owner = plan_->owner(i);
      if (!accelerators() || owner == at.stage_index())
        arena::seat(tensor, memory_of(at.replica, owner).parameters[seats_[i].layout],
                    *seats_[i].seat);
      else if (plan_->holds(at.stage_index(), i))
        tensor.set_data(at.memory->copies.at(i));
      names_.name(tensor, map_->seats[i]->name);
      call_when_ready(tensor, [this, device, place, i] {
        if (StageTower* tower = tower_at_[static_cast<std::size_t>(device)])
          runner_->gradient_ready(*tower, place, i);
      });
    }
    if (!accelerators()) continue;
    for (auto& [i, tensor] : at.memory->frozen) model.tensors.frozen[i].tensor.set_data(tensor);
    model.buffers = allocate(whole().buffer_layouts(), device::torch_device(at.tower.device));
    for (std::size_t i = 0; i < model.buffers.size(); ++i)
      for (const arena::Seat& seat : whole().buffer_layouts()[i].seats)
        arena::seat(model.tensors.buffers[seat.entry].tensor, model.buffers[i], seat);
  }
}

/// From the whole model to all stages.
void PipelineEngine::push() {
  const torch::NoGradGuard no_grad;
  const arena::Tensors& shown = models_->first().tensors;
  for (const int replica : alive_)
    for (std::size_t stage = 0; stage < plan_->stages(); ++stage) {
      for (std::size_t i = 0; i < shown.trainable.size(); ++i)
        if (plan_->owner(i) == stage || (accelerators() && plan_->holds(stage, i)))
          room_of(replica, stage, i).copy_(shown.trainable[i].tensor);
      for (auto& [i, tensor] : memory_of(replica, stage).frozen)
        tensor.copy_(shown.frozen[i].tensor);
    }
  versions_ = versions();
  shown_ = false;
}

/// From the stages to the whole model, if it has not got the last update.
void PipelineEngine::pull() {
  torn_.require_whole();
  if (!stale_) return;
  const torch::NoGradGuard no_grad;
  const Flats& flats = whole().parameters({0});
  for (std::size_t i = 0; i < flats.size(); ++i)
    for (const arena::Seat& seat : map_->layouts[i].seats)
      arena::view(flats[i], seat)
          .copy_(room_of(alive_.front(), plan_->owner(seat.entry), seat.entry));
  stale_ = false;
}

/// Grows whenever an operator writes to one of the whole model's tensors.
std::int64_t PipelineEngine::versions() const {
  const arena::Tensors& tensors = models_->first().tensors;
  std::int64_t sum = 0;
  for (const auto* list : {&tensors.trainable, &tensors.frozen})
    for (const arena::Entry& entry : *list) sum += entry.tensor._version();
  return sum;
}

}  // namespace lockstep::strategy
