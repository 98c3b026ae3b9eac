#include "sim/engine.h"

#include <torch/csrc/autograd/engine.h>

#include <atomic>

namespace lockstep::sim {
namespace {

struct SimEngine final : torch::autograd::Engine {
  /// LibTorch starts threads once a process, for whichever engine comes first.
  void start() {
    initialize_device_threads_pool();
    if (device_ready_queues_.empty()) start_device_threads();
  }
};

/// Lives as long as the process: its threads never end.
std::atomic<SimEngine*> engine = nullptr;

torch::autograd::Engine& current_engine() { return *engine.load(); }

}  // namespace

void serve_backward(int devices) {
  static int served = 0;
  if (devices <= served) return;
  served = devices;
  auto* larger = new SimEngine;
  larger->start();
  engine = larger;
  torch::autograd::set_default_engine_stub(&current_engine);
}

}  // namespace lockstep::sim
