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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep {

struct MirroredOptions {
  Method method = {};  ///< what is computed
  Where where = {};    ///< on which devices
};

/// What comes out of a step: the report, and the rows that the loss function put out.
struct StepResult : StepReport {
  std::map<std::string, torch::Tensor> outputs = {};  ///< on the CPU; see Loss::output
};

/// A loss over all rows of the global batch at once: contrastive, Dice, triplets. See whole_batch.
template <class RowsFn, class HeadFn>
struct WholeBatch {
  RowsFn rows;
  HeadFn head;
};

/// A loss for `step`: `rows(model, shard)` returns a tensor or a container of tensors with one row
/// for each row of the shard. Those of all shards are put together in row order, on the first
/// device, and `head(all)` runs there once and returns the loss of the batch, or a Loss. It uses no
/// parameter. Until it has run, every tower keeps the graphs of all of its shards in memory.
template <class RowsFn, class HeadFn>
WholeBatch<RowsFn, HeadFn> whole_batch(RowsFn rows, HeadFn head) {
  return {std::move(rows), std::move(head)};
}

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
  void set_learning_rate(const std::string& group, double lr) override;

  /// The same as requires_grad_() on model()'s parameters.
  void set_trainable(const std::string& pattern, bool trainable) override;

  torch::Device device() const;  ///< of the first tower, and so of model()

  State state() const override;
  void load(const State& state) override;
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
  explicit Mirrored(MirroredOptions options, Args&&... args)
      : Mirrored(Made(), std::move(options),
                 std::make_shared<std::vector<std::shared_ptr<Model>>>(),
                 detail::ModelMaker<Model, Args...>(args...)) {}

  /// The same for models that a function makes: `factory()` returns a std::shared_ptr<Model>, or a
  /// holder. It is called once for each tower, one call at a time, in the order of the towers, and
  /// must make a new model each time. What it makes first has the weights that count.
  template <class Factory>
  static Mirrored from(MirroredOptions options, Factory&& factory) {
    return Mirrored(Made(), std::move(options),
                    std::make_shared<std::vector<std::shared_ptr<Model>>>(),
                    detail::FactoryMaker<Model, std::remove_reference_t<Factory>>(factory));
  }

  /// One optimizer update. `loss(model, shard)` runs on the towers' threads, once for each shard,
  /// and returns the mean over the shard's rows, or a Loss; or `loss` is a whole_batch. `batch` may
  /// be staged. Throws ConfigError for a batch whose tensors differ in rows, and TowerError when a
  /// tower fails.
  template <class Batch, class LossFn>
  StepResult step(Batch&& batch, const LossFn& loss, const StepOptions& how = {}) {
    auto&& shards = shards_of(batch);
    return run_step(work_of(shards, loss, how));
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
    return run_gradients(work_of(shards, loss, how));
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

  /// Only the forward and backward pass of `step`: nothing is exchanged or applied. For
  /// measurements.
  template <class Batch, class LossFn>
  StepResult compute(Batch&& batch, const LossFn& loss) {
    auto&& shards = shards_of(batch);
    return run_compute(work_of(shards, loss, {}));
  }

  /// Calls `metric(model, batch)` for each batch of a range, on any tower that is free, without
  /// gradients and in evaluation mode, and merges the results with += in batch order. The result
  /// may be any type with a default constructor and +=. The range is read by the calling thread.
  template <class Range, class MetricFn>
  auto evaluate(Range&& batches, const MetricFn& metric) {
    if constexpr (detail::is_evaluation<Model, Range, MetricFn>()) {
      std::decay_t<detail::ResultOf<Model, Range, MetricFn>> total{};
      for (auto& result : results_of(batches, metric)) total += **result;
      return total;
    }
  }

  /// Calls `function(model, batch)` as `evaluate` does, and returns the results in the order of the
  /// batches: predictions. Tensors in them come back on the CPU.
  template <class Range, class Function>
  auto map(Range&& batches, const Function& function) {
    if constexpr (detail::is_mapping<Model, Range, Function>()) {
      std::vector<std::decay_t<detail::ResultOf<Model, Range, Function>>> all;
      for (auto& result : results_of(batches, function)) {
        if constexpr (detail::kKnown<std::decay_t<decltype(**result)>>)
          all.push_back(batch::to(std::move(**result), torch::kCPU));
        else
          all.push_back(std::move(**result));
      }
      return all;
    }
  }

  /// The first tower's replica. Between steps you may write its weights in place, or load them with
  /// torch::load or load(archive). Call model() again each time you write.
  Model& model() { return model_of(shown()); }

 private:
  using Models = std::shared_ptr<std::vector<std::shared_ptr<Model>>>;
  struct Made {};  // tells the constructor below from the one that takes any arguments

  template <class Make>
  Mirrored(Made, MirroredOptions options, const Models& models, const Make& make)
      : MirroredBase(
            reserve(std::move(options), *models),
            [&](Place place) -> std::shared_ptr<torch::nn::Module> {
              auto& model = (*models)[place.index()] = make();
              if constexpr (std::is_base_of_v<torch::nn::Module, Model>)
                return model;
              else if constexpr (detail::kIsHolder<Model>)
                return model && !model->is_empty() ? model->ptr() : nullptr;
              return nullptr;
            },
            Make::kMaking),
        models_(models) {}

  static MirroredOptions reserve(MirroredOptions options,
                                 std::vector<std::shared_ptr<Model>>& models) {
    models.resize(options.where.devices.size());
    return options;
  }

  template <class Batch>
  detail::ShardsOf<Batch> shards_of(const Batch& batch) const {
    return detail::ShardsOf<Batch>(batch, method().shards);
  }
  template <class Batch>
  detail::ShardsOf<Batch>& shards_of(const Staged<Batch>& staged) const {
    return *staged.shards_;
  }

  template <class Batch, class LossFn>
  detail::ShardWork work_of(detail::ShardsOf<Batch>& shards, const LossFn& loss,
                            const StepOptions& how) {
    detail::ShardWork work{.shards = shards, .update = how.update, .phase = how.phase};
    if constexpr (Shardable<Batch>)
      if constexpr (detail::is_loss<Model, Batch, LossFn>())
        work.forward = [this, &shards, &loss](Place place, int shard) {
          const Batch& own = shards.part_at(shard);
          return detail::as_loss(
              detail::unwritten(own, "loss function", [&] { return loss(model_of(place), own); }),
              batch::rows(own));
        };
    return work;
  }

  template <class Batch, class RowsFn, class HeadFn>
  detail::ShardWork work_of(detail::ShardsOf<Batch>& shards, const WholeBatch<RowsFn, HeadFn>& loss,
                            const StepOptions& how) {
    detail::ShardWork work{.shards = shards, .update = how.update, .phase = how.phase};
    if constexpr (Shardable<Batch>)
      if constexpr (detail::is_whole_batch<Model, Batch, RowsFn, HeadFn>()) {
        using Rows = std::decay_t<std::invoke_result_t<const RowsFn&, Model&, const Batch&>>;
        auto parts = std::make_shared<detail::RowParts<Rows>>(shards.count());
        work.rows = [this, &shards, &loss, parts](Place place, int shard) {
          const Batch& own = shards.part_at(shard);
          return parts->taken(shard, detail::unwritten(own, "loss function", [&] {
                                return loss.rows(model_of(place), own);
                              }));
        };
        work.head = [&loss, parts](const detail::ShardWork::Tensors& all) {
          const Rows rows = parts->joined(all);
          return detail::as_whole_loss(loss.head(rows), batch::rows(rows));
        };
      }
    return work;
  }

  /// By batch, in its order; behind pointers, so that they stay where they are while more come.
  template <class Range, class Function>
  auto results_of(Range& batches, const Function& function) {
    using Batch = std::decay_t<decltype(*std::begin(batches))>;
    using Result = std::decay_t<std::invoke_result_t<const Function&, Model&, const Batch&>>;
    std::vector<std::unique_ptr<std::optional<Result>>> results;
    auto next = std::begin(batches);
    const auto end = std::end(batches);
    run_tasks([&]() -> Task {
      if (!(next != end)) return nullptr;
      auto* result = results.emplace_back(std::make_unique<std::optional<Result>>()).get();
      auto batch = std::make_shared<Batch>(*next);
      ++next;
      return [=, this, &function](Place place) {
        const Batch own = batch::aligned(batch::to(*batch, device_of(place)));
        *result = detail::unwritten(own, "metric", [&] { return function(model_of(place), own); });
      };
    });
    return results;
  }

  Model& model_of(Place place) { return *(*models_)[place.index()]; }

  Models models_;
};

}  // namespace lockstep
