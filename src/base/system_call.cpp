#include "base/system_call.h"

#include <memory>
#include <mutex>
#include <utility>

namespace lockstep::base {
namespace {

struct Faults {
  std::mutex mutex;
  std::shared_ptr<const FaultHook> hook;  // guarded by mutex; empty outside tests
};

/// The hook has to reach files that are opened deep inside a background save: hence one a process.
Faults& faults() {
  static Faults instance;
  return instance;
}

}  // namespace

ScopedFaults::ScopedFaults(FaultHook hook) {
  const std::scoped_lock lock(faults().mutex);
  check(!faults().hook, "one ScopedFaults at a time");
  faults().hook = std::make_shared<const FaultHook>(std::move(hook));
}

ScopedFaults::~ScopedFaults() {
  const std::scoped_lock lock(faults().mutex);
  faults().hook.reset();
}

int injected_fault(const char* call, const std::string& path) {
  std::shared_ptr<const FaultHook> hook;
  {
    const std::scoped_lock lock(faults().mutex);
    hook = faults().hook;
  }
  return hook ? (*hook)(call, path) : 0;
}

}  // namespace lockstep::base
