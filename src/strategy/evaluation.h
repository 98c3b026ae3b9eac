#pragma once

// Evaluation: tasks from the caller's range, worked off by replicas on their threads.

#include <lockstep/method.h>
#include <torch/torch.h>

#include <exception>
#include <functional>

#include "strategy/replica.h"
#include "strategy/task_queue.h"

namespace lockstep::strategy {

/// What runs tasks. `begin` and `end` are called around each.
struct Evaluator {
  Place place;
  Replica& replica;
  torch::Device device;
  at::Generator generator;
  std::function<void()> begin, end;
};

/// Takes tasks out of a queue until there are no more, and runs them with the replica in evaluation
/// mode; afterwards its modules are in exactly the modes that they were in.
void work_off(TaskQueue& tasks, const Evaluator& evaluator, const Method& method);

/// Numbers the tasks of `next` and puts them into the queue, until one is empty or the queue was
/// closed. Returns what `next` threw, and the tasks inside are dropped then.
std::exception_ptr feed(TaskQueue& tasks, const std::function<std::function<void(Place)>()>& next);

}  // namespace lockstep::strategy
