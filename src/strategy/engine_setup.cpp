#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "collective/shared_memory.h"
#include "device/random_stream.h"
#include "optim/rules.h"
#include "strategy/engine.h"

namespace lockstep::detail {

using strategy::Tower;

namespace {

MirroredOptions validated(MirroredOptions options) {
  if (options.devices.empty())
    throw ConfigError("no devices were given; use all_devices() or parse_devices(\"auto\").");
  for (const Device& device : options.devices) {
    if (device.threads < 1)
      throw ConfigError(device.name() + " has " + std::to_string(device.threads) +
                        " threads; it needs at least 1.");
    if (device.kind != DeviceKind::cpu)
      throw ConfigError("towers run on CPU devices only so far; " + device.name() +
                        " was asked for. Use cpu_devices(n).");
  }
  if (options.shards < 0)
    throw ConfigError("shards is " + std::to_string(options.shards) +
                      "; it must be 0 (one a device) or more.");
  if (options.shards == 0) options.shards = static_cast<int>(options.devices.size());
  return options;
}

}  // namespace

Engine::Engine(MirroredOptions options, const Factory& replica,
               const MakeCollective& make_collective)
    : options_(validated(std::move(options))),
      pool_(std::make_unique<device::TowerPool>(options_.devices)) {
  const int towers = pool_->size();
  std::vector<std::shared_ptr<torch::nn::Module>> modules(static_cast<std::size_t>(towers));
  pool_->run([&](int tower) {
    const auto seed = device::stream_seed(options_.seed, device::kInitStream, 0);
    const device::RandomScope random(at::make_generator<at::CPUGeneratorImpl>(seed));
    modules[static_cast<std::size_t>(tower)] = replica(tower);
  });
  replicas_ = std::make_unique<strategy::Replicas>(std::move(modules));
  std::vector<std::string> names;
  for (const arena::Entry& entry : (*replicas_)[0].tensors.trainable) names.push_back(entry.name);
  optim::validate(options_.optimizer, options_.rules, options_.clip, options_.moving_average,
                  names);
  collective_ = make_collective
                    ? make_collective(towers, options_.shards)
                    : std::make_unique<collective::SharedMemory>(towers, options_.shards);
  make_towers();
  const std::string shared_cores = oversubscription(options_.devices, inventory());
  if (!shared_cores.empty()) pending_notes_.push_back(shared_cores);
}

void Engine::set_learning_rate(double lr) {
  if (!(std::isfinite(lr) && lr >= 0))
    throw ConfigError("the learning rate is " + std::to_string(lr) + "; it must be 0 or more.");
  lockstep::set_learning_rate(options_.optimizer, lr);
}

void Engine::make_towers() {
  const int count = pool_->size();
  for (int tower = 0; tower < count; ++tower)
    towers_.emplace_back(tower, options_.shards * tower / count,
                         options_.shards * (tower + 1) / count, options_.shards);
  const optim::Plan plan{options_.optimizer, options_.rules, options_.moving_average.has_value()};
  // On the towers' own threads, so that each touches its slots first.
  pool_->run([&](int index) {
    Tower& tower = towers_[static_cast<std::size_t>(index)];
    tower.generator = at::make_generator<at::CPUGeneratorImpl>();
    for (std::size_t i = 0; i < replicas_->layouts().size(); ++i) {
      const arena::Layout& layout = replicas_->layouts()[i];
      const arena::Slice range = arena::slice_of(layout, index, count);
      const torch::Tensor parameters =
          replicas_->parameters()[i].narrow(0, range.begin, range.size());
      const torch::Tensor gradient =
          arena::allocate(range.size(), layout.dtype, parameters.device());
      const auto blocks =
          static_cast<std::size_t>((range.size() + arena::kBlock - 1) / arena::kBlock);
      tower.slices.push_back({&layout, range, gradient, std::vector<double>(blocks)});
      tower.updates.emplace_back(layout, range, parameters, gradient, plan);
    }
  });
}

}  // namespace lockstep::detail
