#pragma once

// The models of a pipeline: the whole one that the caller sees, and others that view its weights,
// until a stage gives them their own.

#include <deque>
#include <memory>
#include <vector>

#include "strategy/replica.h"

namespace lockstep::strategy {

/// By place; the caller's model is at place 0, on the CPU. One after the other is made and seated,
/// so that no more than two of them ever have weights of their own.
class StageModels {
 public:
  explicit StageModels(std::shared_ptr<torch::nn::Module> first);

  /// Adds one that views the first one's parameters. Throws ConfigError when it is not like it.
  void add(std::shared_ptr<torch::nn::Module> module);
  /// When all are there. Throws ConfigError when two have a tensor or module in common.
  void require_apart() const;

  Replica& operator[](Place place) {
    return place.value == 0 ? whole_[place] : others_[place.index() - 1];
  }

  Replicas& whole() { return whole_; }  ///< of the first one alone
  const Replicas& whole() const { return whole_; }
  Replica& first() { return whole_[{0}]; }
  const Replica& first() const { return whole_[{0}]; }
  const std::deque<Replica>& others() const { return others_; }

  /// Views the first one's frozen parameters again, should they be elsewhere now.
  void share_frozen(Place place);
  /// Takes over the first one's training modes.
  void share_modes(Place place);

  /// Throws ConfigError when the model at `place` has written a parameter since the step began, or
  /// put another tensor in the place of a registered one.
  void check(Place place);

 private:
  Replicas whole_;
  std::deque<Replica> others_;
};

}  // namespace lockstep::strategy
