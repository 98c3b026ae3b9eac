#pragma once

#include <lockstep/error.h>

namespace lockstep::strategy {

/// Whether the weights are torn: some are of one step, some of another. They stay so until a state
/// is loaded.
class Torn {
 public:
  explicit operator bool() const { return torn_; }

  void require_whole() const {
    check(!torn_,
          "the weights were lost in an earlier failure: load a state, or make the towers anew");
  }

  void mark() { torn_ = true; }

  /// Calls `change`, which makes the weights whole. When it throws, they are torn.
  template <class Change>
  void until_done(const Change& change) {
    torn_ = true;
    change();
    torn_ = false;
  }

 private:
  bool torn_ = false;
};

}  // namespace lockstep::strategy
