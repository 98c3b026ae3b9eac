#pragma once

// What a thread has set for the operators that it calls without saying where or from which stream:
// the common ground of RandomScope and DeviceScope. See "Note: scopes" in docs/notes.md.

#include <ATen/core/Generator.h>
#include <ATen/record_function.h>
#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <optional>

namespace lockstep::device {

/// The settings of a scope. Constant while the scope lives: backward threads read them too.
struct Scope : c10::DebugInfoBase {
  at::Generator generator;            ///< undefined: none set
  at::Generator cpu_generator;        ///< of CPU tensors: `generator`, or its twin on the CPU
  std::optional<c10::Device> device;  ///< of factories that are given none
  bool counts_depth = false;          ///< whether operator_depth() counts
};

/// The innermost scope of this thread, or of the thread whose backward pass this thread runs; null
/// outside.
const Scope* current_scope();

/// A copy of the current scope to change and to enter; a new one outside.
std::shared_ptr<Scope> copy_of_current_scope();

/// How many operators this thread is in the middle of: 1 in a kernel that the model called, more in
/// one that LibTorch called from inside another. Counted only where Scope::counts_depth says so.
int operator_depth();

/// While it lives, `scope` is this thread's. Guards nest.
class ScopeGuard {
 public:
  explicit ScopeGuard(const std::shared_ptr<Scope>& scope);
  ~ScopeGuard();
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  at::CallbackHandle counter_;  // of the guard that began to count, else invalid
  c10::DebugInfoGuard info_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

}  // namespace lockstep::device
