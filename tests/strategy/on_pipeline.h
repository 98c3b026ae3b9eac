#pragma once

// Models in parts, trained by Pipeline and, whole, by Mirrored.

#include <lockstep/pipeline.h>

#include <atomic>

#include "strategy/on_sim.h"

namespace on_pipeline {

using namespace on_sim;
namespace nn = torch::nn;
using models::Batch;
using torch::Tensor;

inline Tensor cross_entropy(const Tensor& output, const Tensor& target) {
  return nn::functional::cross_entropy(output.flatten(0, -2), target.flatten());
}

/// Two tensors cross, one of them twice; dropout and batch norm are on both sides of each cut.
struct Deep : nn::Module {
  struct Middle {
    Tensor hidden, gate;
    int depth = 0;
    auto tensors() { return std::tie(hidden, gate); }
  };

  Deep() {
    for (int i = 0; i < 4; ++i) {
      const std::string number = std::to_string(i);
      linear.push_back(register_module("linear" + number, nn::Linear(i == 0 ? 12 : 40, 40)));
      norm.push_back(register_module("norm" + number, nn::BatchNorm1d(40)));
    }
    drop = register_module("drop", nn::Dropout(0.3));
    head = register_module("head", nn::Linear(40, 5));
  }

  Middle part(int i, const Middle& in) {
    const auto n = static_cast<std::size_t>(i);
    const Tensor x = in.gate.defined() ? in.hidden * in.gate + in.hidden : in.hidden;
    const Tensor y = drop(torch::relu(norm[n](linear[n](x))));
    return {y, drop(torch::sigmoid(y)), in.depth + 1};
  }
  Middle parts(int first, int end, Middle in) {
    for (int i = first; i < end; ++i) in = part(i, in);
    return in;
  }
  Tensor finish(const Middle& in) { return head(in.hidden + drop(in.gate) + in.hidden); }
  Tensor forward(const Tensor& x) { return finish(parts(0, 4, {x, {}})); }

  std::vector<nn::Linear> linear;
  std::vector<nn::BatchNorm1d> norm;
  nn::Dropout drop = nullptr;
  nn::Linear head = nullptr;
};

/// Calls use(stages(...)) with Deep in so many parts.
template <class Use>
auto with_deep(int count, const Use& use) {
  const auto first = [count](Deep& net, const Batch& b) {
    return net.parts(0, 4 / count, {b.first, {}});
  };
  const auto last = [count](Deep& net, const Batch& b, Deep::Middle in) {
    return cross_entropy(net.finish(net.parts(in.depth, 4, std::move(in))), b.second);
  };
  const auto next = [count](Deep& net, Deep::Middle in) {
    const int depth = in.depth;
    return net.parts(depth, depth + 4 / count, std::move(in));
  };
  if (count == 1)
    return use(stages(
        [](Deep& net, const Batch& b) { return cross_entropy(net.forward(b.first), b.second); }));
  if (count == 2) return use(stages(first, last));
  if (count == 3) return use(stages(first, next, last));
  return use(stages(first, next, next, last));
}

/// Counts calls, for functions that fail at one of them. Stages of one model run on one thread
/// each.
inline std::atomic<int>& calls() {
  static std::atomic<int> count = 0;
  return count;
}

inline PipelineOptions piped(const MirroredOptions& like, std::vector<Device> devices, int stages,
                             bool recompute = false) {
  PipelineOptions options{like.method, like.where, stages, recompute, 0};
  options.where.devices = std::move(devices);
  return options;
}

/// Trains with `loss`, as on_sim::train does.
template <class Model, class Source, class Loss>
Trained train_piped(const PipelineOptions& how, const Source& source, int steps, const Loss& loss) {
  Pipeline<Model> towers(how);
  Trained run;
  for (int step = 0; step < steps; ++step) {
    const StepReport report = towers.step(source(step), loss);
    run.losses.push_back(report.loss);
    run.norms.push_back(report.gradient_norm);
  }
  run.state = towers.state();
  return run;
}

}  // namespace on_pipeline
