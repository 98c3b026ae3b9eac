#include <lockstep/sequential_stages.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <numeric>

namespace lockstep::detail {
namespace {

/// By layer, and the end: what all layers before it take, as a share of the whole.
struct Shares {
  explicit Shares(const std::vector<LayerCost>& costs) : seconds{0}, bytes{0} {
    for (const LayerCost& cost : costs) {
      seconds.push_back(seconds.back() + cost.seconds);
      bytes.push_back(bytes.back() + static_cast<double>(cost.bytes));
    }
    for (auto* list : {&seconds, &bytes})
      if (const double all = list->back(); all > 0)
        for (double& each : *list) each /= all;
  }

  double of(std::size_t first, std::size_t end) const {
    return std::max(seconds[end] - seconds[first], bytes[end] - bytes[first]);
  }

  std::vector<double> seconds, bytes;
};

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

}  // namespace

/// The partition with the smallest largest share, by dynamic programming: layers^2 * stages.
std::vector<std::size_t> best_cut(const std::vector<LayerCost>& costs, std::size_t stages) {
  const std::size_t layers = costs.size();
  if (layers < stages)
    throw ConfigError("a chain of " + std::to_string(layers) + " layers cannot be cut into " +
                      std::to_string(stages) + " stages; use fewer.");
  const Shares shares(costs);
  constexpr double kNone = std::numeric_limits<double>::infinity();
  // best[s][end]: layers [0, end) in s + 1 stages; from[s][end]: where the last of them begins.
  std::vector<std::vector<double>> best(stages, std::vector<double>(layers + 1, kNone));
  std::vector<std::vector<std::size_t>> from(stages, std::vector<std::size_t>(layers + 1));
  for (std::size_t end = 1; end <= layers; ++end) best[0][end] = shares.of(0, end);
  for (std::size_t s = 1; s < stages; ++s)
    for (std::size_t end = s + 1; end <= layers; ++end)
      for (std::size_t first = s; first < end; ++first)
        if (const double cost = std::max(best[s - 1][first], shares.of(first, end));
            cost < best[s][end]) {
          best[s][end] = cost;
          from[s][end] = first;
        }
  std::vector<std::size_t> cut(stages - 1);
  for (std::size_t s = stages - 1, end = layers; s > 0; --s) end = cut[s - 1] = from[s][end];
  return cut;
}

void check_cut(const std::vector<std::size_t>& first_layers, std::size_t layers,
               std::size_t stages) {
  if (first_layers.size() + 1 != stages)
    throw ConfigError("a cut with " + std::to_string(first_layers.size() + 1) +
                      " stages was given, but there are " + std::to_string(stages) + ".");
  std::size_t before = 0;
  for (const std::size_t first : first_layers) {
    if (first <= before || first >= layers)
      throw ConfigError("a stage cannot begin with layer " + std::to_string(first) +
                        ": the one before begins with " + std::to_string(before) +
                        ", and there are layers 0 to " + std::to_string(layers - 1) + ".");
    before = first;
  }
}

std::string describe_cut(const std::vector<std::size_t>& first_layers,
                         const std::vector<LayerCost>& costs) {
  const Shares shares(costs);
  std::string text = "measured cut:";
  std::size_t first = 0;
  for (std::size_t stage = 0; stage <= first_layers.size(); ++stage) {
    const std::size_t end = stage < first_layers.size() ? first_layers[stage] : costs.size();
    text += (stage == 0 ? " layers " : ", ") + std::to_string(first) + "-" +
            std::to_string(end - 1) + " (" + percent(shares.seconds[end] - shares.seconds[first]) +
            " of the time, " + percent(shares.bytes[end] - shares.bytes[first]) +
            " of the parameters)";
    first = end;
  }
  return text + ".";
}

LayerCost measure_layer(const std::function<torch::Tensor(const torch::Tensor&)>& layer,
                        torch::Tensor& x, std::vector<torch::Tensor> parameters) {
  constexpr int kRuns = 3;
  LayerCost cost{.seconds = std::numeric_limits<double>::infinity()};
  torch::Tensor out;
  for (int run = 0; run < kRuns; ++run) {
    torch::Tensor in = x.detach().clone();                     // a layer may work in place
    if (in.is_floating_point()) in = in.requires_grad_() * 1;  // no leaf
    const auto begin = std::chrono::steady_clock::now();
    out = layer(in);
    if (out.requires_grad()) out.backward(torch::ones_like(out));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    cost.seconds = std::min(cost.seconds, took.count());
  }
  for (torch::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) cost.bytes += static_cast<std::int64_t>(parameter.nbytes());
    parameter.mutable_grad() = torch::Tensor();
  }
  x = out.detach();
  return cost;
}

}  // namespace lockstep::detail
