#include "collective/thread_meeting.h"

#include <algorithm>

#include "device/accelerator.h"

namespace lockstep::collective {

ThreadMeeting::ThreadMeeting(int towers, DeviceKind kind)
    : kind_(kind), barrier_(towers), posts_(static_cast<std::size_t>(towers)) {}

std::size_t ThreadMeeting::meet_with(int tower, const Brought& mine) {
  Post& post = posts_[static_cast<std::size_t>(tower)];
  const std::size_t parity = post.meetings++ % 2;
  const Seconds begin = device::host_now(kind_);
  post.brought[parity] = mine;
  post.brought[parity].arrived = begin;
  barrier_.meet();
  Seconds last = begin;
  for (const Post& other : posts_) last = std::max(last, other.brought[parity].arrived);
  device::host_reaches(kind_, last);
  post.waited += device::host_now(kind_) - begin;
  return parity;
}

double ThreadMeeting::sum(int tower, std::span<const SumTerms> lists) {
  const std::size_t parity = meet_with(tower, {.lists = lists});
  double total = 0;
  for (std::size_t list = 0; list < lists.size(); ++list)
    for (const Post& other : posts_)
      for (const double term : other.brought[parity].lists[list]) total += term;
  return total;
}

std::vector<char> ThreadMeeting::any(int tower, std::span<const char> flags) {
  const std::size_t parity = meet_with(tower, {.flags = flags});
  std::vector<char> result;
  for (const Post& other : posts_) {
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
  const std::span<const torch::Tensor> arenas = posts_.front().brought[parity].whole;
  for (const ArenaPart& part : mine)
    arenas[part.arena].narrow(0, part.range.begin, part.range.size()).copy_(part.values);
  meet(tower);
}

void ThreadMeeting::reset() {
  barrier_.reset();
  for (Post& post : posts_) post.meetings = 0;  // an abort may have left them apart
}

}  // namespace lockstep::collective
