#pragma once

// Text for messages: what was found, shown safely, and the nearest of the valid names.

#include <string>
#include <vector>

namespace lockstep::apps {

/// `text` for a message: control characters as \xNN, and at most about `most` characters.
std::string shown(const std::string& text, std::size_t most = 80);

/// The candidate with the fewest letters inserted, left out, replaced or swapped with a neighbour
/// (the optimal string alignment distance); empty when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// "; did you mean 'adam'?", or nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

/// "a, b, c"
std::string listed(const std::vector<std::string>& words);

/// `text` in lines of at most `width`, broken at spaces; a longer word stays whole.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

}  // namespace lockstep::apps
