#pragma once

// Optimizers, as plain values. They update slices of the parameter arena: each slot exists once,
// whatever the number of devices. Defaults and results are those of torch::optim. A parameter that
// no shard has a gradient for is left alone in that step: no weight decay, no change of its slots,
// and the step does not count among its updates.

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep {

struct Sgd {
  double lr = 1e-2;
  double momentum = 0;
  bool nesterov = false;    ///< needs momentum above 0 and no dampening
  double weight_decay = 0;  ///< L2: added to the gradient
  double dampening = 0;  ///< of the gradient in the momentum, from a parameter's second update on
};

struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< L2: added to the gradient
  bool amsgrad = false;     ///< divide by the largest mean square so far
};

struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;  ///< decoupled: shrinks the weights
  bool amsgrad = false;        ///< divide by the largest mean square so far
};

struct Adagrad {
  double lr = 1e-2;
  double lr_decay = 0;  ///< the rate is lr / (1 + lr_decay * updates of the parameter before)
  double epsilon = 1e-10;
  double initial_accumulator = 0;
  double weight_decay = 0;  ///< L2: added to the gradient
};

/// PyTorch's RMSprop by default; `tensorflow_rms_prop` sets the three things in which
/// tf.train.RMSPropOptimizer differs.
struct RmsProp {
  double lr = 1e-2;
  double decay = 0.99;  ///< of the mean square
  double epsilon = 1e-8;
  double momentum = 0;
  bool centered = false;
  double weight_decay = 0;            ///< L2: added to the gradient
  bool epsilon_inside_root = false;   ///< sqrt(v + epsilon) instead of sqrt(v) + epsilon
  bool rate_inside_momentum = false;  ///< the momentum slot holds steps, not gradients
  double initial_mean_square = 0;
};

/// tf.train.RMSPropOptimizer(lr, decay, momentum, epsilon): epsilon inside the root, mean squares
/// that start at one, learning rate inside the momentum slot.
RmsProp tensorflow_rms_prop(double lr, double decay = 0.9, double momentum = 0,
                            double epsilon = 1e-10);

using Optimizer = std::variant<Sgd, Adam, AdamW, RmsProp, Adagrad>;

/// Other values for parameters whose name matches `pattern`, in which * stands for any text:
/// {.pattern = "*.bias", .weight_decay = 0}. The first rule that matches is used; a rule that
/// matches nothing is an error.
struct ParameterRule {
  std::string pattern;
  double lr_factor = 1;
  std::optional<double> weight_decay = std::nullopt;  ///< instead of the optimizer's
};

/// Gradient clipping. At most one of the two is set; 0 means off.
struct Clip {
  double global_norm = 0;     ///< of the averaged gradient, over all parameters
  double per_shard_norm = 0;  ///< of each shard's own mean gradient before averaging, as the old
                              ///< tower programs did
};

/// A moving average of the weights, updated after every step.
struct MovingAverage {
  double decay = 0.9999;
  bool warm_up = false;  ///< min(decay, (1 + step) / (10 + step)), as TensorFlow with num_updates
};

/// The learning rate inside an optimizer, whichever it is.
double learning_rate(const Optimizer& optimizer);
void set_learning_rate(Optimizer& optimizer, double lr);

}  // namespace lockstep
