#include "optim/slice_update.h"

#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include <algorithm>
#include <array>

namespace lockstep::optim {
namespace {

/// Elements updated at a time: a block of parameters, gradients and slots fits into a second-level
/// cache. Small enough that only the fused kernels, which cut at cache lines, share a block among
/// threads: another cut might change the bits.
constexpr std::int64_t kUpdateBlock = 4 * arena::kBlock;

/// On an accelerator a block is one kernel, or a few: as large as its workspace may be.
constexpr std::int64_t kAcceleratorBlock = 1 << 22;

/// Where a seat, and the gap after it, ends.
std::int64_t end_of(const arena::Layout& layout, std::vector<arena::Seat>::const_iterator seat) {
  return std::next(seat) == layout.seats.end() ? layout.size : std::next(seat)->offset;
}

/// What the functions below update, in place.
struct Target {
  const torch::Tensor& p;
  const torch::Tensor& g;
  const std::vector<torch::Tensor>& slots;  ///< at least those of the optimizer
  double lr;
  double weight_decay;
  bool first;                             ///< of the parameter's updates
  const torch::Tensor& number;            ///< of this update of the parameter, from 1
  std::array<torch::Tensor, 2>& scratch;  ///< as long as p
};

void update(const Sgd& sgd, const Target& t) {
  // The first momentum is the gradient as it is. Without dampening that is what a slot of zeros
  // makes of it.
  const bool as_it_is = t.first && sgd.dampening != 0;
  at::_fused_sgd_({t.p}, {t.g}, at::TensorList(t.slots).slice(0, sgd.momentum == 0 ? 0 : 1),
                  t.weight_decay, sgd.momentum, t.lr, sgd.dampening, sgd.nesterov,
                  /*maximize=*/false, as_it_is);
}

/// The largest mean squares, for amsgrad.
template <class AnyAdam>
at::TensorList largest(const AnyAdam& adam, const Target& t) {
  return adam.amsgrad ? at::TensorList(t.slots).slice(2, 1) : at::TensorList();
}

void update(const Adam& adam, const Target& t) {
  at::_fused_adam_({t.p}, {t.g}, {t.slots[0]}, {t.slots[1]}, largest(adam, t), {t.number}, t.lr,
                   adam.beta1, adam.beta2, t.weight_decay, adam.epsilon, adam.amsgrad,
                   /*maximize=*/false);
}

void update(const AdamW& adam, const Target& t) {
  at::_fused_adamw_({t.p}, {t.g}, {t.slots[0]}, {t.slots[1]}, largest(adam, t), {t.number}, t.lr,
                    adam.beta1, adam.beta2, t.weight_decay, adam.epsilon, adam.amsgrad,
                    /*maximize=*/false);
}

void update(const Adagrad& adagrad, const Target& t) {
  at::_fused_adagrad_({t.p}, {t.g}, {t.slots[0]}, {t.number}, t.lr, adagrad.lr_decay,
                      t.weight_decay, adagrad.epsilon, /*maximize=*/false);
}

/// LibTorch has no fused RMSprop.
void update(const RmsProp& rms, const Target& t) {
  auto& [decayed, root] = t.scratch;
  if (t.weight_decay != 0) at::add_out(decayed, t.g, t.p, t.weight_decay);
  const torch::Tensor& g = t.weight_decay == 0 ? t.g : decayed;
  const torch::Tensor& mean_square = t.slots[0];
  mean_square.mul_(rms.decay).addcmul_(g, g, 1 - rms.decay);
  if (rms.centered) {
    t.slots[1].lerp_(g, 1 - rms.decay);
    at::addcmul_out(root, mean_square, t.slots[1], t.slots[1], -1);
  } else {
    root.copy_(mean_square);
  }
  if (rms.epsilon_inside_root)
    root.add_(rms.epsilon).sqrt_();
  else
    root.sqrt_().add_(rms.epsilon);
  if (rms.momentum == 0) {
    t.p.addcdiv_(g, root, -t.lr);
  } else {
    const torch::Tensor& momentum = t.slots[rms.centered ? 2 : 1];
    momentum.mul_(rms.momentum).addcdiv_(g, root, rms.rate_inside_momentum ? t.lr : 1);
    t.p.sub_(momentum, rms.rate_inside_momentum ? 1 : t.lr);
  }
}

}  // namespace

SliceUpdate::SliceUpdate(const arena::Layout& layout, arena::Slice range, torch::Tensor parameters,
                         torch::Tensor gradient, const Method& method)
    : layout_(layout),
      range_(range),
      parameters_(std::move(parameters)),
      gradient_(std::move(gradient)) {
  const torch::NoGradGuard no_grad;
  const auto allocate = [this] {
    return arena::allocate(parameters_.numel(), parameters_.scalar_type(), parameters_.device());
  };
  for (std::size_t i = 0; i < most_slots(method); ++i) slots_.push_back(allocate());
  if (method.moving_average) average_ = allocate().copy_(parameters_);
  number_ = torch::zeros({}, parameters_.options().dtype(torch::kFloat32));
  cut_blocks(method);
}

void SliceUpdate::cut_blocks(const Method& method) {
  const std::int64_t most = parameters_.is_cpu() ? kUpdateBlock : kAcceleratorBlock;
  std::int64_t begin = range_.begin;
  for (auto seat = layout_.seat_after(range_.begin); begin < range_.end;) {
    // A run of neighbours with the same terms.
    const Terms terms = terms_for(seat->name, method);
    std::int64_t end = end_of(layout_, seat);
    for (++seat;
         seat != layout_.seats.end() && end < range_.end && terms_for(seat->name, method) == terms;
         ++seat)
      end = end_of(layout_, seat);
    end = std::min(end, range_.end);
    const std::vector<SlotSpec> specs = slots_of(optimizer_of(method, terms.optimizer));
    for (std::int64_t n = 0; begin < end; begin += n) {
      n = std::min(most, end - begin);
      const auto cut = [&](const torch::Tensor& flat) {
        return flat.defined() ? flat.narrow(0, begin - range_.begin, n) : flat;
      };
      Block& block = blocks_.emplace_back(
          Block{terms, {begin, begin + n}, cut(parameters_), cut(gradient_), cut(average_), {}});
      for (std::size_t i = 0; i < specs.size(); ++i)
        block.slots.push_back(cut(slots_[i]).fill_(specs[i].initial));
    }
  }
  bool needs_scratch = false;
  if (method.async && method.async->compensation != 0) needs_scratch = true;
  for (std::size_t i = 0; i <= method.groups.size(); ++i)
    needs_scratch |= std::holds_alternative<RmsProp>(optimizer_of(method, i));
  if (!needs_scratch) return;
  for (torch::Tensor& scratch : scratch_)
    scratch = torch::empty({longest_block()}, parameters_.options());
}

std::int64_t SliceUpdate::longest_block() const {
  std::int64_t longest = 0;
  for (const Block& block : blocks_) longest = std::max(longest, block.range.size());
  return longest;
}

void SliceUpdate::apply(const Method& method, Moment moment, std::span<const char> reached) {
  const torch::NoGradGuard no_grad;
  for (std::span<const char>* flags : {&reached, &moment.selected})
    if (std::ranges::find(*flags, 0) == flags->end()) *flags = {};
  for (Block& block : blocks_) update_block(block, method, moment, reached);
}

void SliceUpdate::retarget(const torch::Tensor& from, const torch::Tensor& into,
                           const torch::Tensor& gradient, const torch::Tensor& then) {
  const std::vector<torch::Tensor> none(blocks_.size());
  const auto &reads = from.is_same(into) ? none : cuts_of(from), &writes = cuts_of(into),
             &applies = cuts_of(gradient), &before = then.defined() ? cuts_of(then) : none;
  parameters_ = into;
  gradient_ = gradient;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].from = reads[i];
    blocks_[i].parameter = writes[i];
    blocks_[i].gradient = applies[i];
    blocks_[i].then = before[i];
  }
}

/// Its part of each block. The same few flats come again and again.
const std::vector<torch::Tensor>& SliceUpdate::cuts_of(const torch::Tensor& flat) {
  std::vector<torch::Tensor>& cuts = cuts_[flat.const_data_ptr()];
  for (std::size_t i = cuts.size(); i < blocks_.size(); ++i)
    cuts.push_back(flat.narrow(0, blocks_[i].range.begin - range_.begin, blocks_[i].range.size()));
  return cuts;
}

/// Of a gradient g that was computed with other weights: adds lambda * g * g * (now - then).
void SliceUpdate::compensate(const Block& block, double lambda) {
  torch::Tensor room = scratch_[0].narrow(0, 0, block.range.size());
  at::sub_out(room, block.from.defined() ? block.from : block.parameter, block.then);
  room.mul_(block.gradient).mul_(block.gradient);
  block.gradient.add_(room, lambda);
}

void SliceUpdate::reset(const Method& method, std::span<const char> chosen) {
  const torch::NoGradGuard no_grad;
  for (const Block& block : blocks_) {
    const std::vector<SlotSpec> specs = slots_of(optimizer_of(method, block.terms.optimizer));
    for_runs(
        block, [&](std::size_t entry) { return chosen[entry] != 0; },
        [&](const Block& run, bool of_chosen) {
          if (!of_chosen) return;
          for (std::size_t i = 0; i < run.slots.size(); ++i)
            run.slots[i].fill_(i < specs.size() ? specs[i].initial : 0);
        });
  }
}

/// Calls `work(run, k)` for the runs of neighbours in `block` whose parameters all have the same
/// `k`, by `key(entry)`. The run is the block itself when all have.
template <class Key, class Work>
void SliceUpdate::for_runs(const Block& block, const Key& key, const Work& work) const {
  auto seat = layout_.seat_after(block.range.begin);
  for (std::int64_t begin = block.range.begin, end = begin; begin < block.range.end; begin = end) {
    const auto k = key(seat->entry);
    do end = std::min(end_of(layout_, seat++), block.range.end);
    while (end < block.range.end && key(seat->entry) == k);
    if (end - begin == block.range.size()) return work(block, k);
    const auto cut = [&](const torch::Tensor& flat) {
      return flat.defined() ? flat.narrow(0, begin - block.range.begin, end - begin) : flat;
    };
    Block run{block.terms,         {begin, end},       cut(block.parameter),
              cut(block.gradient), cut(block.average), {}};
    for (const torch::Tensor& slot : block.slots) run.slots.push_back(cut(slot));
    work(run, k);
  }
}

void SliceUpdate::update_block(Block& block, const Method& method, const Moment& moment,
                               std::span<const char> reached) {
  // Until the first update the caller may still have written the weights.
  if (block.average.defined() && moment.updates == 0)
    block.average.copy_(block.from.defined() ? block.from : block.parameter);
  if (moment.clip_factor != 1) block.gradient.mul_(moment.clip_factor);
  if (moment.compensation != 0) compensate(block, moment.compensation);
  if (block.from.defined()) block.parameter.copy_(block.from);
  const auto number = [&](std::size_t entry) -> std::int64_t {  // of this update; 0: none
    if (!reached.empty() && !reached[entry]) return 0;
    return (moment.numbers.empty() ? moment.updates : moment.numbers[entry]) + 1;
  };
  if (reached.empty() && moment.numbers.empty())
    optimize(block, method, moment.updates + 1);
  else
    for_runs(block, number, [&](const Block& run, std::int64_t n) {
      if (n > 0) optimize(run, method, n);
    });
  if (!block.average.defined()) return;
  const auto follow = [&](const Block& run, bool moves) {
    if (moves) run.average.lerp_(run.parameter, 1 - moment.average_keep);
  };
  if (moment.selected.empty())
    follow(block, true);
  else
    for_runs(
        block, [&](std::size_t entry) { return moment.selected[entry] != 0; }, follow);
}

void SliceUpdate::optimize(const Block& block, const Method& method, std::int64_t number) {
  const Optimizer& optimizer = optimizer_of(method, block.terms.optimizer);
  if (filled_ != number) number_.fill_(static_cast<double>(filled_ = number));
  std::array<torch::Tensor, 2> scratch;
  for (std::size_t i = 0; i < scratch.size(); ++i)
    if (scratch_[i].defined()) scratch[i] = scratch_[i].narrow(0, 0, block.range.size());
  const Target target{.p = block.parameter,
                      .g = block.gradient,
                      .slots = block.slots,
                      .lr = learning_rate(optimizer) * block.terms.lr_factor,
                      .weight_decay = block.terms.weight_decay.value_or(weight_decay(optimizer)),
                      .first = number == 1,
                      .number = number_,
                      .scratch = scratch};
  std::visit([&](const auto& kind) { update(kind, target); }, optimizer);
}

void SliceUpdate::prepare_swap() {
  if (!scratch_[0].defined()) scratch_[0] = torch::empty({longest_block()}, parameters_.options());
}

void SliceUpdate::swap_average() {
  const torch::NoGradGuard no_grad;
  for (Block& block : blocks_) {
    const torch::Tensor room = scratch_[0].narrow(0, 0, block.range.size());
    room.copy_(block.parameter);
    block.parameter.copy_(block.average);
    block.average.copy_(room);
  }
}

}  // namespace lockstep::optim
