#include "device/placement.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <lockstep/error.h>
#include <lockstep/placement.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "device/device_scope.h"
#include "device/random_stream.h"

namespace lockstep {
namespace device {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

struct NamedRange {
  std::uintptr_t end;
  c10::Device device;
  std::string name;
};

/// What the process knows of placement.
struct Registry {
  std::atomic<Placement> placement = Placement::soft;
  std::mutex mutex;
  std::map<std::uintptr_t, NamedRange> names;                         // by begin; guarded by mutex
  std::map<std::pair<std::string, std::string>, Fallback> fallbacks;  // guarded by mutex
};

Registry& registry() {
  static auto* const result = new Registry;  // outlives the threads that use it
  return *result;
}

/// The named tensor that this thread's operators were given last.
thread_local std::string last_name;

/// Calls f(Tensor) for every defined tensor in `value`: a tensor or a list of them.
template <class F>
void for_each_tensor(const IValue& value, const F& f) {
  const auto call = [&](const IValue& each) {
    if (each.isTensor() && each.toTensor().defined()) f(each.toTensor());
  };
  call(value);
  if (value.isList())
    for (const IValue& each : value.toListRef()) call(each);
}

/// `value` with f(Tensor) in the place of every defined tensor.
template <class F>
IValue map_tensors(const IValue& value, const F& f) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(f(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<Tensor> result;
    for (const Tensor& each : value.toTensorVector())
      result.push_back(each.defined() ? f(each) : each);
    return result;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> result;
    for (const std::optional<Tensor>& each : value.toOptionalTensorVector())
      result.push_back(each && each->defined() ? std::optional(f(*each)) : each);
    return result;
  }
  return value;
}

/// The device that `arguments` are of: that of the first tensor that is not the CPU's, or the one
/// that is named.
c10::Device device_of(c10::ArrayRef<IValue> arguments) {
  std::optional<c10::Device> found;
  for (const IValue& each : arguments)
    for_each_tensor(each, [&](const Tensor& tensor) {
      if (!found && !tensor.is_cpu()) found = tensor.device();
    });
  for (const IValue& each : arguments)
    if (!found && each.isDevice()) found = each.toDevice();
  return found.value_or(c10::Device(c10::kCPU));
}

std::string name_of(c10::Device device) {
  return device.is_cuda() ? "gpu:" + std::to_string(device.index()) : device.str();
}

std::string find_name(c10::ArrayRef<IValue> arguments) {
  Registry& known = registry();
  const std::scoped_lock lock(known.mutex);
  for (const IValue& argument : arguments)
    for_each_tensor(argument, [&](const Tensor& tensor) {
      if (tensor.is_cpu() || !tensor.has_storage()) return;
      const auto address = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
      auto after = known.names.upper_bound(address);
      if (after == known.names.begin()) return;
      const NamedRange& range = std::prev(after)->second;
      if (address < range.end && range.device == tensor.device()) last_name = range.name;
    });
  return last_name;
}

/// Counts the fallback, or refuses it in strict placement.
void account(const std::string& op, const std::string& device, const std::string& module,
             const std::string& reason) {
  Registry& known = registry();
  if (known.placement == Placement::strict) {
    const std::string where = module.empty() ? "" : " (in or after " + module + ")";
    throw ConfigError(op + " cannot run on " + device + where + ": " + reason +
                      "; allow the CPU with Placement::soft, or use another operator");
  }
  const std::scoped_lock lock(known.mutex);
  Fallback& entry = known.fallbacks[{device, op}];
  const std::int64_t count = entry.count + 1;
  entry = {.op = op, .device = device, .module = module, .reason = reason, .count = count};
}

/// A generator of the CPU for operators that were to draw from `generator` of a device.
at::Generator on_cpu(const at::Generator& generator) {
  if (generator.device().is_cpu()) return generator;
  if (const Scope* scope = current_scope(); scope && scope->cpu_generator.defined())
    return scope->cpu_generator;
  static std::atomic<std::int64_t> draws = 0;  // no scope: a new stream each time
  return at::make_generator<at::CPUGeneratorImpl>(
      stream_seed(generator.current_seed(), draws++, 0));
}

/// The arguments of one operator on their way to the CPU and back. A tensor that is given twice is
/// copied once: what aliases there aliases here.
class Excursion {
 public:
  explicit Excursion(c10::Device device) : device_(device) {}

  IValue there(const IValue& argument) {
    if (argument.isDevice()) return c10::Device(c10::kCPU);
    if (argument.isGenerator()) return on_cpu(argument.toGenerator());
    return map_tensors(argument, [this](const Tensor& tensor) {
      auto [position, added] = copies_.try_emplace(tensor.unsafeGetTensorImpl());
      if (added) {
        position->second = tensor.cpu();
        originals_.emplace(position->second.unsafeGetTensorImpl(), tensor);
      }
      return position->second;
    });
  }

  /// Writes what the operator has written back to `argument`.
  void update(const IValue& argument) {
    for_each_tensor(argument, [this](const Tensor& tensor) {
      const Tensor& copy = copies_.at(tensor.unsafeGetTensorImpl());
      if (copy.is_same(tensor)) return;
      if (tensor.sizes() != copy.sizes()) tensor.resize_(copy.sizes());
      tensor.copy_(copy);
    });
  }

  IValue back(const IValue& result) {
    return map_tensors(result, [this](const Tensor& tensor) {
      const auto original = originals_.find(tensor.unsafeGetTensorImpl());
      return original != originals_.end() ? original->second : tensor.to(device_);
    });
  }

 private:
  c10::Device device_;
  std::unordered_map<const c10::TensorImpl*, Tensor> copies_, originals_;
};

bool is_view(const c10::FunctionSchema& schema) {
  for (const c10::Argument& each : schema.returns())
    if (each.alias_info() && !each.alias_info()->isWrite()) return true;
  return false;
}

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack, const std::string& reason) {
  const c10::FunctionSchema& schema = op.schema();
  const std::size_t begin = stack->size() - schema.arguments().size();
  const std::vector<IValue> arguments(stack->begin() + static_cast<std::ptrdiff_t>(begin),
                                      stack->end());
  const c10::Device device = device_of(arguments);
  const std::string& name = schema.name();
  if (is_view(schema))
    throw ConfigError(name + " is a view: it cannot run on the CPU for " + name_of(device));
  account(name, name_of(device), find_name(arguments), reason);

  Excursion excursion(device);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    (*stack)[begin + i] = excursion.there(arguments[i]);
  {
    const DeviceScope host(c10::kCPU);  // what the kernel makes for itself
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (alias && alias->isWrite()) excursion.update(arguments[i]);
  }
  for (std::size_t i = begin; i < stack->size(); ++i) (*stack)[i] = excursion.back((*stack)[i]);
}

void note_arguments(const c10::OperatorHandle& op, const Stack& stack) {
  const std::size_t count = op.schema().arguments().size();
  find_name(c10::ArrayRef<IValue>(stack).slice(stack.size() - count, count));
}

void TensorNames::name(const torch::Tensor& tensor, const std::string& name) {
  if (!tensor.defined() || tensor.is_cpu() || !tensor.has_storage() || tensor.nbytes() == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  if (begin == 0) return;
  Registry& known = registry();
  const std::scoped_lock lock(known.mutex);
  known.names.insert_or_assign(begin, NamedRange{begin + tensor.nbytes(), tensor.device(), name});
  begins_.push_back(begin);
}

TensorNames::~TensorNames() {
  Registry& known = registry();
  const std::scoped_lock lock(known.mutex);
  for (const std::uintptr_t begin : begins_) known.names.erase(begin);
}

}  // namespace device

void set_placement(Placement placement) { device::registry().placement = placement; }

Placement placement() { return device::registry().placement; }

std::vector<Fallback> fallbacks() {
  device::Registry& known = device::registry();
  const std::scoped_lock lock(known.mutex);
  std::vector<Fallback> result;
  for (const auto& [key, entry] : known.fallbacks) result.push_back(entry);
  return result;
}

}  // namespace lockstep
