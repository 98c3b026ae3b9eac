#pragma once

#include <compare>
#include <cstddef>

namespace lockstep::detail {

/// The number of a tower's thread, replica and model. It stays when towers are numbered anew.
struct Place {
  int value = 0;
  std::size_t index() const { return static_cast<std::size_t>(value); }
  friend auto operator<=>(Place, Place) = default;
};

}  // namespace lockstep::detail
