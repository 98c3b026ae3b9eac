#pragma once

// Async<Model>: asynchronous data parallelism for an unchanged model. Each device computes a batch
// of its own, and no device waits for the slowest.
//
// In Order::delay the delay, and not a race, defines the mathematics: update u applies the gradient
// of batch u, computed with the weights before update u - delay. So the number of devices never
// changes the result, bit for bit. In Order::free a gradient is applied as soon as it is there. See
// docs/strategies.md for when either is worth it.
//
//   lockstep::Async<Net> towers({.method = {.shards = 1, .optimizer = lockstep::Adam{}}});
//   for (const auto& batch : *loader)
//     if (const auto report = towers.step(batch, loss)) std::cout << report->loss << "\n";
//   while (const auto report = towers.finish()) std::cout << report->loss << "\n";

#include <lockstep/mirrored.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

/// Method::async says how late gradients may be, Asynchrony{} if it is not there. A batch is cut
/// into Method::shards, which its device computes one after the other: 1 is fastest.
using AsyncOptions = MirroredOptions;

namespace strategy {
class AsyncEngine;
}

/// A batch for Async, to begin with ahead of its step: see Async::stage.
template <class Batch>
struct AsyncBatch {
  Batch batch;
  bool begun = false;
};

/// What Async<Model> has for every model.
class AsyncBase : public Strategy {
 public:
  using Options = AsyncOptions;

  ~AsyncBase() override;
  AsyncBase(AsyncBase&&) noexcept;
  AsyncBase& operator=(AsyncBase&&) noexcept;

  std::string name() const override;
  const Method& method() const override;
  const Where& where() const override;
  std::int64_t lookahead() const override;  ///< the delay; in Order::free enough for all devices
  Seconds now() const override;
  std::int64_t steps() const override;
  std::int64_t skipped() const override;
  void set_learning_rate(double lr) override;
  void set_learning_rate(const std::string& group, double lr) override;
  void set_trainable(const std::string& pattern, bool trainable) override;

  /// With the versions of the weights that batches to come are computed with: a training that
  /// resumes from it goes on exactly in Order::delay. Batches that were begun are not part of it.
  /// In Order::free as many of those as there are devices may have been applied out of order, and
  /// are trained on twice or not at all.
  State state() const override;
  void load(const State& state) override;
  void with_averaged_weights(const std::function<void()>& evaluation) override;
  const torch::nn::Module& module() const override;

  /// As those of Mirrored.
  void set_optimizer(const Optimizer& optimizer);
  void set_optimizer(const std::string& group, const Optimizer& optimizer);
  void reset_slots(const std::string& pattern);
  torch::Device device() const;  ///< of model(): the CPU

  /// Waits for the update of a batch that was begun; nothing when there is none.
  std::optional<StepResult> finish();
  /// Forgets the batches that were begun and not applied.
  void drop();

 protected:
  using Place = detail::Place;
  using Factory = std::function<std::shared_ptr<torch::nn::Module>(Place place)>;

  AsyncBase(AsyncOptions options, const Factory& replica, detail::Making making);
  void run_begin(std::shared_ptr<const detail::ShardWork> work);
  StepResult run_step();
  std::int64_t begun() const;
  void run_tasks(const std::function<std::function<void(Place place)>()>& next);
  static std::size_t replicas(const Options& options) { return options.where.devices.size() + 1; }
  Place shown();
  torch::Device device_of(Place place) const;

 private:
  std::unique_ptr<strategy::AsyncEngine> engine_;
};

/// Trains Model as Mirrored does; but between steps weights stand still while devices compute
/// ahead. model() is a replica of its own, on the CPU. What you write to it counts from the next
/// step on: written weights for the batches that are begun after that, and before the first update
/// for all of them; frozen parameters, modes and requires_grad for all batches that were not
/// applied, which are then computed again.
///
/// Floating-point buffers that batches change at the same time (running statistics) get the sum of
/// their changes.
template <class Model>
class Async : public ModelStrategy<Model, AsyncBase> {
  using Base = ModelStrategy<Model, AsyncBase>;

 public:
  /// As Mirrored.
  template <class... Args>
  explicit Async(AsyncOptions options, Args&&... args)
      : Base(std::move(options), detail::ModelMaker<Model, Args...>(args...)) {}

  template <class Factory>
  static Async from(AsyncOptions options, Factory&& factory) {
    return Async(Made(), std::move(options),
                 detail::FactoryMaker<Model, std::remove_reference_t<Factory>>(factory));
  }

  /// Begins with a batch, and waits for an update once more than lookahead() were begun. Returns
  /// the report of that update: of an earlier batch, or nothing in the first steps. `loss` is as
  /// for Mirrored::step; it is copied, and called on the towers' threads until its batch is
  /// applied. Throws TowerError when a tower fails; then all batches that were begun are forgotten.
  template <class Batch, class LossFn>
  std::optional<StepResult> step(const Batch& batch, const LossFn& loss,
                                 const StepOptions& how = {}) {
    begin(batch, loss, how);
    if (this->begun() <= this->lookahead()) return std::nullopt;
    return this->run_step();
  }

  /// Hands a batch to the devices, and returns.
  template <class Batch, class LossFn>
  void begin(const Batch& batch, const LossFn& loss, const StepOptions& how = {}) {
    const auto begun =
        std::make_shared<Begun<Batch, std::decay_t<LossFn>>>(*this, batch, loss, how);
    this->run_begin({begun, &begun->work});
  }

  /// A batch to begin with, and to wait for, as a StrategyJob does: begin(staged, ...) for as many
  /// as lookahead() says, then step(staged, ...) for one after the other.
  template <class Batch>
  AsyncBatch<Batch> stage(Batch batch) {
    return {std::move(batch)};
  }
  template <class Batch, class LossFn>
  void begin(AsyncBatch<Batch>& staged, const LossFn& loss, const StepOptions& how = {}) {
    begin(std::as_const(staged.batch), loss, how);
    staged.begun = true;
  }
  template <class Batch, class LossFn>
  StepResult step(AsyncBatch<Batch>& staged, const LossFn& loss, const StepOptions& how = {}) {
    if (!staged.begun) begin(staged, loss, how);
    return this->run_step();
  }

 private:
  struct Made {};  // tells the constructor below from the one that takes any arguments

  template <class Make>
  Async(Made, AsyncOptions options, const Make& make) : Base(std::move(options), make) {}

  /// All that a batch needs until it is applied.
  template <class Batch, class LossFn>
  struct Begun {
    Begun(const Async& async, const Batch& from, const LossFn& function, const StepOptions& how)
        : batch(from),
          loss(function),
          shards(batch, async.method().shards),
          work(async.work_of(shards, loss, how)) {}

    const Batch batch;
    const LossFn loss;
    detail::ShardsOf<Batch> shards;
    const detail::ShardWork work;
  };
};

}  // namespace lockstep
