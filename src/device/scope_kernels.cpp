#include "device/scope_kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/scope.h"
#include "kernels/model_products.h"

namespace lockstep::device {
namespace {

using c10::IValue;
using torch::jit::Stack;

/// Where an operator takes what a scope may fill in.
struct Positions {
  explicit Positions(const c10::FunctionSchema& schema);

  std::size_t count;  // of all arguments
  std::optional<std::size_t> generator, device, pin_memory;
  bool factory = true;  // has a device argument and no tensor argument
};

Positions::Positions(const c10::FunctionSchema& schema) : count(schema.arguments().size()) {
  for (std::size_t i = 0; i < count; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const std::string type = argument.type()->str();
    if (type == "Generator?") generator = i;
    if (type == "Device?") device = i;
    if (argument.name() == "pin_memory") pin_memory = i;
    if (type.find("Tensor") != std::string::npos) factory = false;
  }
  factory = factory && device;
}

/// Calls the kernel below this one. Operators that it calls in turn come here again: aten::randn,
/// which takes no generator, calls one that does.
void call_on(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  op.redispatchBoxed(
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, keys.highestPriorityTypeId()),
      stack);
}

/// The device for tensors that the model, not LibTorch, makes without naming one.
std::optional<c10::Device> device_of_models_call() {
  const Scope* scope = current_scope();
  return scope && operator_depth() <= 1 ? scope->device : std::nullopt;
}

/// Fills what was left empty with the scope's, then calls on.
class Fill : public c10::OperatorKernel {
 public:
  explicit Fill(const c10::FunctionSchema& schema) : at_(schema) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    IValue* arguments = stack->data() + (stack->size() - at_.count);
    if (at_.factory) fill_device(arguments[*at_.device], arguments);
    if (at_.generator) fill_generator(arguments[*at_.generator], arguments);
    call_on(op, keys, stack);
  }

 protected:
  std::size_t count() const { return at_.count; }

 private:
  void fill_device(IValue& device, const IValue* arguments) const {
    if (!device.isNone()) return;
    if (at_.pin_memory && arguments[*at_.pin_memory] == IValue(true)) return;  // is the CPU's
    if (const auto own = device_of_models_call()) device = *own;
  }

  void fill_generator(IValue& generator, const IValue* arguments) const {
    const Scope* scope = current_scope();
    if (!generator.isNone() || !scope || !scope->generator.defined()) return;
    generator = on_cpu(arguments) ? scope->cpu_generator : scope->generator;
  }

  bool on_cpu(const IValue* arguments) const {
    if (at_.device && !arguments[*at_.device].isNone())
      return arguments[*at_.device].toDevice().is_cpu();
    for (std::size_t i = 0; i < at_.count; ++i)
      if (arguments[i].isTensor() && arguments[i].toTensor().defined())
        return arguments[i].toTensor().is_cpu();
    return true;
  }

  Positions at_;
};

// torch::tensor({1, 2}) makes its tensor on the CPU in any case and then moves it with a call of
// `to` that names the CPU even if the model did not. So two more kernels: one knows such a tensor
// when it is made, the other moves it to the scope's device.

using TensorPointer = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
using WeakTensorPointer = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// What torch::tensor made last on this thread and has not moved yet.
thread_local std::optional<WeakTensorPointer> literal;

bool excluded(c10::DispatchKey key) { return c10::impl::tls_is_dispatch_key_excluded(key); }

/// For aten::empty.memory_format. Who calls it is seen from the keys that the caller switched off:
/// torch::empty both, torch::tensor the first, at::empty and at::tensor none.
class FillEmpty : public Fill {
 public:
  using Fill::Fill;

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const bool ours = device_of_models_call().has_value();
    const bool first = excluded(c10::DispatchKey::AutogradFunctionality);
    const bool second = excluded(c10::DispatchKey::ADInplaceOrView);
    // at::tensor writes to the memory of a list with a dtype that it asked for: the CPU's.
    const IValue *sizes = stack->data() + (stack->size() - count()), *dtype = sizes + 1;
    if (ours && !second && sizes->toListRef().size() == 1 && !dtype->isNone())
      call_on(op, keys, stack);
    else
      Fill::operator()(op, keys, stack);
    if (ours && first && !second) literal.emplace(stack->back().toTensor().getIntrusivePtr());
  }
};

/// For aten::to.dtype_layout.
class MoveLiteral : public c10::OperatorKernel {
 public:
  explicit MoveLiteral(const c10::FunctionSchema& schema) : at_(schema) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    IValue* arguments = stack->data() + (stack->size() - at_.count);
    const TensorPointer noted = literal ? literal->lock() : TensorPointer();
    const auto device = device_of_models_call();
    if (device && noted.defined() && arguments[0].toTensor().getIntrusivePtr() == noted) {
      arguments[*at_.device] = *device;
      literal.reset();
    }
    call_on(op, keys, stack);
  }

 private:
  Positions at_;
};

/// The kernel that `op` needs; none for most.
std::optional<torch::CppFunction> kernel_for(const std::string& name,
                                             const c10::FunctionSchema& schema) {
  using torch::CppFunction;
  const Positions at(schema);
  if (name == "aten::from_file") return std::nullopt;  // maps a file into the CPU's memory
  if (name == "aten::empty.memory_format")
    return CppFunction::makeFromBoxedFunctor(std::make_unique<FillEmpty>(schema));
  if (name == "aten::to.dtype_layout")
    return CppFunction::makeFromBoxedFunctor(std::make_unique<MoveLiteral>(schema));
  if (at.factory || at.generator)
    return CppFunction::makeFromBoxedFunctor(std::make_unique<Fill>(schema));
  return std::nullopt;
}

}  // namespace

void install_scope_kernels() {
  static const auto* libraries = [] {
    auto* result = new std::vector<torch::Library>;
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto key : {kRandomKey, kDeviceKey}) {
      result->emplace_back(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
      result->back().fallback(torch::CppFunction::makeFallthrough());
      result->emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
      for (const c10::OperatorName& each : dispatcher.getAllOpNames()) {
        const auto op = dispatcher.findSchema(each);
        if (!op || each.name.rfind("aten::", 0) != 0) continue;
        const bool random = Positions(op->schema()).generator.has_value();
        if (random != (key == kRandomKey)) continue;
        const std::string name = c10::toString(each);
        if (auto kernel = kernel_for(name, op->schema()))
          result->back().impl(name.c_str(), std::move(*kernel));
      }
    }
    kernels::install_model_products(kRandomKey);
    return result;
  }();
  (void)libraries;
}

}  // namespace lockstep::device
