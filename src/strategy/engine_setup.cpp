#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <cmath>

#include "collective/exchange.h"
#include "collective/nccl.h"
#include "collective/peer_copy.h"
#include "collective/shared_memory.h"
#include "collective/thread_meeting.h"
#include "device/accelerator.h"
#include "device/device_scope.h"
#include "device/random_stream.h"
#include "optim/rules.h"
#include "strategy/engine.h"

namespace lockstep::detail {

namespace {

MirroredOptions validated(MirroredOptions options) {
  if (options.where.devices.empty())
    throw ConfigError("no devices were given; use all_devices() or parse_devices(\"auto\").");
  for (const Device& device : options.where.devices) {
    if (device.threads < 1)
      throw ConfigError(device.name() + " has " + std::to_string(device.threads) +
                        " threads; it needs at least 1.");
    if (device.kind != options.where.devices.front().kind)
      throw ConfigError(options.where.devices.front().name() + " and " + device.name() +
                        " are of different kinds; towers run on one kind of device.");
    if (std::count(options.where.devices.begin(), options.where.devices.end(), device) > 1)
      throw ConfigError(device.name() + " is named twice; a device has one tower.");
  }
  if (options.method.shards < 1)
    throw ConfigError("shards is " + std::to_string(options.method.shards) +
                      "; it must be 1 or more.");
  if (options.where.exchange.bucket_bytes < 0 || options.where.exchange.group < 0 ||
      options.where.exchange.packs < 1)
    throw ConfigError("exchange: bucket_bytes and group must be 0 or more, packs 1 or more.");
  const DeviceKind kind = options.where.devices.front().kind;
  if (options.where.exchange.transport == TransportKind::nccl && kind != DeviceKind::gpu)
    throw ConfigError("exchange: NCCL moves bytes between GPUs; " +
                      options.where.devices.front().name() + " is none.");
  for (const Device& device : options.where.devices) {
    device::prepare(device);
    device::limit_memory(device, options.where.memory_limit.fraction,
                         options.where.memory_limit.bytes);
    device::reset_peak(device);
  }
  return options;
}

/// Calls a function when autograd has accumulated a gradient.
class ReadyHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit ReadyHook(std::function<void()> ready) : ready_(std::move(ready)) {}
  void operator()(const torch::autograd::Variable&) override { ready_(); }

 private:
  std::function<void()> ready_;
};

std::vector<strategy::ShardRange> even_ranges(int shards, std::size_t towers) {
  std::vector<strategy::ShardRange> ranges;
  const int count = static_cast<int>(towers);
  for (int tower = 0; tower < count; ++tower)
    ranges.push_back({shards * tower / count, shards * (tower + 1) / count});
  return ranges;
}

}  // namespace

Engine::Engine(MirroredOptions options, const Factory& replica,
               const MakeCollective& make_collective)
    : options_(validated(std::move(options))),
      make_test_collective_(make_collective),
      pool_(std::make_unique<device::TowerPool>(options_.where.devices)),
      loss_scale_(options_.method.precision == Precision::float16 ? options_.method.loss_scaling
                                                                  : LossScaling{.initial = 1}),
      balances_(options_.where.balance == Balance::automatic) {
  torch::jit::getProfilingMode() = false;  // for the whole process, see "Note: scripts"
  std::shared_ptr<torch::nn::Module> sample;
  auto modules = make_replicas(replica, sample);
  replicas_ = std::make_unique<strategy::Replicas>(std::move(modules), options_.where.devices,
                                                   sample.get());
  const auto& trainable = (*replicas_)[0].tensors.trainable;
  std::vector<std::string> names;
  for (const arena::Entry& entry : trainable) names.push_back(entry.name);
  optim::validate(options_.method.optimizer, options_.method.rules, options_.method.clip,
                  options_.method.moving_average, names);
  const bool accelerators = device::is_accelerator(options_.where.devices.front().kind);
  buckets_ =
      arena::buckets(replicas_->layouts(), accelerators ? options_.where.exchange.bucket_bytes : 0);
  if (accelerators)
    for (const Device& device : options_.where.devices)
      input_streams_.push_back(device::new_stream(device));
  map_buckets();
  std::vector<int> places;
  for (int place = 0; place < pool_->size(); ++place) places.push_back(place);
  make_towers(places);
  add_hooks();
  for (const std::string& note :
       {oversubscription(options_.where.devices, inventory()),
        uneven_shards(options_.method.shards, static_cast<int>(options_.where.devices.size()))})
    if (!note.empty()) pending_notes_.push_back(note);
}

Engine::~Engine() {
  for (int place = 0; place < pool_->size(); ++place)  // the caller may keep the model's tensors
    for (const arena::Entry& entry : (*replicas_)[place].tensors.trainable)
      torch::autograd::impl::set_post_acc_grad_hooks(entry.tensor, nullptr);
}

/// Constructs the model once a tower, on the tower's device. Accelerators draw random numbers of
/// their own, so there the weights are those of a sample made on the CPU.
std::vector<std::shared_ptr<torch::nn::Module>> Engine::make_replicas(
    const Factory& replica, std::shared_ptr<torch::nn::Module>& sample) {
  const auto seed = device::stream_seed(options_.method.seed, device::kInitStream, 0);
  const auto construct = [&](int place, const Device& device) {
    at::Generator generator = device::make_generator(device);
    generator.set_current_seed(seed);
    const device::RandomScope random(generator);
    const device::DeviceScope scope(device::torch_device(device));
    return replica(place);
  };
  std::vector<std::shared_ptr<torch::nn::Module>> modules(static_cast<std::size_t>(pool_->size()));
  const bool accelerators = device::is_accelerator(options_.where.devices.front().kind);
  pool_->run([&](int place) {
    if (accelerators && place == 0) sample = construct(0, Device{});
    modules[static_cast<std::size_t>(place)] = construct(place, pool_->device(place));
  });
  return modules;
}

void Engine::map_buckets() {
  seats_.resize((*replicas_)[0].tensors.trainable.size());
  buckets_of_.resize(seats_.size());
  for (const arena::Layout& layout : replicas_->layouts())
    for (const arena::Seat& seat : layout.seats) seats_[seat.entry] = &seat;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const auto& [arena, range] = buckets_[bucket];
    for (const arena::Seat& seat : replicas_->layouts()[arena].seats)
      if (seat.offset < range.end && seat.offset + seat.numel > range.begin)
        buckets_of_[seat.entry].push_back(bucket);
  }
}

void Engine::add_hooks() {
  for (int place = 0; place < pool_->size(); ++place)
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      const torch::Tensor& tensor = (*replicas_)[place].tensors.trainable[i].tensor;
      names_.name(tensor, seats_[i]->name);
      torch::autograd::impl::set_post_acc_grad_hooks(
          tensor, std::make_unique<ReadyHook>([this, place, i] { gradient_ready(place, i); }));
    }
}

strategy::TreeSum Engine::tree_sum(int index, strategy::ShardRange range) const {
  // In one memory the exact order costs nothing.
  const bool accelerators = device::is_accelerator(options_.where.devices.front().kind);
  const Reduction reduction = accelerators ? options_.method.reduction : Reduction::exact;
  return {range.first, range.end, options_.method.shards, seats_.size(), reduction, index};
}

/// Makes towers at `places`, with fresh slots.
void Engine::make_towers(const std::vector<int>& places) {
  collective_.reset();  // and its memory
  towers_.clear();
  towers_.reserve(places.size());
  tower_at_.assign(static_cast<std::size_t>(pool_->size()), nullptr);
  const Ranges ranges = even_ranges(options_.method.shards, places.size());
  for (const int place : places) {
    const int index = static_cast<int>(towers_.size());
    const strategy::ShardRange range = ranges[towers_.size()];
    towers_.emplace_back(index, place, pool_->device(place), range, tree_sum(index, range));
    tower_at_[static_cast<std::size_t>(place)] = &towers_.back();
  }
  // On the towers' own threads, so that each touches its slots first.
  pool_->run([&](int place) {
    if (tower_at(place)) make_slices(*tower_at(place), static_cast<int>(places.size()));
  });
  collective_ = make_collective();
}

void Engine::make_slices(Tower& tower, int towers) {
  tower.generator = device::make_generator(tower.device);
  const optim::Plan plan{options_.method.optimizer, options_.method.rules,
                         options_.method.moving_average.has_value()};
  for (const arena::Bucket& bucket : buckets_) {
    const arena::Layout& layout = replicas_->layouts()[bucket.arena];
    const arena::Slice range = arena::slice_of(bucket, tower.index, towers);
    const torch::Tensor parameters =
        replicas_->parameters(tower.place)[bucket.arena].narrow(0, range.begin, range.size());
    const torch::Tensor gradient = arena::allocate(range.size(), layout.dtype, parameters.device());
    const auto blocks =
        static_cast<std::size_t>((range.size() + arena::kBlock - 1) / arena::kBlock);
    tower.slices.push_back({&layout, range, gradient, std::vector<double>(blocks)});
    tower.updates.emplace_back(layout, range, parameters, gradient, plan);
  }
  for (const collective::GradientSlice& slice : tower.slices)
    tower.square_terms.emplace_back(slice.squares);
  if (options_.where.on_device_failure == OnDeviceFailure::replay) mirror_slots(tower);
}

/// Gives every tower the shards of its range, in order.
void Engine::assign(const Ranges& ranges) {
  collective_.reset();  // and its memory
  for (Tower& tower : towers_) {
    tower.shards = ranges[static_cast<std::size_t>(tower.index)];
    tower.gradients = tree_sum(tower.index, tower.shards);
  }
  collective_ = make_collective();
}

std::unique_ptr<collective::Collective> Engine::make_collective() const {
  const int towers = static_cast<int>(towers_.size());
  if (make_test_collective_) return make_test_collective_(towers, options_.method.shards);
  const DeviceKind kind = options_.where.devices.front().kind;
  if (!device::is_accelerator(kind))
    return std::make_unique<collective::SharedMemory>(
        std::make_unique<collective::ThreadMeeting>(towers, kind), options_.method.shards);
  const bool fast = options_.method.reduction == Reduction::fast;
  const int shards = fast ? towers : options_.method.shards;
  std::vector<collective::Party> parties;
  std::vector<int> gpus;
  for (const Tower& tower : towers_) {
    gpus.push_back(tower.device.index);
    const strategy::ShardRange range =
        fast ? strategy::ShardRange{tower.index, tower.index + 1} : tower.shards;
    parties.push_back({tower.device, range.first, range.end, replicas_->parameters(tower.place)});
  }
  std::unique_ptr<collective::Transport> transport;
  const TransportKind asked = options_.where.exchange.transport;
  if (asked == TransportKind::nccl ||
      (asked == TransportKind::best && kind == DeviceKind::gpu))
    transport = collective::make_nccl(gpus);
  else
    transport = std::make_unique<collective::PeerCopy>();
  return std::make_unique<collective::Exchange>(
      std::move(parties),
      collective::ExchangeShape{shards, replicas_->layouts(), buckets_, options_.where.exchange,
                        options_.method.reduction},
      std::make_unique<collective::ThreadMeeting>(towers, kind), std::move(transport));
}

void Engine::set_learning_rate(double lr) {
  if (!(std::isfinite(lr) && lr >= 0))
    throw ConfigError("the learning rate is " + std::to_string(lr) + "; it must be 0 or more.");
  lockstep::set_learning_rate(options_.method.optimizer, lr);
}

int Engine::shown_tower() {
  replicas_->touch();
  return replicas_->first();
}

torch::Device Engine::device_of(int place) const {
  return device::torch_device(pool_->device(place));
}

}  // namespace lockstep::detail
