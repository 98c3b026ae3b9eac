#include "strategy/replica.h"

#include <lockstep/error.h>

#include <algorithm>
#include <utility>

#include "collective/kernels.h"
#include "device/accelerator.h"

namespace lockstep::strategy {
namespace {

constexpr const char* kWritten =
    "' was written while a shard was computed, but parameters change between steps only: write it "
    "through model(), before or after a step. In place of Embedding's max_norm, call "
    "torch::embedding_renorm_ with the batch's indices before the step. What follows the weights, "
    "such as a teacher, is updated after the step, or registered as a buffer.";

constexpr const char* kAssigned =
    "' is no longer the tensor that was registered: another one was assigned to the member. Write "
    "to it in place, with copy_().";

bool same(const std::vector<arena::Entry>& a, const std::vector<arena::Entry>& b) {
  const auto alike = [](const arena::Entry& x, const arena::Entry& y) {
    return x.name == y.name && x.tensor.sizes() == y.tensor.sizes() &&
           x.tensor.scalar_type() == y.tensor.scalar_type();
  };
  return std::ranges::equal(a, b, alike);
}

void require_same_tower(const arena::Tensors& a, const arena::Tensors& b) {
  require_same(a, b, "Mirrored::from", "towers");
}

/// Moves what was made on the CPU, or loaded there, to the tower's device, as Module::to does.
void move_to(const Device& device, arena::Tensors& tensors) {
  const torch::NoGradGuard no_grad;
  const torch::Device own = device::torch_device(device);
  for (auto* list : {&tensors.trainable, &tensors.frozen, &tensors.buffers})
    for (arena::Entry& entry : *list) {
      if (entry.tensor.device() == own) continue;
      if (!entry.tensor.is_cpu())
        throw ConfigError("'" + entry.name + "' was made on " + entry.tensor.device().str() +
                          ", its tower is on " + device.name() +
                          "; leave the device out where the model is made.");
      entry.tensor.set_data(entry.tensor.detach().to(own));
    }
}

/// Calls f(entry, flat, seat) for every seat of every layout.
template <class F>
void for_each_seat(std::vector<arena::Entry>& entries, const std::vector<arena::Layout>& layouts,
                   const std::vector<torch::Tensor>& flats, F f) {
  for (std::size_t i = 0; i < layouts.size(); ++i)
    for (const arena::Seat& seat : layouts[i].seats) f(entries[seat.entry], flats[i], seat);
}

void copy_in(arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat) {
  arena::view(flat, seat).copy_(entry.tensor.detach());
}

void sit_down(arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat) {
  arena::seat(entry.tensor, flat, seat);
}

/// Copies a tensor's value to its seat and seats it there.
void move_in(arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat) {
  if (entry.tensor.sizes() != seat.sizes || entry.tensor.scalar_type() != flat.scalar_type())
    throw ConfigError("'" + entry.name +
                      "' has changed its size or type; a registered tensor keeps both once the "
                      "towers are made. Call to(dtype) in the model's constructor, or in the "
                      "function that you give to Mirrored::from.");
  copy_in(entry, flat, seat);
  sit_down(entry, flat, seat);
}

/// What shards made of one flat of buffers, as one value: that on which they agree, bit for bit,
/// and the mean, in shard order, where they do not. Where there is no mean, the first.
torch::Tensor combined(const std::vector<torch::Tensor>& by_shard) {
  const torch::Tensor& first = by_shard.front();
  if (by_shard.size() == 1 || !(first.is_floating_point() || first.is_complex())) return first;
  // In double precision: a sum of 16-bit numbers might overflow.
  const auto wide = first.is_complex() ? torch::kComplexDouble : torch::kFloat64;
  torch::Tensor sum = first.to(wide), differs = torch::zeros_like(first, torch::kBool);
  for (std::size_t shard = 1; shard < by_shard.size(); ++shard) {
    const torch::Tensor value = by_shard[shard].to(first.device());
    sum.add_(value);
    differs.logical_or_(value != first);
  }
  const auto count = static_cast<double>(by_shard.size());
  return torch::where(differs, sum.div_(count).to(first.scalar_type()), first);
}

}  // namespace

void require_same(const arena::Tensors& a, const arena::Tensors& b, const std::string& from,
                  const std::string& two) {
  if (!same(a.trainable, b.trainable) || !same(a.frozen, b.frozen) || !same(a.buffers, b.buffers))
    throw ConfigError("the model's constructor, or the function given to " + from +
                      ", made different parameters or buffers for two " + two +
                      "; it must make the same ones each time.");
}

Replicas::Replicas(std::vector<std::shared_ptr<torch::nn::Module>> modules,
                   const std::vector<Device>& devices, const torch::nn::Module* sample, bool home) {
  for (auto& module : modules) {
    places_.push_back({static_cast<int>(replicas_.size())});
    replicas_.push_back(
        {module, module->modules(), Parts(*module), arena::tensors_of(*module), {}});
  }
  require_apart(modules);
  arena::Tensors& first = replicas_.front().tensors;
  if (first.trainable.empty())
    throw ConfigError(
        "the model has no trainable parameters; register them, and leave "
        "requires_grad on.");
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    require_same_tower(first, replicas_[i].tensors);
    require_own_memory(replicas_[i].tensors);
    move_to(devices[i], replicas_[i].tensors);
    devices_.push_back(device::torch_device(devices[i]));
  }
  layouts_ = arena::layouts(first.trainable);
  for (const arena::Layout& layout : layouts_) collective::require_trainable(layout.dtype);
  buffer_layouts_ = arena::layouts(first.buffers);
  if (home) {
    home_ = places_.back();
    places_.pop_back();
  }
  seat_all(!home && !device::is_accelerator(devices.front().kind));
  for (Replica& replica : replicas_) replica.watch.begin_shard(replica.tensors);
  if (home) {
    for (Replica& replica : replicas_) replica.watch.begin_step(replica.tensors);
    take_over_first();
    spread_home();
    return;
  }
  if (sample) take_values(*sample);
  adopt();
  restore_buffers();
}

/// `shared`: all replicas sit in one memory. A home and towers on the CPU sit in the home's.
void Replicas::seat_all(bool shared) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < (shared ? 1 : replicas_.size()); ++i)
    memories_.push_back({allocate(layouts_, devices_[i]), allocate(buffer_layouts_, devices_[i]),
                         allocate(buffer_layouts_, devices_[i])});
  const Place from = home_ ? *home_ : Place{0};
  for_each_seat((*this)[from].tensors.trainable, layouts_, memory_of(from).parameters, copy_in);
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const Place place{static_cast<int>(i)};
    Replica& replica = (*this)[place];
    Memory& memory = memory_of(place);
    if (home_ && devices_[i].is_cpu()) memory.parameters = memory_of(from).parameters;
    for_each_seat(replica.tensors.trainable, layouts_, memory.parameters, sit_down);
    replica.buffers = allocate(buffer_layouts_, devices_[i]);
    for_each_seat(replica.tensors.buffers, buffer_layouts_, replica.buffers, move_in);
  }
}

/// Copies the values of a model on the CPU into the first replica.
void Replicas::take_values(const torch::nn::Module& sample) {
  const torch::NoGradGuard no_grad;
  arena::Tensors values = arena::tensors_of(sample);
  require_same_tower(values, replicas_[0].tensors);
  for_each_seat(values.trainable, layouts_, memories_[0].parameters, copy_in);
  for_each_seat(values.buffers, buffer_layouts_, replicas_[0].buffers, copy_in);
  for (std::size_t i = 0; i < values.frozen.size(); ++i)
    replicas_[0].tensors.frozen[i].tensor.copy_(values.frozen[i].tensor);
}

void Replicas::adopt() {
  const torch::NoGradGuard no_grad;
  Replica& source = (*this)[first()];
  take_over_first();
  if (memories_.size() == 1) {
    copy_all(memories_[0].buffers, source.buffers);
    share_frozen();
  } else if (touched_ || versions() != versions_) {
    spread();
  }
  for (const Place place : places_) {
    Replica& replica = (*this)[place];
    for (std::size_t i = 0; i < source.modules.size(); ++i)
      if (replica.modules[i]->is_training() != source.modules[i]->is_training())
        replica.modules[i]->train(source.modules[i]->is_training());
    replica.watch.begin_step(replica.tensors);
  }
}

/// What the caller did to the first replica: tensors that left their seats are seated again.
void Replicas::take_over_first() {
  const torch::NoGradGuard no_grad;
  Replica& source = (*this)[first()];
  require_same_parts();
  const auto seat_again = [this](auto&... where) { readmit(where...); };
  for_each_seat(source.tensors.trainable, layouts_, memory_of(first()).parameters, seat_again);
  for_each_seat(source.tensors.buffers, buffer_layouts_, source.buffers, seat_again);
  if (const std::string name = source.watch.dropped(source.tensors);
      !name.empty() && replicas_.size() > 1)
    throw ConfigError("'" + name + kAssigned);
  for (const arena::Entry& entry : source.tensors.frozen)
    if (entry.tensor.requires_grad())
      throw ConfigError("'" + entry.name +
                        "' was frozen when the towers were made, so it cannot be trained. Leave "
                        "it trainable there, and call set_trainable(pattern, false) until it is "
                        "to be trained.");
}

bool Replicas::same_modes(const Replica& replica) const {
  const Replica& source = (*this)[first()];
  for (std::size_t i = 0; i < source.modules.size(); ++i)
    if (replica.modules[i]->is_training() != source.modules[i]->is_training()) return false;
  return true;
}

Replicas::Written Replicas::written_home() {
  take_over_first();
  const bool written = std::exchange(touched_, false) || versions() != versions_;
  versions_ = versions();
  return {.values = written,
          .towers = frozen_versions() != frozen_versions_ || !same_modes((*this)[places_.front()])};
}

void Replicas::spread_home() {
  const torch::NoGradGuard no_grad;
  const Replica& source = (*this)[*home_];
  const Replica& leader = (*this)[places_.front()];
  for (const Place place : places_) {
    Replica& replica = (*this)[place];
    const bool shares = device(place).is_cpu() && place != places_.front();
    for (std::size_t i = 0; i < source.tensors.frozen.size(); ++i) {
      torch::Tensor& own = replica.tensors.frozen[i].tensor;
      const torch::Tensor& leading = leader.tensors.frozen[i].tensor;
      if (!shares)
        own.copy_(source.tensors.frozen[i].tensor);
      else if (own.const_data_ptr() != leading.const_data_ptr())
        own.set_data(leading.detach());
    }
    for (std::size_t i = 0; i < source.modules.size(); ++i)
      if (replica.modules[i]->is_training() != source.modules[i]->is_training())
        replica.modules[i]->train(source.modules[i]->is_training());
  }
  frozen_versions_ = frozen_versions();
}

void Replicas::seat_at(Place place, const Flats& parameters) {
  const torch::NoGradGuard no_grad;
  memory_of(place).parameters = parameters;
  for_each_seat((*this)[place].tensors.trainable, layouts_, parameters,
                [](arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat) {
                  if (!arena::is_seated(entry.tensor, flat, seat))
                    arena::seat(entry.tensor, flat, seat);
                });
}

void Replicas::begin_batch(Place place, const Flats& buffers) {
  copy_all(memory_of(place).buffers, buffers);
  (*this)[place].watch.begin_step((*this)[place].tensors);
}

/// Looks at modules and tensors when there is reason: model() was called, or a module of the first
/// replica has fewer holders or more than before.
void Replicas::require_same_parts() {
  const Replica& source = (*this)[first()];
  std::int64_t holders = 0;
  for (const auto& module : source.modules) holders += module.use_count();
  if (!shown_ && holders == holders_) return;
  source.parts.require_same(*source.module);
  shown_ = false;
  holders_ = holders;
}

void Replicas::end_audit(Place place) {
  Replica& replica = (*this)[place];
  replica.watch.end_audit(replica.tensors);
  replica.parts.require_same(*replica.module);
}

std::vector<char> Replicas::trainable() const {
  std::vector<char> flags;
  for (const arena::Entry& entry : (*this)[first()].tensors.trainable)
    flags.push_back(entry.tensor.requires_grad());
  return flags;
}

void Replicas::require_gradients(const std::vector<char>& wanted) {
  if (home_) return require_gradients(*home_, wanted);  // towers follow with their next batch
  for (const Place place : places_) require_gradients(place, wanted);
}

void Replicas::require_gradients(Place place, const std::vector<char>& wanted) {
  std::vector<arena::Entry>& entries = (*this)[place].tensors.trainable;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (entries[i].tensor.requires_grad() != static_cast<bool>(wanted[i]))
      entries[i].tensor.set_requires_grad(wanted[i]);
}

/// Takes a tensor's value into its seat if it has left that.
void Replicas::readmit(arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat) {
  if (arena::is_seated(entry.tensor, flat, seat)) return;
  move_in(entry, flat, seat);
  touch();
}

/// In one memory every replica views the first one's frozen parameters.
void Replicas::share_frozen() {
  const std::vector<arena::Entry>& frozen = (*this)[first()].tensors.frozen;
  for (const Place place : places_)
    for (std::size_t i = 0; i < frozen.size(); ++i) {
      torch::Tensor& own = (*this)[place].tensors.frozen[i].tensor;
      if (own.const_data_ptr() != frozen[i].tensor.const_data_ptr())
        own.set_data(frozen[i].tensor.detach());
    }
}

/// Copies parameters and buffers of the first replica into all memories.
void Replicas::spread() {
  Replica& source = (*this)[first()];
  spreading_ = true;
  for (const Place place : places_) {
    const Memory& memory = memory_of(place);
    copy_all(memory.buffers, source.buffers);
    if (place == first()) continue;
    copy_all(memory.parameters, memory_of(first()).parameters);
    for (std::size_t i = 0; i < source.tensors.frozen.size(); ++i)
      (*this)[place].tensors.frozen[i].tensor.copy_(source.tensors.frozen[i].tensor);
  }
  touched_ = spreading_ = false;
  versions_ = versions();
}

/// Grows whenever an operator writes to one of the first replica's tensors.
std::int64_t Replicas::versions() const {
  const arena::Tensors& tensors = (*this)[first()].tensors;
  std::int64_t sum = 0;
  for (const auto* list : {&tensors.trainable, &tensors.frozen, &tensors.buffers})
    for (const arena::Entry& entry : *list) sum += entry.tensor._version();
  return sum;
}

std::int64_t Replicas::frozen_versions() const {
  std::int64_t sum = 0;
  for (const arena::Entry& entry : (*this)[first()].tensors.frozen) sum += entry.tensor._version();
  return sum;
}

void Replicas::begin_shard(Place place) {
  copy_all((*this)[place].buffers, memory_of(place).buffers);
  (*this)[place].watch.begin_shard((*this)[place].tensors);
}

void Replicas::check_shard(Place place) {
  Replica& replica = (*this)[place];
  const auto require_seated = [](const arena::Entry& entry, const torch::Tensor& flat,
                                 const arena::Seat& seat) {
    if (!arena::is_seated(entry.tensor, flat, seat)) throw ConfigError("'" + entry.name + kWritten);
  };
  for_each_seat(replica.tensors.trainable, layouts_, memory_of(place).parameters, require_seated);
  if (const std::string name = replica.watch.written(replica.tensors); !name.empty())
    throw ConfigError("'" + name + kWritten);
  if (const std::string name = replica.watch.dropped(replica.tensors); !name.empty())
    throw ConfigError("'" + name + kAssigned);
  const torch::NoGradGuard no_grad;
  for_each_seat(replica.tensors.buffers, buffer_layouts_, replica.buffers,
                [](arena::Entry& entry, const torch::Tensor& flat, const arena::Seat& seat) {
                  if (!arena::is_seated(entry.tensor, flat, seat)) move_in(entry, flat, seat);
                });
}

bool Replicas::weights_written() const {
  return std::ranges::any_of(places_, [this](Place place) {
    const Replica& replica = (*this)[place];
    return !replica.watch.written(replica.tensors).empty();
  });
}

Flats Replicas::copy_buffers(Place place) const {
  Flats copies;
  for (const torch::Tensor& flat : (*this)[place].buffers) copies.push_back(flat.clone());
  return copies;
}

void Replicas::restore_buffers() {
  for (const Place place : places_) begin_shard(place);
  versions_ = versions();
}

void Replicas::recover() {
  const torch::NoGradGuard no_grad;
  const auto seat_back = [](arena::Entry& entry, const torch::Tensor& flat,
                            const arena::Seat& seat) {
    if (!arena::is_seated(entry.tensor, flat, seat)) arena::seat(entry.tensor, flat, seat);
  };
  for (const Place place : places_) {
    Replica& replica = (*this)[place];
    replica.watch.dropped(replica.tensors);  // is remembered
    for_each_seat(replica.tensors.trainable, layouts_, memory_of(place).parameters, seat_back);
    for_each_seat(replica.tensors.buffers, buffer_layouts_, replica.buffers, seat_back);
  }
  restore_buffers();
}

Flats Replicas::mean_of_buffers(const std::vector<Flats>& by_shard) {
  const torch::NoGradGuard no_grad;
  Flats means;
  for (std::size_t i = 0; !by_shard.empty() && i < by_shard.front().size(); ++i) {
    std::vector<torch::Tensor> values;
    for (const auto& shard : by_shard) values.push_back(shard[i].to(by_shard.front()[i].device()));
    means.push_back(combined(values));
  }
  return means;
}

void Replicas::average_buffers(const std::vector<Flats>& by_shard) {
  Memory& here = memory_of(first());
  copy_all(here.next, here.buffers);
  const Flats means = mean_of_buffers(by_shard);
  if (!means.empty()) copy_all(here.next, means);
  for (const Place place : places_)
    if (&memory_of(place) != &here) copy_all(memory_of(place).next, here.next);
}

void Replicas::commit_buffers() {
  for (Memory& memory : memories_) std::swap(memory.buffers, memory.next);
  restore_buffers();
}

void Replicas::retire(Place place) {
  check(places_.size() > 1, "the last replica cannot be retired");
  places_.erase(std::find(places_.begin(), places_.end(), place));
  versions_ = versions();
}

}  // namespace lockstep::strategy
