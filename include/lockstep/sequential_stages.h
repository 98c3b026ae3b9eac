#pragma once

// The loss of a model that is a chain of layers, cut into stages for Pipeline: by hand, or by what
// the layers take.
//
//   const auto loss = lockstep::sequential_stages<Net, Batch>(
//       [](Net& net) -> torch::nn::Sequential& { return net.body; },
//       [](const Batch& b) { return b.data; },
//       [](Net&, const torch::Tensor& out, const Batch& b) {
//         return torch::nll_loss(out, b.target);
//       });
//   auto report = towers.step(batch, loss);
//
// Where it is cut changes nothing but speed and memory.

#include <lockstep/detail/stage_work.h>
#include <lockstep/error.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Where a chain of layers is cut.
struct Cut {
  /// The first layer of each stage but the first: {3, 7} for layers 0-2, 3-6 and 7 on.
  static Cut by_hand(std::vector<std::size_t> first_layers) { return {std::move(first_layers)}; }

  /// In the first step one shard runs on the CPU, layer by layer, forward and backward. The cut
  /// makes the largest share small, in time or in bytes of parameters, whichever is larger. A note
  /// of the first report says where it is.
  static Cut measured() { return {}; }

  std::vector<std::size_t> first_layers = {};  ///< empty: measured
};

/// What a layer takes: for Cut::measured.
struct LayerCost {
  double seconds = 0;      ///< of forward and backward of one shard
  std::int64_t bytes = 0;  ///< of its parameters
};

namespace detail {

/// The first layer of each stage but the first. Throws ConfigError for more stages than layers.
std::vector<std::size_t> best_cut(const std::vector<LayerCost>& costs, std::size_t stages);
/// Throws ConfigError unless `first_layers` cut so many layers into so many stages.
void check_cut(const std::vector<std::size_t>& first_layers, std::size_t layers,
               std::size_t stages);
/// A sentence for the report.
std::string describe_cut(const std::vector<std::size_t>& first_layers,
                         const std::vector<LayerCost>& costs);
/// Runs one layer forward and backward, a few times, and says what it takes; `x` becomes what it
/// returns. `parameters` are those of the model.
LayerCost measure_layer(const std::function<torch::Tensor(const torch::Tensor&)>& layer,
                        torch::Tensor& x, std::vector<torch::Tensor> parameters);
/// What a loss function returned, as a Loss: a tensor is the mean over the shard's rows.
inline Loss loss_of(Loss loss) { return loss; }
inline Loss loss_of(const torch::Tensor& mean) { return Loss::mean(mean); }

}  // namespace detail

/// A loss for Pipeline::step: layers 0, 1, ..., of which each takes what the one before returns.
template <class Model, class Batch>
struct LayerStages {
  std::function<std::size_t(Model& model)> count;  ///< of the layers
  std::function<torch::Tensor(const Batch& shard)> input;
  std::function<torch::Tensor(Model& model, std::size_t layer, const torch::Tensor& x)> run;
  std::function<Loss(Model& model, const torch::Tensor& out, const Batch& shard)> head;
  Cut cut = Cut::measured();

  /// For Pipeline. `chosen` is the cut that it has measured before; empty: none.
  template <class Models, class Trial>
  void add_to(detail::StageWork& work, const Models& models, const Trial& trial,
              std::vector<std::size_t>& chosen) const {
    const std::size_t stages = work.shards.size() - 1, layers = count(models(detail::Place{}));
    if (!cut.first_layers.empty()) chosen = cut.first_layers;
    if (chosen.empty() && stages > 1) {
      const std::vector<LayerCost> costs = measured(work, models, trial);
      chosen = detail::best_cut(costs, stages);
      work.note = detail::describe_cut(chosen, costs);
    }
    detail::check_cut(chosen, layers, stages);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const std::size_t first = stage == 0 ? 0 : chosen[stage - 1];
      const std::size_t end = stage + 1 == stages ? layers : chosen[stage];
      const auto forward = [this, models, first, end](detail::Place place, detail::Shards& shards,
                                                      int shard, detail::Crossing in) {
        Model& model = models(place);
        torch::Tensor x = first == 0 ? input(part(shards, shard)) : std::move(in.tensors[0]);
        for (std::size_t i = first; i < end; ++i) x = run(model, i, x);
        return x;
      };
      work.takes_batch.push_back(stage == 0 || stage + 1 == stages);
      if (stage + 1 < stages)
        work.parts.push_back(
            [forward](detail::Place place, detail::Shards& shards, int shard, detail::Crossing in) {
              return detail::Crossing{{forward(place, shards, shard, std::move(in))}, {}};
            });
      else
        work.last = [this, models, forward](detail::Place place, detail::Shards& shards, int shard,
                                            std::int64_t rows, detail::Crossing in) {
          const torch::Tensor out = forward(place, shards, shard, std::move(in));
          return detail::as_loss(head(models(place), out, part(shards, shard)), rows);
        };
    }
  }

 private:
  static const Batch& part(detail::Shards& shards, int shard) {
    return static_cast<detail::ShardsOf<Batch>&>(shards).part_at(shard);
  }

  template <class Models, class Trial>
  std::vector<LayerCost> measured(detail::StageWork& work, const Models& models,
                                  const Trial& trial) const {
    std::vector<LayerCost> costs;
    trial([&](detail::Place place, int shard) {
      Model& model = models(place);
      torch::Tensor x = input(part(*work.shards.back(), shard));
      for (std::size_t i = 0; i < count(model); ++i)
        costs.push_back(detail::measure_layer(
            [&](const torch::Tensor& in) { return run(model, i, in); }, x, parameters_of(model)));
      return false;
    });
    return costs;
  }

  static std::vector<torch::Tensor> parameters_of(Model& model) {
    if constexpr (detail::kIsHolder<Model>)
      return model->parameters();
    else
      return model.parameters();
  }
};

/// The loss of a torch::nn::Sequential, cut between its modules: `body(model)` is it,
/// `input(shard)` what goes in, `head(model, out, shard)` the loss of what comes out. Each module
/// takes a tensor and returns one.
template <class Model, class Batch, class Body, class Input, class Head>
LayerStages<Model, Batch> sequential_stages(Body body, Input input, Head head,
                                            Cut cut = Cut::measured()) {
  LayerStages<Model, Batch> stages;
  stages.count = [body](Model& model) { return body(model)->size(); };
  stages.input = [input](const Batch& shard) -> torch::Tensor { return input(shard); };
  stages.run = [body](Model& model, std::size_t layer, const torch::Tensor& x) {
    auto module = body(model)->begin() + static_cast<std::ptrdiff_t>(layer);
    return module->template forward<torch::Tensor>(x);
  };
  stages.head = [head](Model& model, const torch::Tensor& out, const Batch& shard) -> Loss {
    return detail::loss_of(head(model, out, shard));
  };
  stages.cut = std::move(cut);
  return stages;
}

}  // namespace lockstep
