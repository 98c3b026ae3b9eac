#include "device/scope.h"

#include <string_view>
#include <utility>

#include "device/scope_kernels.h"

namespace lockstep::device {
namespace {

constexpr std::string_view kInfoName = "LOCKSTEP_SCOPE";
constexpr c10::DebugInfoKind kInfo(&kInfoName);

thread_local int depth = 0;

struct SavedDepth : at::ObserverContext {
  int outer = std::exchange(depth, 0);
};

/// A node of a backward pass begins anew: it may be the model's own.
std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) return std::make_unique<SavedDepth>();
  ++depth;
  return nullptr;
}

void leave(const at::RecordFunction&, at::ObserverContext* saved) {
  if (saved)
    depth = static_cast<const SavedDepth*>(saved)->outer;
  else
    --depth;
}

bool elsewhere(const Scope& scope) { return scope.device && !scope.device->is_cpu(); }

/// On the CPU an empty device is right as it is: the kernels that fill it would only cost time.
c10::DispatchKeySet keys_of(const Scope& scope) {
  const c10::DispatchKeySet keys(kRandomKey);
  return elsewhere(scope) ? keys.add(kDeviceKey) : keys;
}

/// Makes LibTorch tell this thread of every operator, unless an outer guard does already.
at::CallbackHandle count_depth(Scope& scope) {
  if (scope.counts_depth || !elsewhere(scope)) return at::INVALID_CALLBACK_HANDLE;
  scope.counts_depth = true;
  return at::addThreadLocalCallback(
      at::RecordFunctionCallback(enter, leave)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

}  // namespace

const Scope* current_scope() {
  return static_cast<const Scope*>(c10::ThreadLocalDebugInfo::get(kInfo));
}

std::shared_ptr<Scope> copy_of_current_scope() {
  const Scope* scope = current_scope();
  return scope ? std::make_shared<Scope>(*scope) : std::make_shared<Scope>();
}

int operator_depth() { return depth; }

ScopeGuard::ScopeGuard(const std::shared_ptr<Scope>& scope)
    : counter_(count_depth(*scope)),
      info_(kInfo, scope),
      include_((install_scope_kernels(), keys_of(*scope))) {}

ScopeGuard::~ScopeGuard() {
  if (counter_ != at::INVALID_CALLBACK_HANDLE) at::removeCallback(counter_);
}

}  // namespace lockstep::device
