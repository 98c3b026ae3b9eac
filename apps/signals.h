#pragma once

// SIGINT and SIGTERM ask a training to finish its step, save and end. The second one ends the
// program at once, with 128 + its number.

namespace lockstep::apps {

void watch_signals();

/// Has one come?
bool signalled();

}  // namespace lockstep::apps
