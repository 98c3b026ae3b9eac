#pragma once

// The meeting of towers that are threads of several processes, one a machine.

#include <lockstep/machines.h>

#include <array>
#include <memory>
#include <vector>

#include "base/letter.h"
#include "collective/thread_meeting.h"

namespace lockstep::collective {

/// Tags of what goes from machine to machine.
inline constexpr std::uint32_t kCollectTag = 1;    ///< parts of arenas, for saving
inline constexpr std::uint32_t kMoveTag = 2;       ///< between accelerators
inline constexpr std::uint32_t kNeighbourTag = 4;  ///< what machines keep of each other
inline constexpr std::uint32_t kSpreadTag = 5;     ///< buffers
inline constexpr std::uint32_t kReduceTag = 1000;  ///< and the number of the bucket
inline constexpr std::uint32_t kGatherTag = 2000000;

/// Towers of one machine meet as threads do; the first of them then trades letters with the other
/// machines, for all of them.
class MachineMeeting : public Meeting {
 public:
  /// Towers of all machines, by machine: how many there are. `machines` has as many.
  MachineMeeting(std::shared_ptr<Machines> machines, std::vector<int> towers, DeviceKind kind,
                 bool spins = false);

  int towers() const override { return towers_; }
  void meet(int tower) override;
  double sum(int tower, std::span<const SumTerms> lists) override;
  std::vector<char> any(int tower, std::span<const char> flags) override;
  /// Afterwards `whole` of the first tower of every machine is complete.
  void collect(int tower, std::span<const ArenaPart> mine,
               std::span<const torch::Tensor> whole) override;
  std::vector<TensorList> through_first(int tower, std::span<const TensorList> mine,
                                        const ListWork& work) override;
  void abort() noexcept override { inside_.abort(); }
  bool aborted() const noexcept override { return inside_.aborted(); }
  void reset() override;
  Seconds waited(int tower) const override;

  /// What happens in its life counts as time that `tower` has waited for others.
  class Waiting {
   public:
    Waiting(MachineMeeting& meeting, int tower);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    MachineMeeting& meeting_;
    const int tower_;
    const Seconds begin_;
  };

  /// Meets towers of this machine alone.
  void meet_inside(int tower) { inside_.meet(tower - first_); }
  bool leads(int tower) const { return tower == first_; }  ///< the first of this machine

  /// Meets; what every tower brings, by tower. Readable until the tower's next call.
  std::vector<base::LetterReader> trade(int tower, base::Letter mine);

 private:
  void trade_outside(std::size_t parity);
  void trade_parts(std::vector<base::LetterReader>& letters);

  const std::shared_ptr<Machines> machines_;
  const std::vector<int> by_machine_;  // towers
  const int first_, towers_;
  const DeviceKind kind_;
  ThreadMeeting inside_;
  // A tower can be one meeting ahead of the others, which may still read: two of each.
  std::array<std::vector<base::Letter>, 2> mine_;  // by tower of this machine
  std::array<std::vector<Bytes>, 2> theirs_;       // by machine
  std::vector<unsigned> meetings_;                 // by tower of this machine
  std::vector<Seconds> outside_;                   // by tower of this machine: waited for machines
  std::span<const torch::Tensor> whole_;           // the first tower's, while parts are collected
};

}  // namespace lockstep::collective
