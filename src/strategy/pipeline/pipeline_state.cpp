#include <algorithm>

#include "optim/rules.h"
#include "optim/slots.h"
#include "strategy/method_changes.h"
#include "strategy/pipeline/pipeline_engine.h"
#include "strategy/saved.h"

namespace lockstep::strategy {
namespace {

/// Calls f(seat, begin, end) for every seat's part of a slice of a stage's arena.
template <class F>
void for_each_run(const collective::GradientSlice& slice, const F& f) {
  const arena::Layout& layout = *slice.layout;
  for (auto seat = layout.seat_after(slice.range.begin);
       seat != layout.seats.end() && seat->offset < slice.range.end; ++seat)
    f(*seat, std::max(seat->offset, slice.range.begin),
      std::min(seat->offset + seat->numel, slice.range.end));
}

}  // namespace

/// What a tower has in one of its slices goes to its place in whole arenas on the CPU.
void PipelineEngine::copy_out(const StageTower& at, const Parts& part, const Flats& whole) const {
  const torch::NoGradGuard no_grad;
  const StageLayout& own = layouts_[at.stage_index()];
  for (std::size_t i = 0; i < at.tower.slices.size(); ++i) {
    const collective::GradientSlice& slice = at.tower.slices[i];
    const torch::Tensor values = part(at, i).cpu();
    const torch::Tensor& arena = whole[own.whole_layout[buckets_[at.stage_index()][i].arena]];
    for_each_run(slice, [&](const arena::Seat& seat, std::int64_t begin, std::int64_t end) {
      const std::int64_t there = map_->seats[seat.entry]->offset + begin - seat.offset;
      arena.narrow(0, there, end - begin)
          .copy_(values.narrow(0, begin - slice.range.begin, end - begin));
    });
  }
}

/// The reverse.
void PipelineEngine::copy_in(const StageTower& at, const Parts& part, const Flats& whole) const {
  const torch::NoGradGuard no_grad;
  const StageLayout& own = layouts_[at.stage_index()];
  for (std::size_t i = 0; i < at.tower.slices.size(); ++i) {
    const collective::GradientSlice& slice = at.tower.slices[i];
    torch::Tensor target = part(at, i);
    const torch::Tensor values = target.cpu().clone();
    const torch::Tensor& arena = whole[own.whole_layout[buckets_[at.stage_index()][i].arena]];
    for_each_run(slice, [&](const arena::Seat& seat, std::int64_t begin, std::int64_t end) {
      const std::int64_t there = map_->seats[seat.entry]->offset + begin - seat.offset;
      values.narrow(0, begin - slice.range.begin, end - begin)
          .copy_(arena.narrow(0, there, end - begin));
    });
    target.copy_(values);
  }
}

/// Slot `i` of a slice; after the slots comes the moving average.
torch::Tensor PipelineEngine::kept_part(const StageTower& at, std::size_t slice, std::size_t i) {
  const optim::SliceUpdate& update = at.tower.updates[slice];
  return i < update.slots().size() ? update.slots()[i] : update.average();
}

std::vector<Flats> PipelineEngine::collect_kept() {
  if (!plan_) return kept_;
  std::vector<Flats> kept(kept_count_);
  for (std::size_t k = 0; k < kept.size(); ++k) {
    kept[k] = allocate(map_->layouts, torch::kCPU);
    for (const auto& at : towers_)
      copy_out(
          *at, [k](const StageTower& tower, std::size_t i) { return kept_part(tower, i, k); },
          kept[k]);
  }
  return kept;
}

void PipelineEngine::restore_kept(const std::vector<Flats>& kept) {
  for (std::size_t k = 0; k < kept.size(); ++k)
    for (const auto& at : towers_)
      copy_in(
          *at, [k](const StageTower& tower, std::size_t i) { return kept_part(tower, i, k); },
          kept[k]);
}

/// After an update, on the tower's thread: each writes its own parts.
void PipelineEngine::mirror(const StageTower& at) {
  for (std::size_t k = 0; k < kept_.size(); ++k)
    copy_out(
        at, [k](const StageTower& tower, std::size_t i) { return kept_part(tower, i, k); },
        kept_[k]);
}

Flats PipelineEngine::collect_gradients() {
  const Flats whole = allocate(map_->layouts, torch::kCPU);
  for (const auto& at : towers_)
    copy_out(
        *at, [](const StageTower& tower, std::size_t i) { return tower.tower.slices[i].gradient; },
        whole);
  return whole;
}

State PipelineEngine::state() {
  torn_.require_whole();
  return surviving("state", [this] { return copy_of_state(); });
}

State PipelineEngine::copy_of_state() {
  pull();
  whole().adopt();
  const torch::NoGradGuard no_grad;
  State state = state_of({steps_, updates_, numbers_, loss_scale_}, models_->first().tensors, *map_,
                         made_with_, options_.method);
  if (!weights_.empty()) state.parameters = named(weights_, map_->layouts);
  std::vector<Flats> kept = collect_kept();
  if (options_.method.moving_average) {
    state.averages = named(kept.back(), map_->layouts);
    kept.pop_back();
  }
  for (std::size_t i = 0; i < kept.size(); ++i)
    std::ranges::move(named(kept[i], map_->layouts, slot_naming(made_with_, i)),
                      std::back_inserter(state.slots));
  state.gradients = named(collect_gradients(), map_->layouts);
  return state;
}

void PipelineEngine::load(const State& state) {
  check(!averaged_, "no load inside with_averaged_weights");
  const torch::NoGradGuard no_grad;
  Loaded loaded = read(state, *map_, whole(), made_with_);  // all that may be wrong comes first
  restore_scale(loss_scale_, state, options_.method);
  whole().recover();
  whole().adopt();  // what the caller did before does not count any more
  torn_.until_done([&] {
    Replica& shown = models_->first();
    copy_all(whole().parameters({0}), loaded.parameters);
    copy_all(shown.buffers, loaded.buffers);
    for (std::size_t i = 0; i < loaded.frozen.size(); ++i)
      copy_all({shown.tensors.frozen[i].tensor}, {loaded.frozen[i]});
    stale_ = false;
    shown_ = true;
    if (plan_) restore_kept(loaded.kept);
    if (!plan_ || replays()) kept_ = std::move(loaded.kept);
    steps_ = state.steps;
    updates_ = state.updates;
    numbers_.restore(std::move(loaded.numbers));
    if (plan_) push();
  });
  whole().require_gradients(trained(state, *map_));
  whole().adopt();
  notes_.add(change_notes(state, made_with_, options_.method));
}

void PipelineEngine::set_learning_rate(std::size_t number, double lr) {
  change_learning_rate(options_.method, number, lr);
}

void PipelineEngine::set_optimizer(std::size_t number, const Optimizer& optimizer) {
  change_optimizer(options_.method, made_with_, number, optimizer);
}

void PipelineEngine::reset_slots(const std::string& pattern) {
  check(!averaged_, "no reset_slots inside with_averaged_weights");
  torn_.require_whole();
  const std::vector<char> chosen = matching("reset_slots: pattern", pattern, *map_);
  const torch::NoGradGuard no_grad;
  surviving("update", [&] {
    std::vector<Flats> kept = collect_kept();
    for (std::size_t i = 0; i < kept.size(); ++i)
      for (const arena::Seat* seat : map_->seats) {
        const std::size_t number = optim::terms_for(seat->name, made_with_).optimizer;
        const auto specs = optim::slots_of(optim::optimizer_of(options_.method, number));
        const bool average = options_.method.moving_average && i + 1 == kept.size();
        if (!chosen[seat->entry] || average) continue;
        for (std::size_t k = 0; k < map_->layouts.size(); ++k)
          for (const arena::Seat& own : map_->layouts[k].seats)
            if (&own == seat)
              arena::view(kept[i][k], own).fill_(i < specs.size() ? specs[i].initial : 0);
      }
    if (plan_) restore_kept(kept);
    if (!plan_ || replays()) kept_ = std::move(kept);
  });
  numbers_.reset(updates_, chosen);
}

}  // namespace lockstep::strategy
