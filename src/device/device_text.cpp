#include <lockstep/device.h>
#include <lockstep/error.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lockstep {
namespace {

/// "gpu:0-2" for a count of 3.
std::string range(const std::string& kind, int count) {
  return kind + (count == 1 ? ":0" : ":0-" + std::to_string(count - 1));
}

std::string listing(const Inventory& machine) {
  std::string text = machine.gpus == 0 ? "no GPU" : range("gpu", machine.gpus);
  text += ", " + std::to_string(machine.cores) + " CPU core" + (machine.cores == 1 ? "" : "s") +
          " (" + range("cpu", machine.cores) + ")";
  if (machine.sims > 0) text += " and simulated devices (" + range("sim", machine.sims) + ")";
  return text;
}

/// "gpu:0-2,gpu:5": the devices in their order, runs of numbers in one.
std::string spelled(const std::vector<Device>& devices) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < devices.size(); first = ++last) {
    const auto follows = [&](const Device& device) {
      return device.kind == devices[last].kind && device.index == devices[last].index + 1;
    };
    while (last + 1 < devices.size() && follows(devices[last + 1])) ++last;
    if (first > 0) text += ',';
    text += devices[first].name();
    if (last > first) text += '-' + std::to_string(devices[last].index);
  }
  return text;
}

/// Reads "auto", "cpu", "gpu:0,2", ... from left to right.
class Parser {
 public:
  Parser(std::string_view text, Placement placement, int threads, const Inventory& machine)
      : text_(text), rest_(text), placement_(placement), threads_(threads), machine_(machine) {}

  Resolved parse() {
    do {
      item();
    } while (accept(','));
    if (!rest_.empty()) fail("'" + std::string(rest_) + "' is left over");
    return replace_missing();
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
      if (count(kind) == 0 && placement_ == Placement::strict) fail("there is no " + noun(kind));
      const int all = count(kind) > 0 ? count(kind) : machine_.cores;
      for (int index = 0; index < all; ++index) add(kind, index);
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
    if (kind == DeviceKind::cpu) return machine_.cores;
    return kind == DeviceKind::gpu ? machine_.gpus : machine_.sims;
  }

  static std::string noun(DeviceKind kind) {
    return kind == DeviceKind::gpu ? "GPU" : "simulated device";
  }

  DeviceKind kind_of(const std::string& word) const {
    if (word == "cpu") return DeviceKind::cpu;
    if (word == "gpu" || word == "cuda") return DeviceKind::gpu;
    if (word == "sim") return DeviceKind::sim;
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
    if (!there(device) && placement_ == Placement::strict) fail(device.name() + " is not there");
    if (named(device)) fail(device.name() + " is named twice");
    devices_.push_back(device);
  }

  /// More CPU devices than cores are there: they take turns.
  bool there(const Device& device) const {
    return device.kind == DeviceKind::cpu || device.index < count(device.kind);
  }

  bool named(const Device& device) const {
    return std::any_of(devices_.begin(), devices_.end(),
                       [&](const Device& other) { return other.name() == device.name(); });
  }

  /// Devices that are not there are left out; if none is left, CPU devices take their place.
  Resolved replace_missing() {
    std::vector<Device> missing, instead;
    for (const Device& device : devices_) (there(device) ? instead : missing).push_back(device);
    if (missing.empty()) return {devices_, {}};
    if (!instead.empty())
      return {instead, {"not there: " + spelled(missing) + "; only " + spelled(instead) + "."}};
    for (std::size_t i = 0; i < missing.size(); ++i)
      instead.push_back({DeviceKind::cpu, static_cast<int>(i), threads_});
    const DeviceKind kind = missing.front().kind;
    const bool none = count(kind) == 0 && std::ranges::all_of(missing, [&](const Device& device) {
                        return device.kind == kind;
                      });
    const std::string what = none ? "there is no " + noun(kind) : "not there: " + spelled(missing);
    return {instead, {what + "; " + spelled(instead) + " instead."}};
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError("devices '" + std::string(text_) + "': " + what + ". This machine has " +
                      listing(machine_) + "; write auto, cpu, gpu, cpu:0-3, gpu:0,2 or sim:0-3.");
  }

  const std::string_view text_;
  std::string_view rest_;
  const Placement placement_;
  const int threads_;
  const Inventory machine_;
  std::vector<Device> devices_;
};

}  // namespace

std::vector<Device> parse_devices(std::string_view text, int threads) {
  return parse_devices(text, threads, inventory());
}

std::vector<Device> parse_devices(std::string_view text, int threads, const Inventory& machine) {
  return resolve_devices(text, Placement::strict, threads, machine).devices;
}

Resolved resolve_devices(std::string_view text, Placement placement, int threads) {
  return resolve_devices(text, placement, threads, inventory());
}

Resolved resolve_devices(std::string_view text, Placement placement, int threads,
                         const Inventory& machine) {
  if (threads < 1)
    throw ConfigError("a device needs at least 1 thread; asked for " + std::to_string(threads) +
                      ".");
  return Parser(text, placement, threads, machine).parse();
}

}  // namespace lockstep
