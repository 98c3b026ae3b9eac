#pragma once

// The meeting of towers that are threads of one process.

#include <lockstep/device.h>

#include <array>

#include "collective/barrier.h"
#include "collective/meeting.h"

namespace lockstep::collective {

/// Towers read what the others bring where it is; nothing is copied.
class ThreadMeeting : public Meeting {
 public:
  /// `spins`: see Barrier.
  ThreadMeeting(int towers, DeviceKind kind, bool spins = false);

  int towers() const override { return static_cast<int>(by_tower_.size()); }
  void meet(int tower) override { meet_with(tower, {}); }
  double sum(int tower, std::span<const SumTerms> lists) override;
  std::vector<char> any(int tower, std::span<const char> flags) override;
  void collect(int tower, std::span<const ArenaPart> mine,
               std::span<const torch::Tensor> whole) override;
  std::vector<TensorList> through_first(int tower, std::span<const TensorList> mine,
                                        const ListWork& work) override;
  void abort() noexcept override { barrier_.abort(); }
  bool aborted() const noexcept override { return barrier_.aborted(); }
  void reset() override;
  Seconds waited(int tower) const override {
    return by_tower_[static_cast<std::size_t>(tower)].waited;
  }

 private:
  /// What a tower brings to one meeting.
  struct Brought {
    std::span<const SumTerms> lists = {};
    std::span<const char> flags = {};
    std::span<const torch::Tensor> whole = {};
    std::span<const TensorList> tensors = {};
    Seconds arrived{};
  };

  /// Touched by its tower's thread only, but for what it publishes before a barrier. A tower can be
  /// one meeting ahead of the others, which may still read: two of each, for even and odd ones.
  struct PerTower {
    std::array<Brought, 2> brought;
    unsigned meetings = 0;
    Seconds waited{};
  };

  /// Meets; which of the two that all towers brought is this meeting's.
  std::size_t meet_with(int tower, const Brought& mine);

  const DeviceKind kind_;
  Barrier barrier_;
  std::vector<PerTower> by_tower_;
  std::vector<TensorList> answer_;  // the first tower's, between two meetings
};

}  // namespace lockstep::collective
