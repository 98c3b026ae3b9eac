#include <lockstep/device.h>
#include <lockstep/error.h>

#include "device/backend.h"

namespace lockstep {

std::string Device::name() const {
  const char* const kinds[] = {"cpu:", "gpu:", "sim:"};
  return kinds[static_cast<int>(kind)] + std::to_string(index);
}

Inventory inventory() {
  return {.cores = device::backend(DeviceKind::cpu).count(),
          .gpus = device::backend(DeviceKind::gpu).count(),
          .sims = device::backend(DeviceKind::sim).count()};
}

std::vector<Device> all_devices() { return parse_devices("auto"); }

std::vector<Device> cpu_devices(int count, int threads) {
  if (count < 1 || threads < 1)
    throw ConfigError("CPU devices need a count and threads of at least 1; asked for " +
                      std::to_string(count) + " with " + std::to_string(threads) + " threads.");
  std::vector<Device> devices;
  for (int index = 0; index < count; ++index) devices.push_back({DeviceKind::cpu, index, threads});
  return devices;
}

std::string oversubscription(const std::vector<Device>& devices, const Inventory& machine) {
  int threads = 0;
  for (const Device& device : devices)
    if (device.kind == DeviceKind::cpu) threads += device.threads;
  if (threads <= machine.cores) return "";
  return std::to_string(threads) + " threads of CPU devices share " +
         std::to_string(machine.cores) + " cores: they take turns, the result is the same.";
}

std::string uneven_shards(int shards, int devices) {
  if (shards < 1 || devices < 1 || shards % devices == 0) return "";
  const auto count = [](int n) { return n == 1 ? std::string("one") : std::to_string(n); };
  const std::string what = std::to_string(shards) + (shards == 1 ? " shard on " : " shards on ") +
                           std::to_string(devices) + " devices: ";
  const int each = shards / devices, more = shards % devices, rest = devices - more;
  if (each == 0)
    return what + count(rest) + (rest == 1 ? " device has" : " devices have") +
           " no shard to compute; with " + std::to_string(devices) +
           " shards every device has one, and the result is another one.";
  return what + count(more) + (more == 1 ? " device computes " : " devices compute ") +
         std::to_string(each + 1) +
         (rest == 1 ? " while the other computes " : " while the others compute ") +
         std::to_string(each) + "; with " + std::to_string(shards - more) + " or " +
         std::to_string(shards + rest) +
         " shards they share evenly, and the result is another one.";
}

}  // namespace lockstep
