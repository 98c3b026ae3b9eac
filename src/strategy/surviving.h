#pragma once

#include <lockstep/error.h>

#include <cstdint>
#include <exception>

namespace lockstep::strategy {

/// Calls `work`, and again when it has failed and go_on_without(error) has taken the device out;
/// else throws a TowerError that names the device. `step` is read when it fails.
template <class Work, class GoOn>
auto surviving(const char* stage, const std::int64_t& step, const GoOn& go_on_without,
               const Work& work) {
  for (;;) try {
      return work();
    } catch (const TowerError& error) {
      if (!go_on_without(error)) throw;
    } catch (const DeviceLost& lost) {
      const TowerError error(lost.device, step, -1, stage, std::current_exception());
      if (!go_on_without(error)) throw error;
    }
}

}  // namespace lockstep::strategy
