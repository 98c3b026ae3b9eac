#pragma once

// Mirrored<Model>: synchronous data parallelism for an unchanged model, with one tower per device.
// The number of devices never changes the result, bit for bit.

#include <lockstep/batch_device.h>
#include <lockstep/detail/arguments.h>
#include <lockstep/detail/shards.h>
#include <lockstep/error.h>
#include <lockstep/loss.h>
#include <lockstep/metrics.h>
#include <lockstep/report.h>
#include <lockstep/strategy.h>

#include <functional>
#include <memory>
#include <type_traits>

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
  Staged(Batch batch, int shards)
      : batch_(std::make_unique<Batch>(std::move(batch))),
        shards_(std::make_unique<detail::ShardsOf<Batch>>(*batch_, shards)) {}

 private:
  template <class Model>
  friend class Mirrored;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<detail::ShardsOf<Batch>> shards_;
};

/// What Mirrored<Model> has for every model.
class MirroredBase : public Strategy {
 public:
  ~MirroredBase() override;
  MirroredBase(MirroredBase&&) noexcept;
  MirroredBase& operator=(MirroredBase&&) noexcept;

  std::string name() const override;
  const Method& method() const override;
  const Where& where() const override;
  Seconds now() const override;
  std::int64_t steps() const override;
  std::int64_t skipped() const override;
  void set_learning_rate(double lr) override;
  State state() const override;
  void load(const State& state) override;
  void with_averaged_weights(const std::function<void()>& evaluation) override;
  const torch::nn::Module& module() const override;

 protected:
  using Place = detail::Place;
  using Factory = std::function<std::shared_ptr<torch::nn::Module>(Place place)>;
  using Task = std::function<void(Place place)>;

  MirroredBase(MirroredOptions options, const Factory& replica);
  StepReport run_step(const detail::ShardWork& work);
  StepReport run_compute(const detail::ShardWork& work);
  void run_stage(detail::Shards& shards);
  void run_tasks(const std::function<Task()>& next);
  Place shown();  ///< whose replica the caller sees and may write to
  torch::Device device_of(Place place) const;

 private:
  std::unique_ptr<strategy::Engine> engine_;
};

/// Trains Model on all devices. Model is any torch::nn::Module, or a holder of one (TORCH_MODULE):
/// it is constructed once for each tower with the same arguments, and its parameters are then
/// seated in one arena. Which parameters are trainable is decided at construction.
template <class Model>
class Mirrored : public MirroredBase {
 public:
  /// Modules and tensors among `args` are copied for each tower, onto its device; a module or
  /// tensor that appears twice in `args` is one object in each tower. So the module that you pass
  /// is not the one that is trained: model() has the weights. docs/using.md lists what is copied.
  template <class... Args>
  explicit Mirrored(MirroredOptions options, const Args&... args)
      : Mirrored(std::move(options), std::make_shared<std::vector<std::shared_ptr<Model>>>(),
                 detail::ModelMaker<Model, Args...>(args...)) {}

  /// One optimizer update. `loss(model, shard)` runs on the towers' threads, once for each shard,
  /// and returns the mean over the shard's rows, or Loss{sum, weight}. Throws ConfigError for a
  /// batch whose tensors differ in rows, and TowerError when a tower fails.
  template <class Batch, class LossFn>
  StepReport step(const Batch& batch, const LossFn& loss) {
    detail::ShardsOf<Batch> shards(batch, method().shards);
    return run_step(work_of(shards, loss));
  }

  /// Starts to copy a batch to the devices and returns; `step` then finds it there. Stage the next
  /// batch before the step on this one, so that the copy runs while the step computes. If something
  /// is wrong with the batch, throws that error unchanged. If a device fails, the step reports or
  /// replays it.
  template <class Batch>
  Staged<Batch> stage(Batch batch) {
    Staged<Batch> staged(std::move(batch), method().shards);
    run_stage(*staged.shards_);
    return staged;
  }

  template <class Batch, class LossFn>
  StepReport step(Staged<Batch> staged, const LossFn& loss) {
    return run_step(work_of(*staged.shards_, loss));
  }

  /// Only the forward and backward pass of `step`: nothing is exchanged or applied. For
  /// measurements.
  template <class Batch, class LossFn>
  StepReport compute(const Batch& batch, const LossFn& loss) {
    detail::ShardsOf<Batch> shards(batch, method().shards);
    return run_compute(work_of(shards, loss));
  }

  /// Calls `metric(model, batch)` for each batch of a range, on any tower that is free, without
  /// gradients and in evaluation mode, and merges the results with += in batch order. The result
  /// may be any type with a default constructor and +=. The range is read by the calling thread.
  template <class Range, class MetricFn>
  auto evaluate(Range&& batches, const MetricFn& metric) {
    if constexpr (detail::is_evaluation<Model, Range, MetricFn>()) {
      using Batch = std::decay_t<decltype(*std::begin(batches))>;
      using Result = std::decay_t<std::invoke_result_t<const MetricFn&, Model&, const Batch&>>;
      std::vector<std::unique_ptr<Result>> results;
      auto next = std::begin(batches);
      const auto end = std::end(batches);
      run_tasks([&]() -> Task {
        if (!(next != end)) return nullptr;
        Result* result = results.emplace_back(std::make_unique<Result>()).get();
        auto batch = std::make_shared<Batch>(*next);
        ++next;
        return [=, this, &metric](Place place) {
          *result = metric(model_of(place), batch::aligned(batch::to(*batch, device_of(place))));
        };
      });
      Result total{};
      for (const auto& result : results) total += *result;
      return total;
    }
  }

  /// The first tower's replica. Between steps you may write its weights in place, or load them with
  /// torch::load or load(archive). Call model() again each time you write.
  Model& model() { return model_of(shown()); }

 private:
  using Models = std::shared_ptr<std::vector<std::shared_ptr<Model>>>;

  template <class Make>
  Mirrored(MirroredOptions options, const Models& models, const Make& make)
      : MirroredBase(reserve(std::move(options), *models),
                     [&](Place place) -> std::shared_ptr<torch::nn::Module> {
                       auto& model = (*models)[place.index()] = make();
                       if constexpr (std::is_base_of_v<torch::nn::Module, Model>)
                         return model;
                       else if constexpr (detail::kIsHolder<Model>)
                         return model->ptr();
                       return nullptr;
                     }),
        models_(models) {}

  static MirroredOptions reserve(MirroredOptions options,
                                 std::vector<std::shared_ptr<Model>>& models) {
    models.resize(options.where.devices.size());
    return options;
  }

  template <class Batch, class LossFn>
  detail::ShardWork work_of(detail::ShardsOf<Batch>& shards, const LossFn& loss) {
    detail::ShardWork work{shards, nullptr};
    if constexpr (Shardable<Batch>)
      if constexpr (detail::is_loss<Model, Batch, LossFn>())
        work.forward = [this, &shards, &loss](Place place, int shard) {
          const Batch& own = shards.part_at(shard);
          return detail::as_loss(loss(model_of(place), own), batch::rows(own));
        };
    return work;
  }

  Model& model_of(Place place) { return *(*models_)[place.index()]; }

  Models models_;
};

}  // namespace lockstep
