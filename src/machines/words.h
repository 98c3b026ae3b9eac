#pragma once

// How trouble shows, in words that both kinds of machines use.

namespace lockstep::machines {

inline constexpr const char* kClosed = "its connection was closed";
inline constexpr const char* kHasLeft = "it has ended its work, and others still wait for it";
inline constexpr const char* kCutOff = "this machine is cut off from the first";
inline constexpr const char* kRegrouped = "the transfer was of a group that is no more";

}  // namespace lockstep::machines
