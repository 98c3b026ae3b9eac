#pragma once

// Pipeline<Model>: parts of an unchanged model on different devices, and shards that flow through
// them: for models that do not fit one device. Neither the number of stages nor that of devices
// changes the result, bit for bit: it is that of Mirrored with the same shards.
//
// The model stays as it is; the loss comes in parts:
//
//   lockstep::Pipeline<Net> towers({.method = {...}, .where = {...}, .stages = 2});
//   auto report = towers.step(batch, lockstep::stages(
//       [](Net& net, const Batch& b) { return net.encode(b.source); },
//       [](Net& net, const Batch& b, const torch::Tensor& memory) {
//         return net.loss(memory, b.target);
//       }));
//
// What a part returns goes to the next one: a tensor, a container of tensors, or a type with
// tensors() (lockstep/batch.h), of any sizes. A part may leave out the batch; then no shard is
// copied to its device. The last one returns what a loss of Mirrored returns.
//
// Which parameter is whose is found in a trial: the first step runs a shard on the CPU, and looks
// which parameters each part uses; more shards if that does not show all of them. Those are on the
// devices of that stage from then on, and nothing else of the model is, except for its buffers. A
// parameter that two parts use is on both, and has one value. Make what a part needs a parameter or
// a buffer: other tensors that a model keeps stay on the CPU.

#include <lockstep/detail/stage_work.h>
#include <lockstep/model_strategy.h>
#include <lockstep/sequential_stages.h>  // IWYU pragma: export

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

struct PipelineOptions {
  Method method = {};  ///< what is computed
  Where where = {};    ///< on which devices: as many as stages, or a multiple of it
  int stages = 2;      ///< stage s of replica q is on device q * stages + s
  /// Keep only what came into a stage, and compute the rest again for backward: less memory, a
  /// third more to compute, the same bits.
  bool recompute = false;
  /// More shards in flight, at each stage as many for each stage that follows: hides copies over
  /// slow links, and takes their memory. The same bits.
  int ahead = 0;
};

/// The loss of a model, part by part. See stages.
template <class... Functions>
struct Stages {
  std::tuple<Functions...> functions;
};

/// A loss for Pipeline::step: one function for each stage, from the first to the last.
template <class... Functions>
Stages<Functions...> stages(Functions... functions) {
  static_assert(sizeof...(Functions) > 0, "stages(...): give one function for each stage.");
  return {{std::move(functions)...}};
}

namespace strategy {
class PipelineEngine;
}

/// A batch on its way to the devices: see Pipeline::stage.
template <class Batch>
class PipelineStaged {
 public:
  PipelineStaged(Batch batch, int shards, int stages)
      : batch_(std::make_unique<Batch>(std::move(batch))) {
    for (int i = 0; i <= stages; ++i)  // the last one is for the trial
      shards_.push_back(std::make_unique<detail::ShardsOf<Batch>>(*batch_, shards));
  }

 private:
  template <class Model>
  friend class Pipeline;
  std::vector<detail::Shards*> lists() const {
    std::vector<detail::Shards*> lists;
    for (const auto& each : shards_) lists.push_back(each.get());
    return lists;
  }
  std::unique_ptr<Batch> batch_;
  std::vector<std::unique_ptr<detail::ShardsOf<Batch>>> shards_;
};

/// What Pipeline<Model> has for every model.
class PipelineBase : public Strategy {
 public:
  using Options = PipelineOptions;

  ~PipelineBase() override;
  PipelineBase(PipelineBase&&) noexcept;
  PipelineBase& operator=(PipelineBase&&) noexcept;

  std::string name() const override;
  const Method& method() const override;
  const Where& where() const override;
  Seconds now() const override;
  std::int64_t steps() const override;
  std::int64_t skipped() const override;
  void set_learning_rate(double lr) override;
  void set_learning_rate(const std::string& group, double lr) override;
  void set_trainable(const std::string& pattern, bool trainable) override;

  /// The same as that of Mirrored with this method: it knows nothing of stages, and each loads the
  /// other's.
  State state() const override;
  void load(const State& state) override;
  void with_averaged_weights(const std::function<void()>& evaluation) override;
  const torch::nn::Module& module() const override;

  /// As in MirroredBase.
  void set_optimizer(const Optimizer& optimizer);
  void set_optimizer(const std::string& group, const Optimizer& optimizer);
  void reset_slots(const std::string& pattern);

 protected:
  using Place = detail::Place;
  using Factory = std::function<std::shared_ptr<torch::nn::Module>(Place place)>;
  using Task = std::function<void(Place place)>;

  PipelineBase(PipelineOptions options, const Factory& replica, detail::Making making);
  StepResult run_step(const detail::StageWork& work);
  void run_stage(const std::vector<detail::Shards*>& shards);
  void run_tasks(const std::function<Task()>& next);
  /// Runs `work` with the shards that have rows, until it returns false, in a trial: on the CPU, in
  /// the shard's random stream, and nothing is left of it. Throws a TowerError when that fails.
  void run_trial(detail::Shards& shards, const std::function<bool(Place place, int shard)>& work);
  static std::size_t replicas(const Options& options);
  Place shown();  ///< the model that the caller sees and may write to, on the CPU
  torch::Device device_of(Place place) const;
  int stage_count() const;

 private:
  std::unique_ptr<strategy::PipelineEngine> engine_;
};

/// Trains Model on all devices. It is constructed on the CPU, once for each device and once for
/// each shard in flight, with the same arguments; parameters exist once a device, whatever the
/// number of models there. evaluate() and map() run on the CPU, where the whole model fits, on as
/// many threads as there are devices; model() is there too, and what you write to it is taken over
/// by the next step.
template <class Model>
class Pipeline : public ModelStrategy<Model, PipelineBase> {
  using Base = ModelStrategy<Model, PipelineBase>;
  using Place = detail::Place;

 public:
  /// As Mirrored's.
  template <class... Args>
  explicit Pipeline(PipelineOptions options, Args&&... args)
      : Base(std::move(options), detail::ModelMaker<Model, Args...>(args...)) {}

  /// As Mirrored::from.
  template <class Factory>
  static Pipeline from(PipelineOptions options, Factory&& factory) {
    return Pipeline(Made(), std::move(options),
                    detail::FactoryMaker<Model, std::remove_reference_t<Factory>>(factory));
  }

  /// One optimizer update. `loss` is stages(...) or what lockstep/sequential_stages.h makes.
  /// `batch` may be staged. Throws ConfigError when there are more functions or fewer than stages,
  /// and TowerError when a device fails, or a function throws.
  template <class Batch, class Parts>
  StepResult step(Batch&& batch, const Parts& loss, const StepOptions& how = {}) {
    return step_on(staged(batch), loss, how);
  }

  template <class Batch, class RowsFn, class HeadFn>
  StepResult step(Batch&&, const WholeBatch<RowsFn, HeadFn>&, const StepOptions& = {}) {
    throw ConfigError(
        "a pipeline takes no whole_batch loss: it keeps the graphs of a few shards at a time, and "
        "that loss needs those of all. Use Mirrored, or a loss that is a sum over rows.");
  }

  /// Starts to copy a batch to the devices and returns; `step` then finds it there.
  template <class Batch>
  PipelineStaged<Batch> stage(Batch batch) {
    PipelineStaged<Batch> staged(std::move(batch), this->method().shards, this->stage_count());
    this->run_stage(staged.lists());
    return staged;
  }

 private:
  struct Made {};  // tells the constructor below from the one that takes any arguments

  template <class Make>
  Pipeline(Made, PipelineOptions options, const Make& make) : Base(std::move(options), make) {}

  template <class Batch>
  PipelineStaged<std::decay_t<Batch>> staged(const Batch& batch) const {
    return {batch, this->method().shards, this->stage_count()};
  }
  template <class Batch>
  const PipelineStaged<Batch>& staged(const PipelineStaged<Batch>& staged) const {
    return staged;
  }

  template <class Batch, class Parts>
  StepResult step_on(const PipelineStaged<Batch>& batch, const Parts& loss,
                     const StepOptions& how) {
    detail::StageWork work{.shards = batch.lists(), .takes_batch = {}};
    work.update = how.update;
    work.phase = how.phase;
    const auto models = [this](Place place) -> Model& { return this->model_of(place); };
    if constexpr (requires { loss.functions; })
      detail::add_stages<detail::Nothing, Batch>(work, models, loss.functions);
    else
      loss.add_to(
          work, models, [&](const auto& run) { this->run_trial(*work.shards.back(), run); }, cut_);
    return this->run_step(work);
  }

  std::vector<std::size_t> cut_;  // of a chain of layers: see LayerStages
};

}  // namespace lockstep
