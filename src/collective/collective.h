#pragma once

// How towers combine what each of them computed.
//
// All towers of a step call the same functions in the same order, each from its own thread; a call
// returns when what it promises holds for its tower. What a tower passes in must stay as it is
// until the tower's next call, and readable until every tower has left the step. Between two calls
// of `reduce` there is one of another function. Every function throws Aborted once `abort` was
// called.

#include <lockstep/report.h>
#include <torch/torch.h>

#include <span>
#include <stdexcept>
#include <vector>

#include "arena/arena.h"

namespace lockstep::collective {

/// Another tower failed; not an error of this one.
struct Aborted : std::runtime_error {
  Aborted() : std::runtime_error("the step was ended by another tower") {}
};

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

/// Terms of a sum over towers.
using Terms = std::span<const double>;

class Collective {
 public:
  virtual ~Collective() = default;

  /// Says that bucket `bucket` of `mine` is complete: a collective that works ahead begins with it,
  /// in the order in which the last tower says so. At most once a step and bucket; from any thread,
  /// on the stream that computed `mine`.
  virtual void post(int /*tower*/, std::size_t /*bucket*/, std::span<const ShardSum> /*mine*/) {}

  /// Sums every tower's ShardSums over this tower's slices, one a bucket, in tree order, and
  /// divides by `divisor`.
  virtual void reduce(int tower, std::span<const ShardSum> mine, double divisor,
                      std::span<GradientSlice> slices) = 0;

  /// Afterwards this tower sees the parameters that the others updated.
  virtual void gather(int tower) = 0;

  /// The sum of all towers' terms, one by one: list by list, and inside a list in tower order. So
  /// it does not matter who brought which part of a list. All towers bring as many lists.
  virtual double sum(int tower, std::span<const Terms> lists) = 0;

  /// Ends the step: every call that waits, and every later one, throws Aborted. Any thread.
  virtual void abort() noexcept = 0;
  virtual bool aborted() const noexcept = 0;

  /// Makes ready for the next step. When no tower is in a call.
  virtual void reset() = 0;

  /// How long this tower has waited for others, in all.
  virtual Seconds waited(int tower) const = 0;
};

}  // namespace lockstep::collective
