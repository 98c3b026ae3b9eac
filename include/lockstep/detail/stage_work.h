#pragma once

// What a step of Pipeline computes, stage by stage, as its engine asks for it.

#include <lockstep/detail/shards.h>

#include <any>
#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// What one stage hands to the next: the tensors in a value, and the value without them.
struct Crossing {
  std::vector<torch::Tensor> tensors;
  std::any rest;
};

struct StageWork {
  /// Of all stages but the last; then that one.
  using Part = std::function<Crossing(Place place, Shards& shards, int shard, Crossing in)>;
  using Last =
      std::function<Loss(Place place, Shards& shards, int shard, std::int64_t rows, Crossing in)>;

  std::vector<Shards*> shards;    ///< by stage, on its devices; one more for the trial, on the CPU
  std::vector<char> takes_batch;  ///< by stage
  std::vector<Part> parts = {};
  Last last = nullptr;
  std::string update = "*";
  std::string phase = "";
  std::string note = "";  ///< about the cut; for the report of the first step

  std::size_t stages() const { return takes_batch.size(); }
};

/// What the first stage gets from the one before it.
struct Nothing {};

/// Whether a stage's function takes the batch, beside what comes from the stage before.
template <class Function, class Model, class Batch, class In>
constexpr bool takes_batch() {
  if constexpr (std::is_same_v<In, Nothing>)
    return std::is_invocable_v<const Function&, Model&, const Batch&>;
  else
    return std::is_invocable_v<const Function&, Model&, const Batch&, In>;
}

/// Whether it takes what comes from there alone.
template <class Function, class Model, class Batch, class In>
constexpr bool takes_crossing_alone() {
  if constexpr (std::is_same_v<In, Nothing> || takes_batch<Function, Model, Batch, In>())
    return false;  // and do not look: it may be a generic lambda
  else
    return std::is_invocable_v<const Function&, Model&, In>;
}

template <class Function, class Model, class Batch, class In>
constexpr bool is_stage() {
  constexpr bool fits = takes_batch<Function, Model, Batch, In>() ||
                        takes_crossing_alone<Function, Model, Batch, In>();
  static_assert(fits,
                "stages(...): the first function is called with (Model&, const Batch&), each other "
                "one with (Model&, const Batch&, what the one before returned) or without the "
                "batch; let them be const (lambdas without `mutable`).");
  return fits;
}

/// `batch` is not looked at where the function does not take it.
template <class Function, class Model, class Batch, class In>
decltype(auto) call_stage(const Function& function, Model& model, const Batch* batch, In in) {
  if constexpr (std::is_same_v<In, Nothing>)
    return function(model, *batch);
  else if constexpr (takes_batch<Function, Model, Batch, In>())
    return function(model, *batch, std::move(in));
  else
    return function(model, std::move(in));
}

template <class Function, class Model, class Batch, class In>
using StageResult = std::decay_t<decltype(call_stage<Function, Model, Batch, In>(
    std::declval<const Function&>(), std::declval<Model&>(), nullptr, std::declval<In>()))>;

/// A value as plain tensors and the rest, and back.
template <class Value>
Crossing taken_apart(Value value) {
  static_assert(kKnown<Value> && !OwnBatch<Value>,
                "What crosses from one stage to the next is a tensor, a container of them, or a "
                "type with tensors(), see lockstep/batch.h.");
  Crossing crossing;
  batch::for_each_tensor(value, [&](torch::Tensor& tensor) {
    crossing.tensors.push_back(std::move(tensor));
    tensor = torch::Tensor();
  });
  crossing.rest = std::move(value);
  return crossing;
}

template <class Value>
Value put_together(Crossing crossing) {
  if constexpr (std::is_same_v<Value, Nothing>) {
    return {};
  } else {
    Value value = std::any_cast<Value>(std::move(crossing.rest));
    std::size_t next = 0;
    batch::for_each_tensor(
        value, [&](torch::Tensor& tensor) { tensor = std::move(crossing.tensors.at(next++)); });
    return value;
  }
}

/// Calls a stage's function with a shard; a ConfigError when it writes to it.
template <class In, class Function, class Model, class Batch>
auto run_stage(const Function& function, Model& model, const ShardsOf<Batch>& shards, int shard,
               Crossing in) {
  In value = put_together<In>(std::move(in));
  if constexpr (takes_batch<Function, Model, Batch, In>()) {
    const Batch& own = shards.part_at(shard);
    return unwritten(own, "stage", [&] {
      return StageResult<Function, Model, Batch, In>(
          call_stage(function, model, &own, std::move(value)));
    });
  } else {
    return StageResult<Function, Model, Batch, In>(
        call_stage<Function, Model, Batch, In>(function, model, nullptr, std::move(value)));
  }
}

/// Adds functions `first` and all after it; `In` is what the one before returns. `models(place)` is
/// the model there. All arguments must live on.
template <class In, class Batch, std::size_t first = 0, class Models, class... Functions>
void add_stages(StageWork& work, const Models& models, const std::tuple<Functions...>& functions) {
  using Model = std::remove_reference_t<decltype(models(Place{}))>;
  const auto& function = std::get<first>(functions);
  using Function = std::decay_t<decltype(function)>;
  if constexpr (is_stage<Function, Model, Batch, In>()) {
    using Out = StageResult<Function, Model, Batch, In>;
    work.takes_batch.push_back(takes_batch<Function, Model, Batch, In>());
    const auto run = [&function, models](Place place, Shards& shards, int shard, Crossing in) {
      return run_stage<In>(function, models(place), static_cast<ShardsOf<Batch>&>(shards), shard,
                           std::move(in));
    };
    if constexpr (first + 1 < sizeof...(Functions)) {
      work.parts.push_back([run](Place place, Shards& shards, int shard, Crossing in) {
        return taken_apart<Out>(run(place, shards, shard, std::move(in)));
      });
      add_stages<Out, Batch, first + 1>(work, models, functions);
    } else {
      constexpr bool fits =
          std::is_convertible_v<Out, torch::Tensor> || std::is_convertible_v<Out, Loss>;
      static_assert(fits,
                    "The last of stages(...) returns a torch::Tensor, the mean over the shard's "
                    "rows, or lockstep::Loss{sum, weight}.");
      if constexpr (fits)
        work.last = [run](Place place, Shards& shards, int shard, std::int64_t rows, Crossing in) {
          return as_loss(run(place, shards, shard, std::move(in)), rows);
        };
    }
  }
}

}  // namespace lockstep::detail
