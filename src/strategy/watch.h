#pragma once

// What a model must not do with its registered tensors, and how it is noticed.

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arena/arena.h"

namespace lockstep::strategy {

/// Throws ConfigError when a tensor or module of one replica is also another's: each tower needs
/// its own.
void require_apart(const std::vector<std::shared_ptr<torch::nn::Module>>& replicas);

/// Throws ConfigError when a registered tensor shares memory with another one, or with one that is
/// not registered: seating would part them. See "Note: tied weights".
void require_own_memory(const arena::Tensors& tensors);

/// Notices what a forward pass does to one replica's tensors. See "Note: what forward may write".
class Watch {
 public:
  /// Notes the versions of the parameters. Between steps.
  void begin_step(const arena::Tensors& tensors);

  /// Notes how many handles each tensor has.
  void begin_shard(const arena::Tensors& tensors);

  /// The name of a parameter that was written since begin_step(); empty if none was.
  std::string written(const arena::Tensors& tensors) const;

  /// Around a shard: finds writes that leave no version, through data() or a pointer. Reads all
  /// parameters, so it is for the first step only.
  void begin_audit(const arena::Tensors& tensors) { sums_ = sums_of(tensors); }
  void end_audit(const arena::Tensors& tensors);

  /// The name of a tensor that has lost a handle, now or ever: a member was assigned another
  /// tensor. Empty if none has. What else holds tensors, such as a graph, has to be gone.
  const std::string& dropped(const arena::Tensors& tensors);

 private:
  static std::vector<std::uint64_t> sums_of(const arena::Tensors& tensors);

  std::vector<std::uint32_t> versions_;  // of parameters
  std::vector<std::uint64_t> sums_;      // of the bytes of each parameter, when the audit began
  std::string audited_;                  // the parameter that an audit found written
  std::vector<std::size_t> handles_;     // of all tensors: the fewest seen so far
  std::string dropped_;
};

}  // namespace lockstep::strategy
