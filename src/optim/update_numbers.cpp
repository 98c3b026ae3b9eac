#include "optim/update_numbers.h"

#include <algorithm>

namespace lockstep::optim {

void UpdateNumbers::count(std::int64_t updates, std::span<const char> reached) {
  if (numbers_.empty()) {
    if (std::ranges::find(reached, 0) == reached.end()) return;
    numbers_.assign(reached.size(), updates);
  }
  for (std::size_t i = 0; i < numbers_.size(); ++i) numbers_[i] += reached[i] != 0;
}

void UpdateNumbers::reset(std::int64_t updates, std::span<const char> chosen) {
  if (numbers_.empty()) numbers_.assign(chosen.size(), updates);
  for (std::size_t i = 0; i < numbers_.size(); ++i)
    if (chosen[i]) numbers_[i] = 0;
}

}  // namespace lockstep::optim
