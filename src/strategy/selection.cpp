#include "strategy/selection.h"

#include <lockstep/error.h>

#include <algorithm>

#include "optim/rules.h"

namespace lockstep::strategy {

std::vector<char> matching(const std::string& what, const std::string& pattern,
                           const ParameterMap& map) {
  std::vector<std::string> names;
  for (const arena::Seat* seat : map.seats) names.push_back(seat->name);
  return optim::matching(what, pattern, names);
}

std::vector<char> Selection::of(const std::string& update, std::vector<char> trainable,
                                const ParameterMap& map) {
  std::vector<char> selected = std::move(trainable);
  std::vector<char>& meant = matches_[update];
  if (meant.empty())
    for (const arena::Seat* seat : map.seats) meant.push_back(optim::matches(update, seat->name));
  for (std::size_t i = 0; i < selected.size(); ++i) selected[i] = selected[i] && meant[i];
  if (std::ranges::find(selected, 1) == selected.end())
    throw ConfigError("update = '" + update +
                      "' matches no trainable parameter; the model's first is '" +
                      map.seats.front()->name + "'.");
  return selected;
}

}  // namespace lockstep::strategy
