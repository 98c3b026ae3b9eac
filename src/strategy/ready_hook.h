#pragma once

// Gradients, as soon as autograd has accumulated them.

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "strategy/tower.h"

namespace lockstep::strategy {

/// `ready` is called in the middle of every backward that comes to the parameter, on an accelerator
/// by autograd's thread of that device.
void call_when_ready(const torch::Tensor& parameter, std::function<void()> ready);

/// For parameters that may live on.
void call_no_more(const std::vector<arena::Entry>& parameters);

/// Notes that the tower's shard at work has the gradient of a parameter. Throws ConfigError when it
/// comes from a backward that is not Lockstep's; `function` names whose that would be.
void note_ready(Tower& tower, std::size_t parameter, const std::string& name, const char* function);

}  // namespace lockstep::strategy
