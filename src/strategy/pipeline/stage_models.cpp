#include "strategy/pipeline/stage_models.h"

#include <lockstep/error.h>

#include <utility>

namespace lockstep::strategy {
namespace {

void seat_all(std::vector<arena::Entry>& entries, const std::vector<arena::Layout>& layouts,
              const Flats& flats) {
  for (std::size_t i = 0; i < layouts.size(); ++i)
    for (const arena::Seat& seat : layouts[i].seats)
      arena::seat(entries[seat.entry].tensor, flats[i], seat);
}

}  // namespace

StageModels::StageModels(std::shared_ptr<torch::nn::Module> first)
    : whole_({std::move(first)}, {Device{}}, nullptr) {}

void StageModels::add(std::shared_ptr<torch::nn::Module> module) {
  const torch::NoGradGuard no_grad;
  const arena::Tensors& whole = first().tensors;
  Replica model{module, module->modules(), Parts(*module), arena::tensors_of(*module), {}};
  require_same(whole, model.tensors, "Pipeline::from", "models");
  require_own_memory(model.tensors);
  seat_all(model.tensors.trainable, whole_.layouts(), whole_.parameters({0}));
  model.buffers = allocate(whole_.buffer_layouts(), torch::kCPU);
  seat_all(model.tensors.buffers, whole_.buffer_layouts(), model.buffers);
  model.watch.begin_shard(model.tensors);
  others_.push_back(std::move(model));
  share_frozen({static_cast<int>(others_.size())});
}

void StageModels::require_apart() const {
  std::vector<std::shared_ptr<torch::nn::Module>> modules = {first().module};
  for (const Replica& other : others_) modules.push_back(other.module);
  strategy::require_apart(modules);
}

void StageModels::share_frozen(Place place) {
  const std::vector<arena::Entry>& frozen = first().tensors.frozen;
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    torch::Tensor& own = (*this)[place].tensors.frozen[i].tensor;
    if (own.is_cpu() && own.const_data_ptr() != frozen[i].tensor.const_data_ptr())
      own.set_data(frozen[i].tensor.detach());
  }
}

void StageModels::share_modes(Place place) {
  for (std::size_t i = 0; i < first().modules.size(); ++i)
    if (const bool training = first().modules[i]->is_training();
        (*this)[place].modules[i]->is_training() != training)
      (*this)[place].modules[i]->train(training);
}

void StageModels::check(Place place) {
  Replica& model = (*this)[place];
  if (const std::string name = model.watch.written(model.tensors); !name.empty())
    throw ConfigError("'" + name +
                      "' was written while a shard was computed, but parameters change between "
                      "steps only: write it through model(), before or after a step.");
  if (const std::string name = model.watch.dropped(model.tensors); !name.empty())
    throw ConfigError("'" + name +
                      "' is no longer the tensor that was registered: another one was assigned to "
                      "the member. Write to it in place, with copy_().");
}

}  // namespace lockstep::strategy
