#include <lockstep/optimizer.h>

namespace lockstep {

RmsProp tensorflow_rms_prop(double lr, double decay, double momentum, double epsilon) {
  return {.lr = lr,
          .decay = decay,
          .epsilon = epsilon,
          .momentum = momentum,
          .epsilon_inside_root = true,
          .rate_inside_momentum = true,
          .initial_mean_square = 1};
}

double learning_rate(const Optimizer& optimizer) {
  return std::visit([](const auto& kind) { return kind.lr; }, optimizer);
}

void set_learning_rate(Optimizer& optimizer, double lr) {
  std::visit([lr](auto& kind) { kind.lr = lr; }, optimizer);
}

}  // namespace lockstep
