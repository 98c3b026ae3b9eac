#include "collective/meeting.h"

#include <algorithm>

#include "device/accelerator.h"

namespace lockstep::collective {

Meeting::Meeting(int towers, DeviceKind kind)
    : kind_(kind), barrier_(towers), posts_(static_cast<std::size_t>(towers)) {}

void Meeting::meet(int tower) {
  Post& post = posts_[static_cast<std::size_t>(tower)];
  const unsigned parity = post.meetings++ % 2;
  const Seconds begin = post.arrived[parity] = device::host_now(kind_);
  barrier_.meet();
  Seconds last = begin;
  for (const Post& other : posts_) last = std::max(last, other.arrived[parity]);
  device::host_reaches(kind_, last);
  post.waited += device::host_now(kind_) - begin;
}

double Meeting::sum(int tower, std::span<const Terms> lists) {
  Post& post = posts_[static_cast<std::size_t>(tower)];
  const unsigned parity = post.sums++ % 2;
  post.lists[parity] = lists;
  meet(tower);
  double total = 0;
  for (std::size_t list = 0; list < lists.size(); ++list)
    for (const Post& other : posts_)
      for (const double term : other.lists[parity][list]) total += term;
  return total;
}

void Meeting::reset() {
  barrier_.reset();
  for (Post& post : posts_) post.sums = post.meetings = 0;  // an abort may have left them apart
}

}  // namespace lockstep::collective
