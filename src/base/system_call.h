#pragma once

#include <lockstep/error.h>

#include <cerrno>
#include <functional>
#include <string>

namespace lockstep::base {

/// Asked before every system call of this layer: 0 lets it happen, an errno makes it fail instead.
/// `call` is the verb of the IoError: "open", "read", "write", "sync", "rename to", ...
using FaultHook = std::function<int(const char* call, const std::string& path)>;

/// For tests only: every call of the process, on any thread, asks `hook` until the guard ends. This
/// is how a full disk is tried at each of its moments. One guard at a time; the hook may be called
/// by several threads at once.
class ScopedFaults {
 public:
  explicit ScopedFaults(FaultHook hook);
  ~ScopedFaults();
  ScopedFaults(const ScopedFaults&) = delete;
  ScopedFaults& operator=(const ScopedFaults&) = delete;
};

/// What the guard's hook says; 0 without one.
int injected_fault(const char* call, const std::string& path);

/// Calls `action`, a system call, again when a signal interrupts it; throws IoError if it fails.
template <class Action>
auto attempt(const std::string& path, const char* call, const Action& action) {
  if (const int fault = injected_fault(call, path); fault != 0) throw IoError(path, call, fault);
  for (;;) {
    const auto result = action();
    if (result >= 0) return result;
    if (errno != EINTR) throw IoError(path, call, errno);
  }
}

}  // namespace lockstep::base
