#pragma once

// Backward runs on the autograd engine's threads, with as many intra-op threads as the thread that
// called it: kernels sum in another order with another number.

#include <c10/util/ThreadLocalDebugInfo.h>

namespace lockstep::sim {

/// While it lives, this thread's number of intra-op threads is part of its thread-local state,
/// which LibTorch hands to the threads of a backward pass.
class ThreadsOfCaller {
 public:
  ThreadsOfCaller();

 private:
  c10::DebugInfoGuard info_;
};

/// In a backward pass: gives this thread the number of the one that called backward.
void use_threads_of_caller();

}  // namespace lockstep::sim
