#pragma once

// How towers combine what each of them computed.
//
// All towers of a step call the same functions in the same order, each from its own thread; a call
// returns when what it promises holds for its tower. What a tower passes in must stay as it is
// until the tower's next call, and readable until every tower has left the step. Between two calls
// of `reduce` there is one of another function. Every function throws Aborted once `abort` was
// called.

#include <memory>
#include <span>
#include <vector>

#include "arena/arena.h"
#include "collective/meeting.h"

namespace lockstep::collective {

/// The gradient sum of a subtree of shards that begins with shard `first`: a tensor for each
/// trainable parameter, in the parameter's own memory order; undefined stands for zero.
struct ShardSum {
  int first = 0;
  std::vector<torch::Tensor> gradients;
};

/// One tower's slice of one bucket, and what `reduce` leaves there.
struct GradientSlice {
  const arena::Layout* layout = nullptr;
  arena::Slice range;
  torch::Tensor gradient;       ///< flat, range.size() elements, gaps zero
  std::vector<double> squares;  ///< sum of squares of each block of the slice
};

class Collective {
 public:
  explicit Collective(std::unique_ptr<Meeting> meeting);
  virtual ~Collective() = default;

  /// Says that bucket `bucket` of `mine` is complete: a collective that works ahead can begin
  /// with it when all towers have said so. At most once a step and bucket; from any thread, on the
  /// stream that computed `mine`.
  virtual void post(int /*tower*/, std::size_t /*bucket*/, std::span<const ShardSum> /*mine*/) {}

  /// Sums every tower's ShardSums over this tower's slices, one a bucket, in tree order, and
  /// divides by `divisor`. Returns, by parameter, whether any shard has a gradient for it; empty
  /// when nobody brings a ShardSum.
  virtual std::vector<char> reduce(int tower, std::span<const ShardSum> mine, double divisor,
                                   std::span<GradientSlice> slices) = 0;

  /// Instead of `reduce`, when the step is not to be applied: what was posted is of no use.
  virtual void skip(int /*tower*/, std::span<const ShardSum> /*mine*/) {}

  /// Says that this tower has updated its slice of bucket `bucket`, after `reduce` and before
  /// `gather`: a collective that works ahead can begin to send it. At most once before each gather.
  virtual void updated(int /*tower*/, std::size_t /*bucket*/) {}

  /// Afterwards this tower sees the parameters that the others updated.
  virtual void gather(int tower) = 0;

  /// The sum of all towers' terms, see Meeting.
  virtual double sum(int tower, std::span<const SumTerms> lists) {
    return meeting_->sum(tower, lists);
  }

  /// Puts arenas together, for saving: each tower brings one part of each of its slices, and
  /// afterwards the first tower's `whole`, flat on the CPU, by arena, is complete; what the others
  /// pass as `whole` is left alone. Writes `whole` in place.
  void collect(int tower, std::span<const ArenaPart> mine, std::span<const torch::Tensor> whole) {
    meeting_->collect(tower, mine, whole);
  }

  /// See Meeting.
  std::vector<TensorList> through_first(int tower, std::span<const TensorList> mine,
                                        const Meeting::ListWork& work) {
    return meeting_->through_first(tower, mine, work);
  }

  /// Ends the step: every call that waits, and every later one, throws Aborted. Any thread.
  virtual void abort() noexcept { meeting_->abort(); }
  bool aborted() const noexcept { return meeting_->aborted(); }

  /// Makes ready for the next step. When no tower is in a call.
  virtual void reset() { meeting_->reset(); }

  /// How long this tower has waited for others, in all.
  Seconds waited(int tower) const { return meeting_->waited(tower); }

 protected:
  int towers() const { return meeting_->towers(); }
  void meet(int tower) { meeting_->meet(tower); }
  Meeting& meeting() { return *meeting_; }

  /// Meets; what `reduce` returns.
  std::vector<char> meet_with(int tower, std::span<const ShardSum> mine);

 private:
  const std::unique_ptr<Meeting> meeting_;
  std::vector<std::vector<char>> reached_;  // by tower, what it brought last
};

}  // namespace lockstep::collective
