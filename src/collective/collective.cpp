#include "collective/collective.h"

#include <utility>

namespace lockstep::collective {

Collective::Collective(std::unique_ptr<Meeting> meeting)
    : meeting_(std::move(meeting)), reached_(static_cast<std::size_t>(meeting_->towers())) {}

std::vector<char> Collective::meet_with(int tower, std::span<const ShardSum> mine) {
  std::vector<char>& own = reached_[static_cast<std::size_t>(tower)];
  own.clear();
  for (const ShardSum& sum : mine) {
    own.resize(sum.gradients.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      if (sum.gradients[i].defined()) own[i] = 1;
  }
  return meeting_->any(tower, own);
}

}  // namespace lockstep::collective
