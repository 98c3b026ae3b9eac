#include "collective/exchange.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <lockstep/error.h>

#include <algorithm>
#include <utility>

#include "collective/block_squares.h"
#include "device/accelerator.h"

namespace lockstep::collective {

using device::order;
namespace {

/// Calls f(seat, begin, end) for every seat's part of [range.begin, range.end).
template <class F>
void for_each_run(const arena::Layout& layout, arena::Slice range, const F& f) {
  for (auto seat = layout.seat_after(range.begin);
       seat != layout.seats.end() && seat->offset < range.end; ++seat)
    f(*seat, std::max(seat->offset, range.begin), std::min(seat->offset + seat->numel, range.end));
}

std::vector<std::size_t> towers_of(int process, const std::vector<Party>& parties) {
  std::vector<std::size_t> towers;
  for (std::size_t tower = 0; tower < parties.size(); ++tower)
    if (parties[tower].process == process) towers.push_back(tower);
  return towers;
}

/// A parameter that no tower has a gradient for counts as +0.
void zero_unreached(const GradientSlice& slice, const std::vector<char>& reached) {
  for_each_run(*slice.layout, slice.range,
               [&](const arena::Seat& seat, std::int64_t begin, std::int64_t end) {
                 if (seat.entry >= reached.size() || !reached[seat.entry])
                   slice.gradient.narrow(0, begin - slice.range.begin, end - begin).zero_();
               });
}

}  // namespace

Exchange::Exchange(std::vector<Party> parties, ExchangeShape shape,
                   std::unique_ptr<Meeting> meeting, std::unique_ptr<Transport> transport)
    : Collective(std::move(meeting)),
      parties_(std::move(parties)),
      shape_(std::move(shape)),
      local_(towers_of(shape_.process, parties_)),
      transport_(std::move(transport)),
      plan_(make_plan(parties_, shape_)),
      ready_(parties_.size()) {
  check(towers() == static_cast<int>(parties_.size()),
        "an exchange and its meeting are of the same towers");
  const c10::Stream none(c10::Stream::DEFAULT, c10::Device(c10::kCPU));
  inside_.assign(parties_.size(), none);
  across_.assign(parties_.size(), none);
  for (const std::size_t tower : local_)
    for (auto* streams : {&inside_, &across_}) {
      const Device& device = parties_[tower].device;
      (*streams)[tower] = device::new_stream(device);
      order(device::current_stream(device), (*streams)[tower]);  // the plan's memory is ready
    }
  for (auto& events : ready_) events.resize(shape_.buckets.size());
  Exchange::reset();
}

/// Its memory goes back to the compute streams: nothing may be at work there any more.
Exchange::~Exchange() {
  for (const auto* streams : {&inside_, &across_})
    for (const std::size_t tower : local_) try {
        (*streams)[tower].synchronize();
      } catch (...) {  // the device is gone, and its memory with it
      }
}

void Exchange::reset() {
  Collective::reset();
  fresh_.assign(parties_.size(), true);
  for (auto& events : ready_)
    for (auto& event : events) event.reset();
  posts_.assign(shape_.buckets.size(), 0);
  enqueued_ = 0;
  gathering_ = 0;
}

void Exchange::abort() noexcept {
  Collective::abort();
  transport_->abort();
}

void Exchange::post(int tower, std::size_t bucket, std::span<const ShardSum> mine) {
  if (aborted()) throw Aborted();
  const auto at = static_cast<std::size_t>(tower);
  if (std::exchange(fresh_[at], false)) join(tower);  // after what a step that failed has left
  flatten(tower, bucket, mine);
  const c10::Stream compute = device::current_stream(parties_[at].device);
  const std::scoped_lock lock(mutex_);
  if (aborted()) throw Aborted();
  ready_[at][bucket] = std::make_unique<c10::Event>(compute.device_type());
  ready_[at][bucket]->record(compute);
  if (++posts_[bucket] == local_.size()) enqueue_ready(bucket);
}

/// All local towers have posted `bucket`. Processes must enqueue what crosses them in one order,
/// which is that of backward as a rule; inside of one process any will do.
void Exchange::enqueue_ready(std::size_t bucket) {
  if (local_.size() == parties_.size()) return enqueue(bucket);
  if (!transport_->waits()) enqueue_in_order();
}

/// As many buckets as are complete, from the last to the first.
void Exchange::enqueue_in_order() {
  for (; enqueued_ < posts_.size(); ++enqueued_) {
    const std::size_t next = posts_.size() - 1 - enqueued_;
    if (posts_[next] < local_.size()) return;
    enqueue(next);
  }
}

/// Copies the gradients of a bucket from where autograd left them into the tower's gradient arenas.
void Exchange::flatten(int tower, std::size_t bucket, std::span<const ShardSum> mine) {
  const torch::NoGradGuard no_grad;
  const auto& [arena, range] = shape_.buckets[bucket];
  for (const ExchangePlan::Root& root : plan_.roots[static_cast<std::size_t>(tower)]) {
    const auto sum = std::find_if(mine.begin(), mine.end(),
                                  [&](const ShardSum& each) { return each.first == root.shard; });
    for_each_run(shape_.layouts[arena], range,
                 [&](const arena::Seat& seat, std::int64_t begin, std::int64_t end) {
                   const torch::Tensor room = root.arenas[arena].narrow(0, begin, end - begin);
                   const bool there = sum != mine.end() && sum->gradients[seat.entry].defined();
                   if (there)
                     room.copy_(sum->gradients[seat.entry]
                                    .as_strided({seat.numel}, {1})
                                    .narrow(0, begin - seat.offset, end - begin));
                   else
                     room.fill_(-0.0);
                 });
  }
}

/// Enqueues the exchange of one bucket on all local towers. While the owners take in one pack, the
/// agents sum the next.
void Exchange::enqueue(std::size_t bucket) {
  // Not before: a tower may be many buckets ahead of the others.
  for (const std::size_t tower : local_) ready_[tower][bucket]->block(inside_[tower]);
  for (const PackPlan& pack : plan_.buckets[bucket].packs) {
    if (shape_.reduction == Reduction::fast && transport_->sum(pack.sums, inside_)) continue;
    transport_->move(pack.to_agents, inside_);
    enqueue_sums(pack.inside, inside_);
    if (pack.to_owners.empty()) {
      enqueue_sums(pack.across, inside_);
      continue;
    }
    for (const std::size_t tower : local_) order(inside_[tower], across_[tower]);
    transport_->move(pack.to_owners, across_);
    enqueue_sums(pack.across, across_);
  }
}

void Exchange::enqueue_sums(const std::vector<Addition>& additions,
                            const std::vector<c10::Stream>& streams) {
  const torch::NoGradGuard no_grad;
  for (const Addition& addition : additions) {
    // Leaves the thread's own device its current one.
    const c10::Stream& stream = streams[static_cast<std::size_t>(addition.tower)];
    const c10::MultiStreamGuard guard(c10::ArrayRef<c10::Stream>{stream});
    torch::Tensor into = addition.into;
    into.add_(addition.from);
  }
}

/// What this tower computes from now on comes after its part of the exchange.
void Exchange::join(int tower) {
  const auto at = static_cast<std::size_t>(tower);
  const c10::Stream compute = device::current_stream(parties_[at].device);
  order(inside_[at], compute);
  order(across_[at], compute);
}

/// All buckets that the tower has not posted yet.
void Exchange::post_rest(int tower, std::span<const ShardSum> mine) {
  for (std::size_t bucket = 0; bucket < shape_.buckets.size(); ++bucket)
    if (!ready_[static_cast<std::size_t>(tower)][bucket]) post(tower, bucket, mine);
  if (local_.size() == parties_.size()) return;
  const std::scoped_lock lock(mutex_);
  if (aborted()) throw Aborted();
  enqueue_in_order();
}

/// What one process has begun, the others must take part in.
void Exchange::skip(int tower, std::span<const ShardSum> mine) {
  if (local_.size() == parties_.size()) return;
  const torch::NoGradGuard no_grad;
  post_rest(tower, mine);
  meet(tower);
  join(tower);
}

std::vector<char> Exchange::reduce(int tower, std::span<const ShardSum> mine, double divisor,
                                   std::span<GradientSlice> slices) {
  const torch::NoGradGuard no_grad;
  const auto at = static_cast<std::size_t>(tower);
  post_rest(tower, mine);
  std::vector<char> reached = meet_with(tower, mine);  // all of it is enqueued
  transport_->check();
  join(tower);
  std::vector<torch::Tensor> squares;
  for (std::size_t bucket = 0; bucket < slices.size(); ++bucket) {
    at::div_out(slices[bucket].gradient, plan_.sums[at][bucket],
                torch::scalar_tensor(divisor, torch::kFloat64));
    zero_unreached(slices[bucket], reached);
    squares.push_back(block_squares(slices[bucket].gradient));
  }
  const torch::Tensor all = torch::cat(squares).cpu();
  const double* next = all.const_data_ptr<double>();
  for (GradientSlice& slice : slices) {
    std::copy_n(next, slice.squares.size(), slice.squares.begin());
    next += slice.squares.size();
  }
  return reached;
}

void Exchange::gather(int tower) {
  const auto at = static_cast<std::size_t>(tower);
  {
    const std::scoped_lock lock(mutex_);
    if (aborted()) throw Aborted();
    order(device::current_stream(parties_[at].device), inside_[at]);
    if (++gathering_ == local_.size()) {
      transport_->move(plan_.gather_across, inside_);
      transport_->move(plan_.gather_inside, inside_);
      gathering_ = 0;  // outside a step there may be more
    }
  }
  meet(tower);
  transport_->check();
  join(tower);
}

}  // namespace lockstep::collective
