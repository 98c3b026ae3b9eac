#pragma once

// What Mirrored asks of a model, a batch, a loss and a metric, as sentences for the compiler to
// print. A function here is false when it has complained; its caller then leaves out the code that
// would only add to the errors.

#include <lockstep/batch.h>
#include <lockstep/loss.h>

#include <iterator>
#include <memory>
#include <type_traits>

namespace lockstep::detail {

template <class Model>
inline constexpr bool kIsHolder = requires(const Model& model) {
  typename Model::ContainedType;
  { model.ptr() } -> std::convertible_to<std::shared_ptr<torch::nn::Module>>;
};

template <class Model>
constexpr bool is_model() {
  constexpr bool fits = std::is_base_of_v<torch::nn::Module, Model> || kIsHolder<Model>;
  static_assert(fits,
                "Mirrored<Model>: Model must be a torch::nn::Module, or a holder of one that "
                "TORCH_MODULE made.");
  return fits;
}

/// A holder is constructed as what it holds, or from a holder or pointer of the same type.
template <class Model, class... Args>
constexpr bool is_constructible() {
  if constexpr (kIsHolder<Model>) {
    using Held = typename Model::ContainedType;
    return std::is_constructible_v<Held, Args...> ||
           (std::is_convertible_v<Args, std::shared_ptr<Held>> && ... && (sizeof...(Args) == 1)) ||
           (std::is_convertible_v<Args, Model> && ... && (sizeof...(Args) == 1));
  }
  return std::is_constructible_v<Model, Args...>;
}

template <class Model>
struct ModuleIn {
  using Type = Model;
};
template <class Model>
requires(kIsHolder<Model>) struct ModuleIn<Model> {
  using Type = typename Model::ContainedType;
};
template <class Model>
using ModuleOf = typename ModuleIn<Model>::Type;

template <class Model, class... Args>
constexpr bool takes_arguments() {
  constexpr bool fits = std::is_constructible_v<ModuleOf<Model>, Args...>;
  static_assert(fits,
                "Mirrored<Model>(options, args...): Model has no public constructor that takes "
                "these args. Every tower is given the same, so none can be moved from; a "
                "reference that is not const binds to a variable, not to a temporary.");
  return fits;
}

template <class Model, class Factory>
constexpr bool is_factory() {
  constexpr bool callable = std::is_invocable_v<Factory&>;
  static_assert(callable, "Mirrored<Model>::from(options, factory): factory() takes no arguments.");
  if constexpr (callable) {
    using Made = std::invoke_result_t<Factory&>;
    constexpr bool fits = [] {
      if constexpr (kIsHolder<Model>)
        return std::is_convertible_v<Made, Model> ||
               std::is_convertible_v<Made, std::shared_ptr<ModuleOf<Model>>>;
      else if constexpr (kIsHolder<std::decay_t<Made>>)
        return std::is_convertible_v<decltype(std::declval<Made>().ptr()), std::shared_ptr<Model>>;
      else
        return std::is_convertible_v<Made, std::shared_ptr<Model>>;
    }();
    static_assert(fits,
                  "Mirrored<Model>::from(options, factory): factory() returns a "
                  "std::shared_ptr<Model>, or a holder; for a module of its own, "
                  "std::make_shared<Model>(...).");
    return fits;
  }
  return false;
}

template <class Batch>
constexpr bool is_batch() {
  constexpr unsigned kind = kKind<Batch>;
  constexpr bool known = (kind & (kUnknown | kInert)) == 0 || (kind & kVague) != 0;
  constexpr bool clear = !known || (kind & kVague) == 0;
  static_assert(known,
                "Lockstep does not know how to cut this batch type into shards: offer tensors() "
                "or shard(i, n), see lockstep/batch.h.");
  static_assert(clear,
                "A batch has a vector or array with numbers or texts in it: pass list(v) if each "
                "item is one row, whole(v) if it is the same in every shard.");
  static_assert(!known || !clear || Shardable<Batch>,
                "Nothing in this batch type has rows to cut: there must be a tensor, a list() or a "
                "type with shard(i, n).");
  return Shardable<Batch>;
}

template <class Model, class Batch, class LossFn>
constexpr bool is_loss() {
  constexpr bool callable = std::is_invocable_v<const LossFn&, Model&, const Batch&>;
  static_assert(callable,
                "Lockstep calls loss(model, shard) with (Model&, const Batch&): take the shard by "
                "const reference, and let the loss be const (a lambda without `mutable`).");
  if constexpr (callable) {
    using Result = std::invoke_result_t<const LossFn&, Model&, const Batch&>;
    constexpr bool fits =
        std::is_convertible_v<Result, torch::Tensor> || std::is_convertible_v<Result, Loss>;
    static_assert(fits,
                  "A loss returns a torch::Tensor, the mean over the shard's rows, or "
                  "lockstep::Loss{sum, weight}.");
    return fits;
  }
  return false;
}

template <class Model, class Batch, class RowsFn, class HeadFn>
constexpr bool is_whole_batch() {
  constexpr bool callable = std::is_invocable_v<const RowsFn&, Model&, const Batch&>;
  static_assert(callable,
                "whole_batch(rows, head): Lockstep calls rows(model, shard) with (Model&, const "
                "Batch&): take the shard by const reference, and let it be const.");
  if constexpr (callable) {
    using Rows = std::decay_t<std::invoke_result_t<const RowsFn&, Model&, const Batch&>>;
    static_assert(kKind<Rows> == kTensor,
                  "whole_batch(rows, head): rows returns a tensor, or a container of tensors as a "
                  "batch is one.");
    if constexpr (kKind<Rows> == kTensor) {
      constexpr bool fits = std::is_invocable_r_v<torch::Tensor, const HeadFn&, const Rows&> ||
                            std::is_invocable_r_v<Loss, const HeadFn&, const Rows&>;
      static_assert(fits,
                    "whole_batch(rows, head): head takes what rows returns by const reference, and "
                    "returns a torch::Tensor, the loss of the batch, or a lockstep::Loss.");
      return fits;
    }
  }
  return false;
}

template <class Range>
inline constexpr bool kIsRange = requires(Range& range) {
  std::begin(range) != std::end(range);
  *std::begin(range);
};

template <class Model, class Batch, class MetricFn>
constexpr bool is_metric() {
  constexpr bool callable = std::is_invocable_v<const MetricFn&, Model&, const Batch&>;
  static_assert(callable,
                "Lockstep calls metric(model, batch) with (Model&, const Batch&): take the batch "
                "by const reference, and let the metric be const (a lambda without `mutable`).");
  if constexpr (callable) {
    using Result = std::decay_t<std::invoke_result_t<const MetricFn&, Model&, const Batch&>>;
    constexpr bool fits =
        !std::is_same_v<Result, torch::Tensor> && requires(Result & total, const Result& one) {
      Result();
      total += one;
    };
    static_assert(fits,
                  "A metric returns a type with a default constructor and +=, such as "
                  "lockstep::Metrics, and not a tensor.");
    return fits;
  }
  return false;
}

/// What a metric returns for the batches of a range.
template <class Model, class Range, class MetricFn>
using ResultOf =
    std::invoke_result_t<const MetricFn&, Model&,
                         const std::decay_t<decltype(*std::begin(std::declval<Range&>()))>&>;

template <class Model, class Range, class Function>
constexpr bool is_mapping() {
  static_assert(kIsRange<Range>,
                "map(batches, function): batches must be a range with begin() and end(); of a data "
                "loader it is *loader.");
  if constexpr (kIsRange<Range>) {
    using Batch = std::decay_t<decltype(*std::begin(std::declval<Range&>()))>;
    constexpr bool callable = std::is_invocable_v<const Function&, Model&, const Batch&>;
    static_assert(callable,
                  "Lockstep calls function(model, batch) with (Model&, const Batch&): take the "
                  "batch by const reference, and let the function be const.");
    return is_batch<Batch>() && callable;
  }
  return false;
}

template <class Model, class Range, class MetricFn>
constexpr bool is_evaluation() {
  static_assert(kIsRange<Range>,
                "evaluate(batches, metric): batches must be a range with begin() and end(); of a "
                "data loader it is *loader.");
  if constexpr (kIsRange<Range>) {
    using Batch = std::decay_t<decltype(*std::begin(std::declval<Range&>()))>;
    if constexpr (is_batch<Batch>()) return is_metric<Model, Batch, MetricFn>();
  }
  return false;
}

}  // namespace lockstep::detail
