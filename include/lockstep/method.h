#pragma once

// Method: what a training computes. It fixes the result, bit for bit; where it runs does not
// (lockstep/where.h). Checkpoints hold it, and resuming with another one is refused.

#include <lockstep/device.h>
#include <lockstep/optimizer.h>
#include <lockstep/precision.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What to do with a step whose loss or gradient is infinite or not a number.
enum class NonFinite {
  refuse,  ///< throw TowerError, apply nothing
  skip,    ///< apply nothing, count it, continue
};

/// In which order gradients are summed over accelerators.
enum class Reduction {
  exact,  ///< in the order of the shards' tree: the number of devices never changes the result
  fast,   ///< in the order that moves the fewest bytes: the result depends on the devices
};

/// In which order asynchronous updates are applied.
enum class Order {
  delay,  ///< in the order of the batches: the number of devices never changes the result
  free,   ///< as gradients arrive: the result depends on the devices and on their speed
};

/// What Async<Model> computes.
struct Asynchrony {
  Order order = Order::delay;
  /// Order::delay: the gradient of batch u is computed with the weights before update u - delay, so
  /// that delay + 1 devices compute at a time. 0: as Mirrored does with the same shards.
  int delay = 3;
  /// Order::free: the most updates between the weights that a gradient was computed with and its
  /// own update. Nothing: no bound.
  std::optional<int> staleness = std::nullopt;
  /// Delay compensation (DC-ASGD): adds this times g * g * (weights now - weights then) to a
  /// gradient g. 0: off.
  double compensation = 0;
};

/// Parameters with an optimizer of their own: those whose name matches `pattern`, in which * stands
/// for any text, and no group before it.
struct Group {
  std::string pattern;
  Optimizer optimizer;
};

struct Method {
  int shards = kDefaultShards;     ///< parts of the global batch; the result depends on this number
  Optimizer optimizer = Sgd{};     ///< of the parameters that are in no group
  std::vector<Group> groups = {};  ///< a group without a parameter is an error
  std::vector<ParameterRule> rules = {};  ///< on top of the optimizers
  Clip clip = {};
  std::optional<MovingAverage> moving_average = std::nullopt;
  NonFinite non_finite = NonFinite::refuse;
  std::uint64_t seed = 0;  ///< for initial weights, dropout and everything random in the model
  Precision precision = Precision::float32;  ///< of forward and backward; weights stay as they are
  LossScaling loss_scaling = {};             ///< for Precision::float16
  Reduction reduction = Reduction::exact;
  std::optional<Asynchrony> async = std::nullopt;  ///< of Async<Model> only
};

/// Every field by name, as text: {"optimizer", "adam"}, {"optimizer.lr", "0.001"},
/// {"groups.head.*.lr", "0.01"}. What is off has no field.
std::map<std::string, std::string> fields_of(const Method& method);

/// A field that differs; "none" where it does not exist.
struct FieldChange {
  std::string name;
  std::string before, now;
};

std::vector<FieldChange> changes(const std::map<std::string, std::string>& before,
                                 const std::map<std::string, std::string>& now);

/// "optimizer.lr: 0.1 -> 0.01"
std::string describe(const FieldChange& change);

}  // namespace lockstep
