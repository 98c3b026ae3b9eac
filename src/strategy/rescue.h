#pragma once

// How training goes on without a device that failed.

#include <set>
#include <string>
#include <vector>

#include "strategy/torn.h"
#include "strategy/towers.h"

namespace lockstep::strategy {

/// Retires the replicas of devices that are gone, or do not answer. False, and nothing is changed,
/// when that would leave none, or lose what the caller wrote to the model.
bool retire(Replicas& replicas, Towers& towers, const std::set<std::string>& gone);

/// Mirrors on the host what towers keep, and has the others take over from a tower that failed.
class Rescue {
 public:
  /// Both must live on.
  Rescue(Towers& towers, Replicas& replicas, const ParameterMap& map);

  /// Copies a tower's slots and moving averages to the host: after each update, on its thread.
  void mirror(const Tower& tower);

  /// Takes `device` out of the towers, and with it those that do not answer any more: the others
  /// share its shards, and its slices with the slots that were mirrored. False when they cannot.
  bool go_on_without(const std::string& device, Torn& torn);

 private:
  std::vector<Flats> joined_mirrors() const;
  void take_over(const std::vector<Flats>& kept);

  Towers& towers_;
  Replicas& replicas_;
  const ParameterMap& map_;
  std::vector<std::vector<Flats>> mirrors_;  // by place; each is touched by its tower's thread
};

}  // namespace lockstep::strategy
