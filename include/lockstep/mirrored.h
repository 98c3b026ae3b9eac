#pragma once

// Mirrored<Model>: synchronous data parallelism. An unchanged model, one replica ("tower") a
// device, one exact step: the number of devices never changes the result, bit for bit.

#include <lockstep/batch.h>
#include <lockstep/device.h>
#include <lockstep/error.h>
#include <lockstep/loss.h>
#include <lockstep/metrics.h>
#include <lockstep/optimizer.h>
#include <lockstep/report.h>
#include <lockstep/state.h>

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

namespace lockstep {

/// What to do with a step whose loss or gradient is infinite or not a number.
enum class NonFinite {
  refuse,  ///< throw TowerError, apply nothing
  skip,    ///< apply nothing, count it, go on
};

struct MirroredOptions {
  std::vector<Device> devices = all_devices();
  int shards = 0;  ///< parts of the global batch, what the result depends on; 0: one a device
  Optimizer optimizer = Sgd{};
  std::vector<ParameterRule> rules = {};
  Clip clip = {};
  std::optional<MovingAverage> moving_average = std::nullopt;
  NonFinite non_finite = NonFinite::refuse;
  std::uint64_t seed = 0;  ///< of initial weights, dropout and all that is random in the model
};

namespace detail {

class Engine;

/// What a step asks of the caller's model and batch, by tower and shard.
struct ShardWork {
  std::function<std::int64_t(int tower, int shard)> load;  ///< cuts out the shard; returns its rows
  std::function<Loss(int tower)> forward;                  ///< of the shard that was loaded last
};

/// What a loss function returned, as a Loss. Throws ConfigError when it cannot be one.
Loss checked(Loss loss);
Loss as_loss(const torch::Tensor& mean, std::int64_t rows);
inline Loss as_loss(const Loss& loss, std::int64_t) { return checked(loss); }

}  // namespace detail

/// What Mirrored<Model> has for every model. Use from one thread at a time.
class MirroredBase {
 public:
  ~MirroredBase();
  MirroredBase(MirroredBase&&) noexcept;
  MirroredBase& operator=(MirroredBase&&) noexcept;

  const MirroredOptions& options() const;  ///< with `shards` and the learning rate as they are now
  std::int64_t steps() const;              ///< taken so far, skipped ones included
  std::int64_t skipped() const;  ///< steps skipped for what was not finite, or had no weight

  void set_learning_rate(double lr);  ///< from the next step on

  /// A copy of weights, slots, averages, buffers and gradients. Between steps.
  State state() const;

  /// Runs `evaluation` with the moving averages in place of the weights, then puts the weights
  /// back, exactly, also when it throws.
  void with_averaged_weights(const std::function<void()>& evaluation);

 protected:
  using Factory = std::function<std::shared_ptr<torch::nn::Module>(int tower)>;
  using Task = std::function<void(int tower)>;

  MirroredBase(MirroredOptions options, const Factory& replica);
  StepReport run_step(const detail::ShardWork& work);
  StepReport run_compute(const detail::ShardWork& work);
  void run_tasks(const std::function<Task()>& next);

 private:
  std::unique_ptr<detail::Engine> engine_;
};

/// Trains Model on all devices. Model is any torch::nn::Module, or a holder of one (TORCH_MODULE):
/// it is constructed once a tower with the same arguments, and its parameters are then seated in
/// one arena. Which parameters are trainable is decided at construction.
template <class Model>
class Mirrored : public MirroredBase {
 public:
  template <class... Args>
  explicit Mirrored(MirroredOptions options, const Args&... args)
      : Mirrored(std::move(options), std::make_shared<std::vector<std::shared_ptr<Model>>>(),
                 [&args...] { return std::make_shared<Model>(args...); }) {}

  /// One optimizer update. `loss(model, shard)` runs on each tower's thread, once a shard, and
  /// returns the mean over the shard's rows, or Loss{sum, weight}.
  /// Throws TowerError when a tower fails: see there.
  template <class Batch, class LossFn>
  StepReport step(const Batch& batch, const LossFn& loss) {
    return with_work(batch, loss, [this](const auto& work) { return run_step(work); });
  }

  /// The forward and backward pass of `step` alone: nothing is exchanged or applied. To measure.
  template <class Batch, class LossFn>
  StepReport compute(const Batch& batch, const LossFn& loss) {
    return with_work(batch, loss, [this](const auto& work) { return run_compute(work); });
  }

  /// Calls `metric(model, batch)` for each batch of a range, batch by batch on whichever tower is
  /// free, without gradients and in evaluation mode, and merges the results with += in batch order.
  /// The range is read by the calling thread.
  template <class Range, class MetricFn>
  auto evaluate(Range&& batches, const MetricFn& metric) {
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
      return [=, this, &metric](int tower) { *result = metric(model_of(tower), *batch); };
    });
    Result total{};
    for (const auto& result : results) total += *result;
    return total;
  }

  /// The first tower's replica. Between steps its weights are the weights: write them in place, or
  /// load them, with torch::load or load(archive).
  Model& model() { return model_of(0); }

 private:
  using Models = std::shared_ptr<std::vector<std::shared_ptr<Model>>>;

  template <class Make>
  Mirrored(MirroredOptions options, const Models& models, const Make& make)
      : MirroredBase(reserve(std::move(options), *models),
                     [&](int tower) -> std::shared_ptr<torch::nn::Module> {
                       auto& model = (*models)[static_cast<std::size_t>(tower)] = make();
                       if constexpr (std::is_base_of_v<torch::nn::Module, Model>)
                         return model;
                       else
                         return model->ptr();
                     }),
        models_(models) {}

  static MirroredOptions reserve(MirroredOptions options,
                                 std::vector<std::shared_ptr<Model>>& models) {
    models.resize(options.devices.size());
    return options;
  }

  template <class Batch, class LossFn, class Run>
  StepReport with_work(const Batch& batch, const LossFn& loss, const Run& run) {
    const int shards = options().shards;
    std::vector<std::optional<Batch>> loaded(models_->size());
    const auto of = [&](int tower) -> Batch& { return *loaded[static_cast<std::size_t>(tower)]; };
    return run(detail::ShardWork{
        .load =
            [&](int tower, int shard) {
              loaded[static_cast<std::size_t>(tower)].emplace(part(batch, shard, shards));
              return rows(of(tower));
            },
        .forward =
            [&](int tower) {
              const Batch& shard = of(tower);
              return detail::as_loss(loss(model_of(tower), shard), rows(shard));
            }});
  }

  Model& model_of(int tower) { return *(*models_)[static_cast<std::size_t>(tower)]; }

  Models models_;
};

}  // namespace lockstep
