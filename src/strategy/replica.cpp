#include "strategy/replica.h"

#include <lockstep/error.h>

#include "collective/kernels.h"

namespace lockstep::strategy {
namespace {

void require_same(const std::vector<arena::Entry>& a, const std::vector<arena::Entry>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = a[i].name == b[i].name && a[i].tensor.sizes() == b[i].tensor.sizes() &&
           a[i].tensor.scalar_type() == b[i].tensor.scalar_type();
  if (!same)
    throw ConfigError(
        "the model's constructor made different parameters or buffers for two towers; it must make "
        "the same ones each time it is called with the same arguments.");
}

/// Calls f(entry, flat, seat) for every seat of every layout.
template <class F>
void for_each_seat(std::vector<arena::Entry>& entries, const std::vector<arena::Layout>& layouts,
                   const std::vector<torch::Tensor>& flats, F f) {
  for (std::size_t i = 0; i < layouts.size(); ++i)
    for (const arena::Seat& seat : layouts[i].seats) f(entries[seat.entry], flats[i], seat);
}

/// Copies a tensor's value to its seat and seats it there.
void move_in(arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat) {
  if (entry.tensor.sizes() != seat.sizes || entry.tensor.scalar_type() != flat.scalar_type())
    throw ConfigError("'" + entry.name +
                      "' has changed its size or type since the towers were "
                      "made; make the towers after such changes.");
  arena::view(flat, seat).copy_(entry.tensor.detach());
  arena::seat(entry.tensor, flat, seat);
}

std::vector<torch::Tensor> allocate_all(const std::vector<arena::Layout>& layouts) {
  std::vector<torch::Tensor> flats;
  for (const arena::Layout& layout : layouts) flats.push_back(arena::allocate(layout, torch::kCPU));
  return flats;
}

void copy_all(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

}  // namespace

Replicas::Replicas(std::vector<std::shared_ptr<torch::nn::Module>> modules) {
  for (auto& module : modules) {
    replicas_.push_back({module, module->modules(), arena::tensors_of(*module), {}});
  }
  arena::Tensors& first = replicas_.front().tensors;
  if (first.trainable.empty())
    throw ConfigError(
        "the model has no trainable parameters; register them, and leave "
        "requires_grad on.");
  for (Replica& replica : replicas_) {
    require_same(first.trainable, replica.tensors.trainable);
    require_same(first.frozen, replica.tensors.frozen);
    require_same(first.buffers, replica.tensors.buffers);
  }
  layouts_ = arena::layouts(first.trainable);
  for (const arena::Layout& layout : layouts_) collective::require_trainable(layout.dtype);
  buffer_layouts_ = arena::layouts(first.buffers);
  seat_all();
}

void Replicas::seat_all() {
  const torch::NoGradGuard no_grad;
  parameters_ = allocate_all(layouts_);
  buffers_ = allocate_all(buffer_layouts_);
  for_each_seat(replicas_[0].tensors.trainable, layouts_, parameters_, move_in);
  for (Replica& replica : replicas_) {
    for_each_seat(replica.tensors.trainable, layouts_, parameters_,
                  [](arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat) {
                    arena::seat(entry.tensor, flat, seat);
                  });
    replica.buffers = allocate_all(buffer_layouts_);
    for_each_seat(replica.tensors.buffers, buffer_layouts_, replica.buffers, move_in);
  }
  adopt();
  restore_buffers();
}

void Replicas::adopt() {
  const torch::NoGradGuard no_grad;
  Replica& first = replicas_[0];
  const auto readmit = [](arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat) {
    if (!arena::is_seated(entry.tensor, flat, seat)) move_in(entry, flat, seat);
  };
  for_each_seat(first.tensors.trainable, layouts_, parameters_, readmit);
  for_each_seat(first.tensors.buffers, buffer_layouts_, first.buffers, readmit);
  copy_all(buffers_, first.buffers);
  for (const arena::Entry& entry : first.tensors.trainable)
    if (!entry.tensor.requires_grad())
      throw ConfigError("'" + entry.name +
                        "' was frozen after the towers were made; freeze "
                        "parameters in the model's constructor.");
  for (Replica& replica : replicas_) {
    for (std::size_t i = 0; i < first.tensors.frozen.size(); ++i) {
      const torch::Tensor& frozen = first.tensors.frozen[i].tensor;
      torch::Tensor& own = replica.tensors.frozen[i].tensor;
      if (own.const_data_ptr() != frozen.const_data_ptr()) own.set_data(frozen.detach());
    }
    for (std::size_t i = 0; i < first.modules.size(); ++i)
      if (replica.modules[i]->is_training() != first.modules[i]->is_training())
        replica.modules[i]->train(first.modules[i]->is_training());
  }
}

void Replicas::begin_shard(int tower) { copy_all((*this)[tower].buffers, buffers_); }

std::vector<torch::Tensor> Replicas::end_shard(int tower) {
  std::vector<torch::Tensor> copies;
  for (const torch::Tensor& flat : (*this)[tower].buffers) copies.push_back(flat.clone());
  return copies;
}

void Replicas::restore_buffers() {
  for (Replica& replica : replicas_) copy_all(replica.buffers, buffers_);
}

void Replicas::set_buffers(const std::vector<std::vector<torch::Tensor>>& by_shard) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < buffers_.size() && !by_shard.empty(); ++i) {
    torch::Tensor mean = by_shard.front()[i].clone();
    if (mean.is_floating_point()) {
      for (std::size_t shard = 1; shard < by_shard.size(); ++shard) mean.add_(by_shard[shard][i]);
      mean.div_(static_cast<double>(by_shard.size()));
    }
    buffers_[i].copy_(mean);
  }
  restore_buffers();
}

}  // namespace lockstep::strategy
