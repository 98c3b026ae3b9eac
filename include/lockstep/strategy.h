#pragma once

// Strategy: a way to train a model on many devices, as trainers, checkpoints and reports see it.

#include <lockstep/method.h>
#include <lockstep/report.h>
#include <lockstep/state.h>
#include <lockstep/where.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What is special about one step.
struct StepOptions {
  /// The step is about the parameters whose names match, in which * stands for any text. The others
  /// are not touched: no gradient, no slot, no weight decay, no moving average.
  std::string update = "*";
  std::string phase = "";  ///< a name for the report: "discriminator"
};

/// Use from one thread at a time.
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual std::string name() const = 0;      ///< "mirrored"
  virtual const Method& method() const = 0;  ///< with the optimizers as they are now
  virtual const Where& where() const = 0;
  /// Of the devices that compute: of all machines, "host1/cpu:0", where there are several.
  virtual std::vector<std::string> device_names() const;

  /// How many batches are best staged ahead of the step at work.
  virtual std::int64_t lookahead() const { return 1; }

  virtual Seconds now() const = 0;  ///< by the devices' clock: simulated ones have virtual time

  virtual std::int64_t steps() const = 0;    ///< taken so far, skipped ones included
  virtual std::int64_t skipped() const = 0;  ///< not finite, or without weight

  /// Of method().optimizer, or of the group with this pattern; from the next step on.
  virtual void set_learning_rate(double lr) = 0;
  virtual void set_learning_rate(const std::string& group, double lr) = 0;

  /// Freezes the parameters whose names match, or trains them again; from the next step on. They
  /// have to be trainable when the towers are made. A frozen one keeps its slots. Throws
  /// ConfigError when nothing matches.
  virtual void set_trainable(const std::string& pattern, bool trainable) = 0;

  /// A copy of weights, slots, averages, buffers and gradients. Between steps.
  virtual State state() const = 0;

  /// Takes over a state, from any number of devices. Throws ConfigError, and changes nothing, when
  /// it is not of this model and optimizer.
  virtual void load(const State& state) = 0;

  /// With several machines and OnDeviceFailure::replay, after `failure`: the state before the step
  /// that failed, put together from what is left. Load it, and take the step again, with what the
  /// share of this machine is then. Nothing when that cannot be. All who are left call it.
  virtual std::optional<State> rescue(const std::exception_ptr& /*failure*/) {
    return std::nullopt;
  }

  /// Runs `evaluation` with the moving averages in place of the weights, then puts the weights back
  /// exactly, also when it throws.
  virtual void with_averaged_weights(const std::function<void()>& evaluation) = 0;

  /// The model, to look at between steps.
  virtual const torch::nn::Module& module() const = 0;

 protected:
  Strategy() = default;
  Strategy(const Strategy&) = default;
  Strategy& operator=(const Strategy&) = default;
};

}  // namespace lockstep
