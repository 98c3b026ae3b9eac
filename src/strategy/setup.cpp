#include "strategy/setup.h"

#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>

#include "device/accelerator.h"
#include "device/device_scope.h"
#include "device/random_stream.h"
#include "optim/rules.h"

namespace lockstep::strategy {

MirroredOptions validated(MirroredOptions options) {
  const Where& where = options.where;
  if (where.devices.empty())
    throw ConfigError("no devices were given; use all_devices() or parse_devices(\"auto\").");
  for (const Device& device : where.devices) {
    if (device.threads < 1)
      throw ConfigError(device.name() + " has " + std::to_string(device.threads) +
                        " threads; it needs at least 1.");
    if (device.kind != where.devices.front().kind)
      throw ConfigError(where.devices.front().name() + " and " + device.name() +
                        " are of different kinds; towers run on one kind of device.");
    if (std::count(where.devices.begin(), where.devices.end(), device) > 1)
      throw ConfigError(device.name() + " is named twice; a device has one tower.");
  }
  if (options.method.shards < 1)
    throw ConfigError("shards is " + std::to_string(options.method.shards) +
                      "; it must be 1 or more.");
  const Exchanging& exchange = where.exchange;
  if (exchange.bucket_bytes < 0 || exchange.group < 0 || exchange.packs < 1)
    throw ConfigError("exchange: bucket_bytes and group must be 0 or more, packs 1 or more.");
  if (exchange.transport == TransportKind::nccl && where.devices.front().kind != DeviceKind::gpu)
    throw ConfigError("exchange: NCCL moves bytes between GPUs; " + where.devices.front().name() +
                      " is none.");
  for (const Device& device : where.devices) {
    device::prepare(device);
    device::limit_memory(device, where.memory_limit.fraction, where.memory_limit.bytes);
    device::reset_peak(device);
  }
  return options;
}

void refuse_machines(const Where& where, const std::string& strategy) {
  if (where.machines)
    throw ConfigError(
        "there are several machines, and " + strategy +
        " trains on one: use Mirrored (the strategy mirrored), or start one process.");
}

/// Accelerators draw random numbers of their own, so there the weights are those of a sample made
/// on the CPU.
Replicas make_replicas(const MirroredOptions& options, device::TowerPool& pool,
                       const Factory& replica, detail::Making making, bool home) {
  torch::jit::getProfilingMode() = false;  // for the whole process, see "Note: scripts"
  const auto seed = device::stream_seed(options.method.seed, device::kInitStream, 0);
  const auto construct = [&](Place place, const Device& device) {
    at::Generator generator = device::make_generator(device);
    generator.set_current_seed(seed);
    const device::RandomScope random(generator);
    const device::DeviceScope scope(device::torch_device(device));
    std::shared_ptr<torch::nn::Module> made = replica(place);
    if (!made)
      throw ConfigError("the model is null; return a module from the function that makes it.");
    return made;
  };
  std::vector<std::shared_ptr<torch::nn::Module>> modules(options.where.devices.size());
  std::shared_ptr<torch::nn::Module> sample;
  if (home) sample = construct({pool.size()}, Device{});
  const bool accelerators = device::is_accelerator(options.where.devices.front().kind);
  const auto make = [&](int tower) {
    const Place place{tower};
    if (accelerators && tower == 0 && !home) sample = construct(place, Device{});
    modules[place.index()] = construct(place, pool.device(tower));
  };
  if (making == detail::Making::at_once) pool.run(make);
  for (int turn = 0; turn < pool.size() && making == detail::Making::in_turn; ++turn)
    pool.run([&](int tower) {
      if (tower == turn) make(tower);
    });
  std::vector<Device> devices = options.where.devices;
  if (home) {
    modules.push_back(sample);
    devices.push_back(Device{});
  }
  Replicas replicas(std::move(modules), devices, sample.get(), home);
  std::vector<std::string> names;
  for (const arena::Entry& entry : replicas[{0}].tensors.trainable) names.push_back(entry.name);
  optim::validate(options.method, names);
  return replicas;
}

}  // namespace lockstep::strategy
