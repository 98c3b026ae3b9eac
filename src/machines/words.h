#pragma once

// How trouble shows, in words that both kinds of machines use.

#include <lockstep/seconds.h>

#include <cmath>
#include <string>

namespace lockstep::machines {

inline constexpr const char* kClosed = "its connection was closed";
inline constexpr const char* kHasLeft = "it has ended its work, and others still wait for it";
inline constexpr const char* kCutOff = "this machine is cut off from the first";
inline constexpr const char* kRegrouped = "the transfer was of a group that is no more";

inline constexpr const char* kEnded = "this machine has left the group";

inline std::string describe_silence(Seconds limit) {
  return "it gave no sign of life for " + std::to_string(std::lround(limit.count())) + " s";
}

}  // namespace lockstep::machines
