#include "sim/engine.h"

#include "sim/threads.h"

#include <torch/csrc/autograd/engine.h>

#include <atomic>

namespace lockstep::sim {
namespace {

using torch::autograd::edge_list;
using torch::autograd::variable_list;

struct SimEngine final : torch::autograd::Engine {
  variable_list execute(const edge_list& roots, const variable_list& inputs, bool keep_graph,
                        bool create_graph, bool accumulate_grad,
                        const edge_list& outputs) override {
    use_threads_of_caller();  // a node of another backward may call this one
    const ThreadsOfCaller threads;
    return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

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
