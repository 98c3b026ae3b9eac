#pragma once

// An arena whose slices are updated one after the other, as towers do it at once.

#include <ATen/Parallel.h>

#include "optim/slice_update.h"

namespace lockstep::optim {

using Numels = std::vector<std::pair<std::string, std::int64_t>>;

/// Seats begin at odd multiples of 128 bytes too, and slices are cut inside them.
inline std::vector<arena::Entry> awkward_entries(torch::Dtype dtype) {
  auto random = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{1});
  std::vector<arena::Entry> entries;
  for (const auto& [layer, numel] : Numels{{"a", 4001}, {"b", 8197}, {"c", 12288}, {"d", 20380}}) {
    entries.push_back({layer + ".weight", torch::randn({numel}, random).to(dtype)});
    entries.push_back({layer + ".bias", torch::randn({numel % 37 + 1}, random).to(dtype)});
  }
  return entries;
}

/// An arena of parameters, cut into `parts` slices with an update each, on a tower of `threads`.
struct Arena {
  Arena(const std::vector<arena::Entry>& entries, const Optimizer& optimizer, int parts = 1,
        std::vector<ParameterRule> rules = {}, bool averaged = false, int threads = 1)
      : Arena(entries,
              Method{.optimizer = optimizer,
                     .rules = std::move(rules),
                     .moving_average = averaged ? std::optional(MovingAverage{}) : std::nullopt},
              parts, threads) {}

  Arena(const std::vector<arena::Entry>& entries, Method how, int parts, int threads)
      : layout(arena::layouts(entries)[0]), method(std::move(how)) {
    at::set_num_threads(threads);
    parameters = arena::allocate(layout, torch::kCPU);
    gradient = torch::zeros_like(parameters);
    for (const arena::Seat& seat : layout.seats)
      arena::view(parameters, seat).copy_(entries[seat.entry].tensor);
    for (int part = 0; part < parts; ++part) {
      const arena::Slice range = arena::slice_of({0, {0, layout.size}}, part, parts);
      updates.emplace_back(layout, range, parameters.narrow(0, range.begin, range.size()),
                           gradient.narrow(0, range.begin, range.size()), method);
    }
  }

  /// The gradient that belongs to step `number` and to nothing else; gaps stay zero.
  void draw_gradient(std::int64_t number) {
    auto random =
        at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(100 + number));
    for (const arena::Seat& seat : layout.seats)
      arena::view(gradient, seat).copy_(torch::randn({seat.numel}, random));
  }

  void apply(const Optimizer& optimizer, const Moment& moment, std::span<const char> reached = {}) {
    method.optimizer = optimizer;
    for (SliceUpdate& update : updates) update.apply(method, moment, reached);
  }

  torch::Tensor average() const {
    std::vector<torch::Tensor> parts;
    for (const SliceUpdate& update : updates) parts.push_back(update.average());
    return torch::cat(parts);
  }

  torch::Tensor slots() const {
    std::vector<torch::Tensor> parts;
    for (std::size_t slot = 0; slot < updates[0].slots().size(); ++slot)
      for (const SliceUpdate& update : updates) parts.push_back(update.slots()[slot]);
    return parts.empty() ? torch::empty({0}) : torch::cat(parts);
  }

  arena::Layout layout;
  Method method;
  torch::Tensor parameters, gradient;
  std::vector<SliceUpdate> updates;
};

}  // namespace lockstep::optim
