#pragma once

// ModelStrategy<Model, Base>: what every strategy offers for a Model, however it trains it:
// evaluation, predictions, the model itself. Mirrored, Async and Pipeline derive from it.

#include <lockstep/batch_device.h>
#include <lockstep/detail/arguments.h>
#include <lockstep/detail/shards.h>
#include <lockstep/error.h>
#include <lockstep/loss.h>
#include <lockstep/metrics.h>
#include <lockstep/report.h>
#include <lockstep/strategy.h>
#include <lockstep/travel.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

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

/// Base is what a strategy has for every model: it takes its Options, a Factory of replicas and a
/// Making, and has run_tasks, shown and device_of.
template <class Model, class Base>
class ModelStrategy : public Base {
 public:
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
  Model& model() { return model_of(this->shown()); }

 protected:
  using Place = detail::Place;

  /// `make()` makes a replica, as many as there are devices.
  template <class Make>
  ModelStrategy(typename Base::Options options, const Make& make)
      : ModelStrategy(std::move(options), std::make_shared<Models>(), make) {}

  template <class Batch>
  detail::ShardsOf<Batch> shards_of(const Batch& batch) const {
    return detail::ShardsOf<Batch>(batch, this->method().shards);
  }

  /// What the engine computes for a loss function. `shards` and `loss` must live on.
  template <class Batch, class LossFn>
  detail::ShardWork work_of(detail::ShardsOf<Batch>& shards, const LossFn& loss,
                            const StepOptions& how) const {
    detail::ShardWork work{.shards = shards, .update = how.update, .phase = how.phase};
    if constexpr (Shardable<Batch>)
      if constexpr (detail::is_loss<Model, Batch, LossFn>())
        work.forward = [models = models_, &shards, &loss](Place place, int shard) {
          const Batch& own = shards.part_at(shard);
          return detail::as_loss(
              detail::unwritten(own, "loss function", [&] { return loss(models->at(place), own); }),
              batch::rows(own));
        };
    return work;
  }

  template <class Batch, class RowsFn, class HeadFn>
  detail::ShardWork work_of(detail::ShardsOf<Batch>& shards, const WholeBatch<RowsFn, HeadFn>& loss,
                            const StepOptions& how) const {
    detail::ShardWork work{.shards = shards, .update = how.update, .phase = how.phase};
    if constexpr (Shardable<Batch>)
      if constexpr (detail::is_whole_batch<Model, Batch, RowsFn, HeadFn>()) {
        using Rows = std::decay_t<std::invoke_result_t<const RowsFn&, Model&, const Batch&>>;
        auto parts = std::make_shared<detail::RowParts<Rows>>(shards.count());
        work.rows = [models = models_, &shards, &loss, parts](Place place, int shard) {
          const Batch& own = shards.part_at(shard);
          return parts->taken(shard, detail::unwritten(own, "loss function", [&] {
                                return loss.rows(models->at(place), own);
                              }));
        };
        work.head = [&loss, parts](const detail::ShardWork::Tensors& all) {
          const Rows rows = parts->joined(all);
          return detail::as_whole_loss(loss.head(rows), batch::rows(rows));
        };
      }
    return work;
  }

  Model& model_of(Place place) const { return models_->at(place); }

 private:
  /// By place.
  struct Models {
    std::vector<std::shared_ptr<Model>> all;
    Model& at(Place place) const { return *all[place.index()]; }
  };

  template <class Make>
  ModelStrategy(typename Base::Options options, const std::shared_ptr<Models>& models,
                const Make& make)
      : Base(
            reserve(std::move(options), *models),
            [&](Place place) -> std::shared_ptr<torch::nn::Module> {
              auto& model = models->all[place.index()] = make();
              if constexpr (std::is_base_of_v<torch::nn::Module, Model>)
                return model;
              else if constexpr (detail::kIsHolder<Model>)
                return model && !model->is_empty() ? model->ptr() : nullptr;
              return nullptr;
            },
            Make::kMaking),
        models_(models) {}

  static typename Base::Options reserve(typename Base::Options options, Models& models) {
    models.all.resize(Base::replicas(options));
    return options;
  }

  /// By batch, in its order; behind pointers, so that they stay where they are while more come.
  template <class Range, class Function>
  auto results_of(Range& batches, const Function& function) {
    using Batch = std::decay_t<decltype(*std::begin(batches))>;
    using Result = std::decay_t<std::invoke_result_t<const Function&, Model&, const Batch&>>;
    std::vector<std::unique_ptr<std::optional<Result>>> results;
    auto next = std::begin(batches);
    const auto end = std::end(batches);
    const auto make_task = [&]() -> std::function<void(Place)> {
      if (!(next != end)) return nullptr;
      const bool here = is_own<Result>(results.size());
      auto* result = results.emplace_back(std::make_unique<std::optional<Result>>()).get();
      if (!here) {  // its number counts, as the random numbers of those after it go by theirs
        ++next;
        return [](Place) {};
      }
      auto batch = std::make_shared<Batch>(*next);
      ++next;
      return [=, this, &function](Place place) {
        const Batch own = batch::aligned(batch::to(*batch, this->device_of(place)));
        *result = detail::unwritten(own, "metric", [&] { return function(model_of(place), own); });
      };
    };
    if constexpr (kSpreads<Result>) {
      if (this->turn().machines > 1) {
        try {
          this->run_tasks(make_task);
        } catch (const std::exception& error) {
          this->call_off(error.what());
          throw;
        }
        take_others(results);
        return results;
      }
    }
    this->run_tasks(make_task);
    return results;
  }

  /// Whether several machines share the batches of an evaluation with such results.
  template <class Result>
  static constexpr bool kSpreads = Travels<Result>&& requires(ModelStrategy& self) {
    self.turn();
  };

  /// Whether this machine evaluates the batch with that number.
  template <class Result>
  bool is_own(std::size_t number) const {
    if constexpr (kSpreads<Result>) {
      const auto turn = this->turn();
      return static_cast<int>(number % static_cast<std::size_t>(turn.machines)) == turn.machine;
    }
    return true;
  }

  /// Afterwards the results of other machines are there too.
  template <class Results>
  void take_others(Results& results) {
    using Result = typename std::decay_t<decltype(**results.begin())>::value_type;
    std::vector<std::string> bytes;
    for (auto& result : results) bytes.push_back(*result ? to_bytes(**result) : "");
    bytes = this->all_results(bytes);
    results.resize(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (!*results[i]) *results[i] = from_bytes<Result>(bytes[i]);
  }

  std::shared_ptr<Models> models_;
};

}  // namespace lockstep
