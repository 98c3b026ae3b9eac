#pragma once

// What all machines must have in common. Each says what it has; a difference is found before it
// does harm, and named.

#include <lockstep/machines.h>
#include <lockstep/method.h>
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::strategy {

/// Names with values, in the same order on all machines.
using Statements = std::vector<std::pair<std::string, std::string>>;

/// Throws ConfigError, on all machines alike, with the first value that differs between two of
/// them, and `advice`.
void require_agreement(Machines& machines, const Statements& own, const std::string& advice);

/// A fingerprint of the bytes of tensors on the CPU.
std::string fingerprint(const std::vector<torch::Tensor>& tensors);

/// What decides on the bits that this machine computes: program, LibTorch, CPU. `instructions` as
/// Where has them.
Statements program_statements(const std::string& instructions);
Statements method_statements(const Method& method);

}  // namespace lockstep::strategy
