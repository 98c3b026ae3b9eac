#include <ATen/Context.h>
#include <lockstep/device.h>
#include <lockstep/error.h>
#include <sched.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "device/cgroup.h"

namespace lockstep {
namespace {

int cores_by_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::string listing(const Inventory& machine) {
  std::string gpus = "no GPU";
  if (machine.gpus == 1) gpus = "gpu:0";
  if (machine.gpus > 1) gpus = "gpu:0-" + std::to_string(machine.gpus - 1);
  return gpus + ", " + std::to_string(machine.cores) + " CPU core" +
         (machine.cores == 1 ? "" : "s") + " (cpu:0-" + std::to_string(machine.cores - 1) + ")";
}

/// Reads "auto", "cpu", "gpu:0,2", ... from left to right.
class Parser {
 public:
  Parser(std::string_view text, int threads, const Inventory& machine)
      : text_(text), rest_(text), threads_(threads), machine_(machine) {}

  std::vector<Device> parse() {
    do {
      item();
    } while (accept(','));
    if (!rest_.empty()) fail("'" + std::string(rest_) + "' is left over");
    return devices_;
  }

 private:
  void item() {
    const std::string word = this->word();
    if (word == "auto") {
      const DeviceKind kind = machine_.gpus > 0 ? DeviceKind::gpu : DeviceKind::cpu;
      for (int index = 0; index < count(kind); ++index) add(kind, index);
      return;
    }
    const DeviceKind kind = kind_of(word);
    if (!accept(':')) {
      if (count(kind) == 0) fail("there is no GPU");
      for (int index = 0; index < count(kind); ++index) add(kind, index);
      return;
    }
    do {
      const int first = number();
      const int last = accept('-') ? number() : first;
      if (last < first) fail("a range runs upwards");
      for (int index = first; index <= last; ++index) add(kind, index);
    } while (rest_.size() > 1 && rest_[0] == ',' &&
             std::isdigit(static_cast<unsigned char>(rest_[1])) && accept(','));
  }

  int count(DeviceKind kind) const {
    return kind == DeviceKind::cpu ? machine_.cores : machine_.gpus;
  }

  DeviceKind kind_of(const std::string& word) const {
    if (word == "cpu") return DeviceKind::cpu;
    if (word == "gpu" || word == "cuda") return DeviceKind::gpu;
    fail("'" + word + "' is not a kind of device");
  }

  /// The next word in lower case, without the "/" and "/device:" of TensorFlow's spelling.
  std::string word() {
    accept('/');
    std::string result = letters();
    if (result == "device" && accept(':')) result = letters();
    return result;
  }

  std::string letters() {
    std::string result;
    while (!rest_.empty() && std::isalpha(static_cast<unsigned char>(rest_[0]))) {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(rest_[0])));
      rest_.remove_prefix(1);
    }
    return result;
  }

  int number() {
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0 || value > 4095)
      fail("an index from 0 to 4095 is missing");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  bool accept(char expected) {
    if (rest_.empty() || rest_[0] != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void add(DeviceKind kind, int index) {
    const Device device{kind, index, kind == DeviceKind::cpu ? threads_ : 1};
    if (device.kind == DeviceKind::gpu && device.index >= machine_.gpus)
      fail(device.name() + " is not there");
    const auto same = [&](const Device& other) { return other.name() == device.name(); };
    if (std::any_of(devices_.begin(), devices_.end(), same))
      fail(device.name() + " is named twice");
    devices_.push_back(device);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError("devices '" + std::string(text_) + "': " + what + ". This machine has " +
                      listing(machine_) + "; write auto, cpu, gpu, cpu:0-3 or gpu:0,2.");
  }

  const std::string_view text_;
  std::string_view rest_;
  const int threads_;
  const Inventory machine_;
  std::vector<Device> devices_;
};

}  // namespace

std::string Device::name() const {
  return (kind == DeviceKind::cpu ? "cpu:" : "gpu:") + std::to_string(index);
}

Inventory inventory() {
  const int gpus = at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
  return {.cores = device::cores_by_cgroup(cores_by_affinity(), {}), .gpus = gpus};
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

std::vector<Device> parse_devices(std::string_view text, int threads) {
  return parse_devices(text, threads, inventory());
}

std::vector<Device> parse_devices(std::string_view text, int threads, const Inventory& machine) {
  if (threads < 1)
    throw ConfigError("a device needs at least 1 thread; asked for " + std::to_string(threads) +
                      ".");
  return Parser(text, threads, machine).parse();
}

std::string oversubscription(const std::vector<Device>& devices, const Inventory& machine) {
  int threads = 0;
  for (const Device& device : devices)
    if (device.kind == DeviceKind::cpu) threads += device.threads;
  if (threads <= machine.cores) return "";
  return std::to_string(threads) + " threads of CPU devices share " +
         std::to_string(machine.cores) + " cores: they take turns, the result is the same.";
}

}  // namespace lockstep
