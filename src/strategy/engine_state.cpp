#include <algorithm>

#include "strategy/agreement.h"
#include "strategy/engine.h"

namespace lockstep::strategy {

State Engine::state() {
  torn_.require_whole();
  return surviving("state", [this] { return copy_of_state(); });
}

State Engine::copy_of_state() {
  replicas_.adopt();
  agree("state");
  State state = state_of(replicas_[replicas_.first()].tensors);
  for (std::size_t i = 0; i < slots(); ++i)
    std::ranges::move(collected([i](const Tower& tower) { return tower.kept()[i]; },
                                slot_naming(towers_.made_with(), i)),
                      std::back_inserter(state.slots));
  if (options_.method.moving_average)
    state.averages = collected([](const Tower& tower) { return tower.kept().back(); });
  if (averaged_ && updates_ > 0) std::swap(state.parameters, state.averages);
  state.gradients = collected([](const Tower& tower) {
    Flats gradients;
    for (const collective::GradientSlice& slice : tower.slices) gradients.push_back(slice.gradient);
    return gradients;
  });
  return state;
}

/// Named tensors of all arenas. `parts` is one flat of each of a tower's slices.
std::vector<NamedTensor> Engine::collected(const std::function<Flats(const Tower&)>& parts,
                                           const Naming& name) {
  const Flats whole = allocate(map_.layouts, torch::kCPU);
  std::map<Place, std::vector<collective::ArenaPart>> brought;  // readable until all have left
  for (const Tower& tower : towers_)
    for (std::size_t i = 0; const torch::Tensor& values : parts(tower)) {
      brought[tower.place].push_back({map_.buckets[i].arena, tower.slices[i].range, values});
      ++i;
    }
  const auto failure = towers_.run_together([&](Tower& tower) {
    towers_.collective().collect(tower.rank, brought.at(tower.place), whole);
  });
  require_success(failure, "state");
  return named(whole, map_.layouts, name);
}

void Engine::load(const State& state) {
  check(!averaged_, "no load inside with_averaged_weights");
  Loaded loaded = read(state);  // all that may be wrong with the state comes first
  join_group();
  take_scale(state);
  if (torn_ && !towers_.planned())
    towers_.make(replicas_.places());  // those left did not take over
  replicas_.recover();
  replicas_.adopt();  // what the caller did before does not count any more
  torn_.until_done([&] {
    Replica& shown = replicas_[replicas_.first()];
    copy_all(replicas_.parameters(replicas_.first()), loaded.parameters);
    copy_all(shown.buffers, loaded.buffers);
    for (std::size_t i = 0; i < loaded.frozen.size(); ++i)
      copy_all({shown.tensors.frozen[i].tensor}, {loaded.frozen[i]});
    replicas_.touch();
    towers_.restore(loaded.kept);
    for (const Tower& tower : towers_)
      if (rescue_) rescue_->mirror(tower);
    take_numbers(state, std::move(loaded.numbers));
  });
  take_flags(state);
  replicas_.adopt();
  written_ = true;
  copied_ = false;
  if (options_.where.machines) {
    std::vector<torch::Tensor> kept;
    for (const Flats& flats : loaded.kept) kept.insert(kept.end(), flats.begin(), flats.end());
    require_agreement(*options_.where.machines, {{"the slots that are loaded", fingerprint(kept)}},
                      "Load the same state on all machines.");
  }
}

}  // namespace lockstep::strategy
