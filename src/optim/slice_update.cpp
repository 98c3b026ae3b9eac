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

struct SlotSpec {
  const char* name;
  double initial = 0;
};

std::vector<SlotSpec> slot_specs(const Sgd& sgd) {
  if (sgd.momentum == 0) return {};
  return {{"momentum"}};
}

std::vector<SlotSpec> slot_specs(const Adam&) { return {{"exp_avg"}, {"exp_avg_sq"}}; }
std::vector<SlotSpec> slot_specs(const AdamW&) { return {{"exp_avg"}, {"exp_avg_sq"}}; }

std::vector<SlotSpec> slot_specs(const RmsProp& rms) {
  std::vector<SlotSpec> specs = {{"mean_square", rms.initial_mean_square}};
  if (rms.centered) specs.push_back({"mean_gradient"});
  if (rms.momentum > 0) specs.push_back({"momentum"});
  return specs;
}

std::vector<SlotSpec> slot_specs(const Adagrad& adagrad) {
  return {{"sum", adagrad.initial_accumulator}};
}

/// Where a seat, and the gap after it, ends.
std::int64_t end_of(const arena::Layout& layout, std::vector<arena::Seat>::const_iterator seat) {
  return std::next(seat) == layout.seats.end() ? layout.size : std::next(seat)->offset;
}

/// What the functions below update, in place.
struct Target {
  const torch::Tensor& p;
  const torch::Tensor& g;
  const std::vector<torch::Tensor>& slots;
  double lr;
  double weight_decay;
  const torch::Tensor& number;            ///< of this update, from 1
  std::array<torch::Tensor, 2>& scratch;  ///< as long as p
};

void update(const Sgd& sgd, const Target& t) {
  at::_fused_sgd_({t.p}, {t.g}, t.slots, t.weight_decay, sgd.momentum, t.lr, /*dampening=*/0,
                  sgd.nesterov, /*maximize=*/false, /*is_first_step=*/false);
}

void update(const Adam& adam, const Target& t) {
  at::_fused_adam_({t.p}, {t.g}, {t.slots[0]}, {t.slots[1]}, {}, {t.number}, t.lr, adam.beta1,
                   adam.beta2, t.weight_decay, adam.epsilon, /*amsgrad=*/false,
                   /*maximize=*/false);
}

void update(const AdamW& adam, const Target& t) {
  at::_fused_adamw_({t.p}, {t.g}, {t.slots[0]}, {t.slots[1]}, {}, {t.number}, t.lr, adam.beta1,
                    adam.beta2, t.weight_decay, adam.epsilon, /*amsgrad=*/false,
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
    const torch::Tensor& momentum = t.slots.back();
    momentum.mul_(rms.momentum).addcdiv_(g, root, rms.rate_inside_momentum ? t.lr : 1);
    t.p.sub_(momentum, rms.rate_inside_momentum ? 1 : t.lr);
  }
}

}  // namespace

SliceUpdate::SliceUpdate(const arena::Layout& layout, arena::Slice range, torch::Tensor parameters,
                         torch::Tensor gradient, const Plan& plan)
    : layout_(layout),
      range_(range),
      parameters_(std::move(parameters)),
      gradient_(std::move(gradient)) {
  const torch::NoGradGuard no_grad;
  const auto allocate = [this] {
    return arena::allocate(parameters_.numel(), parameters_.scalar_type(), parameters_.device());
  };
  for (const SlotSpec& spec :
       std::visit([](const auto& kind) { return slot_specs(kind); }, plan.optimizer))
    slots_.push_back({spec.name, allocate().fill_(spec.initial)});
  if (plan.averaged) average_ = allocate().copy_(parameters_);
  number_ = torch::zeros({}, parameters_.options().dtype(torch::kFloat32));
  cut_blocks(plan);
}

void SliceUpdate::cut_blocks(const Plan& plan) {
  const std::int64_t most = parameters_.is_cpu() ? kUpdateBlock : kAcceleratorBlock;
  std::int64_t begin = range_.begin;
  for (auto seat = layout_.seat_after(range_.begin); begin < range_.end;) {
    // A run of neighbours with the same terms.
    const Terms terms = terms_for(seat->name, plan.optimizer, plan.rules);
    std::int64_t end = end_of(layout_, seat);
    for (++seat; seat != layout_.seats.end() && end < range_.end &&
                 terms_for(seat->name, plan.optimizer, plan.rules) == terms;
         ++seat)
      end = end_of(layout_, seat);
    end = std::min(end, range_.end);
    for (std::int64_t n = 0; begin < end; begin += n) {
      n = std::min(most, end - begin);
      const auto cut = [&](const torch::Tensor& flat) {
        return flat.defined() ? flat.narrow(0, begin - range_.begin, n) : flat;
      };
      Block& block = blocks_.emplace_back(
          Block{terms, {begin, begin + n}, cut(parameters_), cut(gradient_), cut(average_), {}});
      for (const Slot& slot : slots_) block.slots.push_back(cut(slot.value));
    }
  }
  if (!std::holds_alternative<RmsProp>(plan.optimizer)) return;
  for (torch::Tensor& scratch : scratch_)
    scratch = torch::empty({longest_block()}, parameters_.options());
}

std::int64_t SliceUpdate::longest_block() const {
  std::int64_t longest = 0;
  for (const Block& block : blocks_) longest = std::max(longest, block.range.size());
  return longest;
}

void SliceUpdate::apply(const Optimizer& optimizer, const Moment& moment,
                        std::span<const char> reached) {
  const torch::NoGradGuard no_grad;
  number_.fill_(static_cast<double>(moment.updates + 1));
  if (std::ranges::find(reached, 0) == reached.end()) reached = {};
  for (Block& block : blocks_) update_block(block, optimizer, moment, reached);
}

/// The parts of a block whose parameters have a gradient.
std::vector<SliceUpdate::Block> SliceUpdate::reached_parts(const Block& block,
                                                           std::span<const char> reached) const {
  std::vector<Block> parts;
  auto seat = layout_.seat_after(block.range.begin);
  for (std::int64_t begin = block.range.begin, end = 0; begin < block.range.end; begin = end) {
    end = std::min(end_of(layout_, seat), block.range.end);
    const std::size_t entry = seat++->entry;
    if (!reached[entry]) continue;
    const auto cut = [&](const torch::Tensor& flat) {
      return flat.narrow(0, begin - block.range.begin, end - begin);
    };
    Block& part = parts.emplace_back(
        Block{block.terms, {begin, end}, cut(block.parameter), cut(block.gradient)});
    for (const torch::Tensor& slot : block.slots) part.slots.push_back(cut(slot));
  }
  return parts;
}

void SliceUpdate::update_block(Block& block, const Optimizer& optimizer, const Moment& moment,
                               std::span<const char> reached) {
  // Until the first update the caller may still have written the weights.
  if (block.average.defined() && moment.updates == 0) block.average.copy_(block.parameter);
  if (moment.clip_factor != 1) block.gradient.mul_(moment.clip_factor);
  if (reached.empty())
    optimize(block, optimizer);
  else
    for (const Block& part : reached_parts(block, reached)) optimize(part, optimizer);
  if (block.average.defined()) block.average.lerp_(block.parameter, 1 - moment.average_keep);
}

void SliceUpdate::optimize(const Block& block, const Optimizer& optimizer) {
  std::array<torch::Tensor, 2> scratch;
  for (std::size_t i = 0; i < scratch.size(); ++i)
    if (scratch_[i].defined()) scratch[i] = scratch_[i].narrow(0, 0, block.range.size());
  const Target target{.p = block.parameter,
                      .g = block.gradient,
                      .slots = block.slots,
                      .lr = learning_rate(optimizer) * block.terms.lr_factor,
                      .weight_decay = block.terms.weight_decay,
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
