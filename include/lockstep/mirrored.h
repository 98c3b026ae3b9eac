#pragma once

// Mirrored<Model>: synchronous data parallelism for an unchanged model, with one tower per device.
// The number of devices never changes the result, bit for bit.

#include <lockstep/model_strategy.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace lockstep {

struct MirroredOptions {
  Method method = {};  ///< what is computed
  Where where = {};    ///< on which devices
};

namespace strategy {
class Engine;
}

/// A batch on its way to the devices: see Mirrored::stage.
template <class Batch>
class Staged {
 public:
  Staged(Batch batch, int shards, const Portion& portion)
      : batch_(std::make_unique<Batch>(std::move(batch))),
        shards_(std::make_unique<detail::ShardsOf<Batch>>(*batch_, shards, portion)) {}

 private:
  template <class Model>
  friend class Mirrored;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<detail::ShardsOf<Batch>> shards_;
};

/// What Mirrored<Model> has for every model.
class MirroredBase : public Strategy {
 public:
  using Options = MirroredOptions;

  ~MirroredBase() override;
  MirroredBase(MirroredBase&&) noexcept;
  MirroredBase& operator=(MirroredBase&&) noexcept;

  std::string name() const override;
  const Method& method() const override;
  const Where& where() const override;
  std::vector<std::string> device_names() const override;
  /// The shards that this machine computes: all of them, unless there are others.
  Share share() const;
  Seconds now() const override;
  std::int64_t steps() const override;
  std::int64_t skipped() const override;
  void set_learning_rate(double lr) override;
  void set_learning_rate(const std::string& group, double lr) override;

  /// The same as requires_grad_() on model()'s parameters.
  void set_trainable(const std::string& pattern, bool trainable) override;

  torch::Device device() const;  ///< of the first tower, and so of model()

  State state() const override;
  void load(const State& state) override;
  std::optional<State> rescue(const std::exception_ptr& failure) override;
  void with_averaged_weights(const std::function<void()>& evaluation) override;
  const torch::nn::Module& module() const override;

  /// Other values (momentum, betas, weight decay, learning rate, ...) for method().optimizer, or
  /// for that of the group with this pattern, from the next step on. Throws ConfigError for another
  /// kind, and for one that needs slots that are not there. Rules stay on top.
  void set_optimizer(const Optimizer& optimizer);
  void set_optimizer(const std::string& group, const Optimizer& optimizer);

  /// Sets the slots of the parameters whose name matches `pattern` to their initial values; their
  /// next update counts as their first. Throws ConfigError when there is no such parameter.
  void reset_slots(const std::string& pattern);

 protected:
  using Place = detail::Place;
  using Factory = std::function<std::shared_ptr<torch::nn::Module>(Place place)>;
  using Task = std::function<void(Place place)>;

  MirroredBase(MirroredOptions options, const Factory& replica, detail::Making making);
  StepResult run_step(const detail::ShardWork& work);
  StepResult run_gradients(const detail::ShardWork& work);
  StepResult run_compute(const detail::ShardWork& work);
  void run_stage(detail::Shards& shards);
  void run_tasks(const std::function<Task()>& next);
  /// Which of several machines this is.
  struct Turn {
    int machine = 0, machines = 1;
  };
  Turn turn() const;
  /// What all machines have of as many results, in their order: `own` has those of this machine,
  /// and nothing where another one's belong. One that has fewer ends the list for all.
  std::vector<std::string> all_results(const std::vector<std::string>& own);
  void call_off(const std::string& why);  ///< frees machines that wait for results
  static std::size_t replicas(const Options& options) { return options.where.devices.size(); }
  Place shown();  ///< whose replica the caller sees and may write to
  torch::Device device_of(Place place) const;

 private:
  std::unique_ptr<strategy::Engine> engine_;
};

/// Trains Model on all devices. Model is any torch::nn::Module, or a holder of one (TORCH_MODULE):
/// it is constructed once for each tower with the same arguments, and its parameters are then
/// seated in one arena. Which parameters are trainable is decided at construction.
template <class Model>
class Mirrored : public ModelStrategy<Model, MirroredBase> {
  using Base = ModelStrategy<Model, MirroredBase>;

 public:
  /// Modules and tensors among `args` are copied for each tower, onto its device; a module or
  /// tensor that appears twice in `args` is one object in each tower. So the module that you pass
  /// is not the one that is trained: model() has the weights. docs/using.md lists what is copied.
  template <class... Args>
  explicit Mirrored(MirroredOptions options, Args&&... args)
      : Base(std::move(options), detail::ModelMaker<Model, Args...>(args...)) {}

  /// The same for models that a function makes: `factory()` returns a std::shared_ptr<Model>, or a
  /// holder. It is called once for each tower, one call at a time, in the order of the towers, and
  /// must make a new model each time. What it makes first has the weights that count.
  template <class Factory>
  static Mirrored from(MirroredOptions options, Factory&& factory) {
    return Mirrored(Made(), std::move(options),
                    detail::FactoryMaker<Model, std::remove_reference_t<Factory>>(factory));
  }

  /// One optimizer update. `loss(model, shard)` runs on the towers' threads, once for each shard,
  /// and returns the mean over the shard's rows, or a Loss; or `loss` is a whole_batch. `batch` may
  /// be staged. Throws ConfigError for a batch whose tensors differ in rows, and TowerError when a
  /// tower fails.
  template <class Batch, class LossFn>
  StepResult step(Batch&& batch, const LossFn& loss, const StepOptions& how = {}) {
    auto&& shards = shards_of(batch);
    return this->run_step(this->work_of(shards, loss, how));
  }

  /// The same with whole_batch(rows, head).
  template <class Batch, class RowsFn, class HeadFn>
  requires(!std::is_convertible_v<HeadFn, StepOptions>) StepResult
      step(Batch&& batch, const RowsFn& rows, const HeadFn& head, const StepOptions& how = {}) {
    return step(batch, whole_batch(rows, head), how);
  }

  /// A step without the update: the averaged gradients, clipped if the method says so, are in
  /// model().parameters()[i].grad() until the next call, for an optimizer of your own, whose state
  /// is yours to save. A parameter without a gradient has none there. `applied` in the result says
  /// whether there are gradients.
  template <class Batch, class LossFn>
  StepResult gradients(Batch&& batch, const LossFn& loss, const StepOptions& how = {}) {
    auto&& shards = shards_of(batch);
    return this->run_gradients(this->work_of(shards, loss, how));
  }

  /// Starts to copy a batch to the devices and returns; `step` then finds it there. Stage the next
  /// batch before the step on this one, so that the copy runs while the step computes. If something
  /// is wrong with the batch, throws that error unchanged. If a device fails, the step reports or
  /// replays it. `portion` says how much of the global batch it is, where an input makes only the
  /// shards of this process.
  template <class Batch>
  Staged<Batch> stage(Batch batch, const Portion& portion = {}) {
    Staged<Batch> staged(std::move(batch), this->method().shards, portion);
    this->run_stage(*staged.shards_);
    return staged;
  }

  /// Only the forward and backward pass of `step`: nothing is exchanged or applied. For
  /// measurements.
  template <class Batch, class LossFn>
  StepResult compute(Batch&& batch, const LossFn& loss) {
    auto&& shards = shards_of(batch);
    return this->run_compute(this->work_of(shards, loss, {}));
  }

 private:
  struct Made {};  // tells the constructor below from the one that takes any arguments

  template <class Make>
  Mirrored(Made, MirroredOptions options, const Make& make) : Base(std::move(options), make) {}

  template <class Batch>
  detail::ShardsOf<Batch> shards_of(const Batch& batch) const {
    return Base::shards_of(batch);
  }
  template <class Batch>
  detail::ShardsOf<Batch>& shards_of(const Staged<Batch>& staged) const {
    return *staged.shards_;
  }
};

}  // namespace lockstep
