#pragma once

// Where towers meet on the host, and exchange what is small or seldom.
//
// All towers call the same functions in the same order, each from its own thread. What a tower
// passes in must stay as it is until its next call has returned, or until every tower has left the
// step.

#include <lockstep/seconds.h>
#include <torch/torch.h>

#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "arena/arena.h"

namespace lockstep::collective {

/// Another tower failed; not an error of this one.
struct Aborted : std::runtime_error {
  Aborted() : std::runtime_error("the step was ended by another tower") {}
};

/// Terms of a sum over towers.
using SumTerms = std::span<const double>;

/// Tensors on the CPU that belong together: the rows of one shard.
using TensorList = std::vector<torch::Tensor>;

/// A flat part of an arena, where the tower has it.
struct ArenaPart {
  std::size_t arena = 0;
  arena::Slice range;
  torch::Tensor values;  ///< range.size() elements
};

/// The one way by which towers learn on the host what others have: no tower reads the memory of
/// another by itself. Towers are numbered through all processes; each process calls for its own.
class Meeting {
 public:
  virtual ~Meeting() = default;

  virtual int towers() const = 0;  ///< of all processes

  /// Returns when all towers are here. Throws Aborted if `abort` came first; so do the next four.
  virtual void meet(int tower) = 0;

  /// Meets; the sum of all towers' terms, one by one: list by list, and inside a list in tower
  /// order. So it does not matter who brought which part of a list. All bring as many lists.
  virtual double sum(int tower, std::span<const SumTerms> lists) = 0;

  /// Meets; by flag, whether a tower has set it. A flag beyond the end of a list is not set.
  virtual std::vector<char> any(int tower, std::span<const char> flags) = 0;

  /// Meets; afterwards `whole`, flat arenas on the CPU, has the parts of all towers. Only the first
  /// tower's `whole` is written, in place.
  virtual void collect(int tower, std::span<const ArenaPart> mine,
                       std::span<const torch::Tensor> whole) = 0;

  using ListWork = std::function<std::vector<TensorList>(const std::vector<TensorList>& all)>;

  /// Meets; the first tower calls `work` with the lists of all towers, in tower order. It returns
  /// as many, and each tower gets back those in the place of its own.
  virtual std::vector<TensorList> through_first(int tower, std::span<const TensorList> mine,
                                                const ListWork& work) = 0;

  /// Frees those who wait: every call throws Aborted until `reset`. Any thread.
  virtual void abort() noexcept = 0;
  virtual bool aborted() const noexcept = 0;
  virtual void reset() = 0;  ///< when no tower is in a call

  /// How long this tower has waited for others, in all.
  virtual Seconds waited(int tower) const = 0;
};

}  // namespace lockstep::collective
