#pragma once

// verify: does the number of devices change the result of *your* model? Trains it on different
// numbers of devices, side by side, and names the first tensor that differs.

#include <lockstep/job.h>
#include <lockstep/mirrored.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

struct VerifyOptions {
  std::vector<int> counts = {1, 2};  ///< of devices; all are compared with the first
  int steps = 3;
  /// Called before each step, with the number of devices that is compared with the first.
  std::function<void(int count, int step)> progress = nullptr;
};

struct Verification {
  bool equal = true;
  std::string difference = {};  ///< empty, or what differs first: step, devices, tensor, element
};

/// The first difference between two states, bit for bit: gradients, then parameters, slots, moving
/// averages, buffers, updates of parameters. Empty when there is none.
std::string first_difference(const State& expected, const State& found);

/// Takes the same steps of `job_on(count)` for each count, and compares losses, states and norms
/// after each. Throws ConfigError when the input ends before `how.steps`.
Verification verify(const std::function<std::unique_ptr<Job>(int count)>& job_on,
                    const VerifyOptions& how = {});

namespace detail {

/// Options for the first `count` devices of `options`.
MirroredOptions options_for(const MirroredOptions& options, int count);

/// What `source(step)` returns, step by step.
template <class Source>
class BatchBySteps : public Stream<std::decay_t<std::invoke_result_t<const Source&, int>>> {
 public:
  using Batch = std::decay_t<std::invoke_result_t<const Source&, int>>;
  BatchBySteps(const Source& source, int steps) : source_(source), steps_(steps) {}

  std::optional<Batch> next() override {
    if (step_ == steps_) return std::nullopt;
    return source_(step_++);
  }
  Position position() const override { return {0, step_}; }
  void seek(const Position& position) override { step_ = static_cast<int>(position.at(1)); }

 private:
  const Source& source_;
  const int steps_;
  int step_ = 0;
};

}  // namespace detail

/// The same for Model(args...) on the first 1, 2, ... of options.where.devices. `source(step)` must
/// return the same batch each time it is called with the same step.
template <class Model, class Source, class LossFn, class... Args>
Verification verify(const MirroredOptions& options, const VerifyOptions& how, const Source& source,
                    const LossFn& loss, Args&&... args) {
  using Batches = detail::BatchBySteps<Source>;
  return verify(
      [&](int count) -> std::unique_ptr<Job> {
        return std::make_unique<StrategyJob<Mirrored<Model>, typename Batches::Batch>>(
            std::make_unique<Mirrored<Model>>(detail::options_for(options, count), args...),
            std::make_unique<Batches>(source, how.steps), loss);
      },
      how);
}

}  // namespace lockstep
