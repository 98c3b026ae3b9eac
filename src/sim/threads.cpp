#include "sim/threads.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/graph_task.h>

#include <array>
#include <atomic>

namespace lockstep::sim {

void use_threads_of_forward(int device) {
  static std::array<std::atomic<int>, 64> threads{};
  std::atomic<int>& mine = threads.at(static_cast<std::size_t>(device));
  const int now = at::get_num_threads();
  if (torch::autograd::get_current_graph_task_id() < 0) {
    mine.store(now, std::memory_order_relaxed);
    return;
  }
  const int before = mine.load(std::memory_order_relaxed);
  if (before > 0 && before != now) at::set_num_threads(before);
}

}  // namespace lockstep::sim
