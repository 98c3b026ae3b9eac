#pragma once

namespace lockstep::apps {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUserError = 2;    ///< the user can put it right
inline constexpr int kMachineLost = 4;  ///< and those who are left did not go on
inline constexpr int kStopped = 3;      ///< by SIGINT or SIGTERM, and saved: start again to go on

}  // namespace lockstep::apps
