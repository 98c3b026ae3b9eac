#include "collective/thread_meeting.h"

#include <algorithm>

#include "device/accelerator.h"

namespace lockstep::collective {

ThreadMeeting::ThreadMeeting(int towers, DeviceKind kind, bool spins)
    : kind_(kind), barrier_(towers, spins), by_tower_(static_cast<std::size_t>(towers)) {}

std::size_t ThreadMeeting::meet_with(int tower, const Brought& mine) {
  PerTower& own = by_tower_[static_cast<std::size_t>(tower)];
  const std::size_t parity = own.meetings++ % 2;
  const Seconds begin = device::host_now(kind_);
  own.brought[parity] = mine;
  own.brought[parity].arrived = begin;
  barrier_.meet();
  Seconds last = begin;
  for (const PerTower& other : by_tower_) last = std::max(last, other.brought[parity].arrived);
  device::host_reaches(kind_, last);
  own.waited += device::host_now(kind_) - begin;
  return parity;
}

double ThreadMeeting::sum(int tower, std::span<const SumTerms> lists) {
  const std::size_t parity = meet_with(tower, {.lists = lists});
  double total = 0;
  for (std::size_t list = 0; list < lists.size(); ++list)
    for (const PerTower& other : by_tower_)
      for (const double term : other.brought[parity].lists[list]) total += term;
  return total;
}

std::vector<char> ThreadMeeting::any(int tower, std::span<const char> flags) {
  const std::size_t parity = meet_with(tower, {.flags = flags});
  std::vector<char> result;
  for (const PerTower& other : by_tower_) {
    const std::span<const char> theirs = other.brought[parity].flags;
    result.resize(std::max(result.size(), theirs.size()));
    for (std::size_t i = 0; i < theirs.size(); ++i)
      if (theirs[i]) result[i] = 1;
  }
  return result;
}

void ThreadMeeting::collect(int tower, std::span<const ArenaPart> mine,
                            std::span<const torch::Tensor> whole) {
  const torch::NoGradGuard no_grad;
  const std::size_t parity = meet_with(tower, {.whole = whole});
  const std::span<const torch::Tensor> arenas = by_tower_.front().brought[parity].whole;
  for (const ArenaPart& part : mine)
    arenas[part.arena].narrow(0, part.range.begin, part.range.size()).copy_(part.values);
  meet(tower);
}

std::vector<TensorList> ThreadMeeting::through_first(int tower, std::span<const TensorList> mine,
                                                     const ListWork& work) {
  const std::size_t parity = meet_with(tower, {.tensors = mine});
  std::size_t before = 0;  // lists of the towers before this one
  std::vector<TensorList> all;
  for (std::size_t i = 0; i < by_tower_.size(); ++i) {
    const std::span<const TensorList> theirs = by_tower_[i].brought[parity].tensors;
    if (tower == 0) all.insert(all.end(), theirs.begin(), theirs.end());
    if (static_cast<int>(i) < tower) before += theirs.size();
  }
  if (tower == 0) answer_ = work(all);
  meet(tower);
  const auto own = answer_.begin() + static_cast<std::ptrdiff_t>(before);
  std::vector<TensorList> result(own, own + static_cast<std::ptrdiff_t>(mine.size()));
  meet(tower);
  if (tower == 0) answer_.clear();
  return result;
}

void ThreadMeeting::reset() {
  barrier_.reset();
  for (PerTower& each : by_tower_) each.meetings = 0;  // an abort may have left them apart
}

}  // namespace lockstep::collective
