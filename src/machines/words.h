#pragma once

// How trouble shows, in words that both kinds of machines use.

#include <lockstep/seconds.h>

#include <cmath>
#include <string>

namespace lockstep::machines {

inline constexpr const char* kClosed = "connection closed";
inline constexpr const char* kHasLeft = "work ended while others still waited for it";
inline constexpr const char* kCutOff = "this machine is cut off from the first";
inline constexpr const char* kRegrouped = "the transfer was of a group that is no more";

inline constexpr const char* kNotThere =
    "not there in time: start all machines at about the same time";
inline constexpr const char* kEnded = "this machine has left the group";

inline std::string describe_silence(Seconds limit) {
  return "no sign of life for " + std::to_string(std::lround(limit.count())) + " s";
}

}  // namespace lockstep::machines
