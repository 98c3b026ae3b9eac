#include "sim/allocator.h"
#include "sim/engine.h"
#include "sim/fallback.h"
#include "sim/guard.h"
#include "sim/kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceType.h>
#include <lockstep/error.h>

#include <mutex>

namespace lockstep::sim {
namespace {

constexpr auto kKey = c10::DispatchKey::PrivateUse1;

/// Gives every aten operator that has a CPU kernel, and none of ours, the fallback: LibTorch's
/// composite kernels would otherwise come first, and report mixed devices in their own way.
void register_fallbacks(torch::Library& aten) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0 || op->hasKernelForDispatchKey(kKey) ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::CPU))
      continue;
    const std::string full =
        name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    aten.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_cpu_kernel>());
  }
}

void refuse_sparse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  throw ConfigError(c10::toString(op.operator_name()) +
                    " makes or takes a sparse tensor, which simulated devices do not have; use a "
                    "dense one (sparse = false).");
}

/// The libraries live as long as the process: LibTorch has no way back.
void register_kernels() {
  auto& libraries = *new std::vector<torch::Library>;
  libraries.reserve(6);
  const auto open = [&](const char* name, c10::DispatchKey key) -> torch::Library& {
    return libraries.emplace_back(torch::Library::IMPL, name, key, __FILE__, __LINE__);
  };
  torch::Library& aten = open("aten", kKey);
  register_factories(aten);
  register_copies(aten);
  register_layers(aten);
  register_cells(aten);
  register_fallbacks(aten);
  open("_", kKey).fallback(torch::CppFunction::makeFromBoxedFunction<&run_cpu_kernel>());
  for (const auto sparse :
       {c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCsrPrivateUse1})
    open("_", sparse).fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
  open("_", c10::DispatchKey::AutocastPrivateUse1).fallback(torch::CppFunction::makeFallthrough());
  register_autocast(open("aten", c10::DispatchKey::AutocastPrivateUse1));
}

void install_once() {
  if (c10::impl::hasDeviceGuardImpl(kDeviceType))
    throw ConfigError(
        "simulated devices cannot be used: the program has a PrivateUse1 device of its own");
  c10::register_privateuse1_backend("sim");
  install_guard();
  c10::SetAllocator(kDeviceType, device_allocator());
  install_cpu_allocator();
  install_hooks();
  register_kernels();
  serve_backward(Machine::instance().devices());
}

}  // namespace

void install() {
  static std::once_flag once;
  std::call_once(once, install_once);
}

}  // namespace lockstep::sim
