#include "sim/fallback.h"

#include "device/placement.h"
#include "sim/allocator.h"
#include "sim/generator.h"
#include "sim/operators.h"
#include "sim/threads.h"
#include "sim/views.h"

#include <ATen/core/List.h>

namespace lockstep::sim {
namespace {

using torch::jit::Stack;

/// Calls `visit` with each tensor of an argument or result: a tensor, or a list of them.
template <class Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (!element.isTensor()) break;
      if (element.toTensor().defined()) visit(element.toTensor());
    }
  }
}

/// Replaces each tensor of a value by what `change` makes of it.
template <class Change>
void replace_tensors(c10::IValue& value, const Change& change) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = change(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector())
      list.push_back(tensor.defined() ? change(tensor) : tensor);
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList().vec())
      list.push_back(tensor && tensor->defined() ? std::optional(change(*tensor)) : tensor);
    value = std::move(list);
  }
}

bool on_sim(const at::Tensor& tensor) { return tensor.device().type() == kDeviceType; }

/// The arguments of one call, seen from the machine.
struct Arguments {
  int device = -1;
  std::vector<at::Tensor> tensors = {};  // of the device
  std::vector<bool> writes = {};         // by tensor

  std::vector<Use> uses() const {
    std::vector<Use> result;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Use use = use_of(tensors[i], writes[i]);
      if (use.memory) result.push_back(use);
    }
    return result;
  }
};

[[noreturn]] void throw_mixed(const Operator& op, int device, const at::Tensor& tensor) {
  throw MixedDevices(op.name + " was given tensors of " + device_name(device) + " and of " +
                     tensor.device().str() + ": " + c10::str(tensor.sizes()) +
                     " must be moved to the other's device first");
}

void add(Arguments& all, const Operator& op, const at::Tensor& tensor, bool write) {
  if (!on_sim(tensor)) return;
  const int device = tensor.device().index();
  if (all.device >= 0 && device != all.device) throw_mixed(op, all.device, tensor);
  all.device = device;
  all.tensors.push_back(tensor);
  all.writes.push_back(write);
}

bool is_training(const Operator& op, at::ArrayRef<c10::IValue> values) {
  return op.training < 0 || values[static_cast<std::size_t>(op.training)].toBool();
}

Arguments read(const Operator& op, at::ArrayRef<c10::IValue> values) {
  Arguments all;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool write = op.writes[i] || (op.trains[i] && is_training(op, values));
    for_each_tensor(values[i], [&](const at::Tensor& tensor) { add(all, op, tensor, write); });
    if (all.device < 0 && values[i].isDevice() && values[i].toDevice().type() == kDeviceType &&
        values[i].toDevice().has_index())
      all.device = values[i].toDevice().index();
  }
  if (all.device < 0) all.device = Machine::instance().current_device();
  for (std::size_t i = 0; i < values.size(); ++i)
    for_each_tensor(values[i], [&](const at::Tensor& tensor) {
      const bool welcome = op.may_mix[i] || (tensor.dim() == 0 && !op.writes[i]);
      if (!on_sim(tensor) && !welcome) throw_mixed(op, all.device, tensor);
    });
  return all;
}

bool is_missing(const Operator& op) {
  const auto& missing = Machine::instance().options().missing;
  return std::find(missing.begin(), missing.end(), op.name) != missing.end();
}

/// Makes the arguments those of a CPU kernel, in place.
void to_cpu(const Operator& op, int device, Views& views, at::ArrayRef<c10::IValue> values,
            c10::IValue* first) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    c10::IValue& value = first[i];
    replace_tensors(value, [&](const at::Tensor& t) { return on_sim(t) ? views.of(t) : t; });
    if (value.isDevice()) value = c10::Device(c10::kCPU);
  }
  if (op.generator >= 0) {
    c10::IValue& value = first[op.generator];
    value = cpu_generator(
        value.isNone() ? std::nullopt : std::optional<at::Generator>(value.toGenerator()), device,
        op.name);
  }
}

/// While it lives, a CPU kernel sees no more than the CPU: no autograd, autocast or mode.
struct OnlyTheCpu {
  c10::impl::ExcludeDispatchKeyGuard exclude{
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
      c10::DispatchKeySet(c10::DispatchKey::TESTING_ONLY_GenericMode) |
      c10::DispatchKeySet(c10::DispatchKey::TESTING_ONLY_GenericWrapper)};
};

std::vector<at::Tensor> take_back(Views& views, const Operator& op, c10::IValue* first,
                                  std::size_t count) {
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 0; i < count; ++i) {
    if (op.has_cpu_results && i > 0) continue;
    replace_tensors(first[i], [&](const at::Tensor& t) { return views.back(t); });
    for_each_tensor(first[i], [&](const at::Tensor& t) { outputs.push_back(t); });
  }
  return outputs;
}

void cpu_kernel(const c10::OperatorHandle& op, Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

}  // namespace

void run(const c10::OperatorHandle& handle, Stack* stack, CpuKernel kernel) {
  const Operator& op = describe(handle);
  const std::size_t inputs = op.writes.size();
  const Arguments arguments = read(op, torch::jit::last(*stack, inputs));
  if (!Machine::instance().options().missing.empty()) device::note_arguments(handle, *stack);
  if (is_missing(op)) {
    device::run_on_cpu(handle, stack, device_name(arguments.device) + " has no such operator");
    return;
  }
  Launch launch;
  if (!op.is_view) {
    launch = Machine::instance().begin(arguments.device, op.name, arguments.uses());
    launch.in_place = op.in_place;
    use_threads_of_caller();
  } else {
    launch.device = arguments.device;
  }
  const std::size_t before = stack->size() - inputs;
  Views views(arguments.device);
  to_cpu(op, arguments.device, views, torch::jit::last(*stack, inputs), stack->data() + before);
  {
    const KernelScope scope(launch);
    const OnlyTheCpu only;
    kernel(handle, stack);
  }
  views.apply_resizes();
  const auto outputs = take_back(views, op, stack->data() + before, stack->size() - before);
  if (!op.is_view)
    Machine::instance().end(launch, cost_of(op, arguments.tensors, outputs), op.host_waits);
}

void run_cpu_kernel(const c10::OperatorHandle& op, Stack* stack) { run(op, stack, &cpu_kernel); }

}  // namespace lockstep::sim
