#pragma once

// Notes on the error stream.

#include <functional>
#include <string>

namespace lockstep::apps {

/// "note: text", as one line whichever threads write.
void tell_note(const std::string& text);

/// A function that tells of files that cannot be read, and `what` becomes of them: of the first
/// ten each, then how many there are. Nothing is told twice. Any thread may call it.
std::function<void(const std::string& problem)> broken_files(const std::string& what);

}  // namespace lockstep::apps
