#include "words.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace lockstep::apps {
namespace {

/// Optimal string alignment, three rows at a time: O(|a| |b|) time, O(|b|) memory.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before;
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = above;
    above = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string shown(const std::string& text, std::size_t most) {
  std::string result;
  for (const char letter : text) {
    if (result.size() >= most) return result + "...";
    const auto code = static_cast<unsigned char>(letter);
    if (code >= 0x20 && code != 0x7f) {
      result += letter;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", code);
      result += escaped;
    }
  }
  return result;
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 200;  // nothing of that length is near to a name
  if (word.size() > kLongest) return "";
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t found = distance(word, candidate);
    if (found >= least || found >= std::max(word.size(), candidate.size())) continue;
    least = found;
    best = candidate;
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > width)
      lines.push_back(word);
    else
      lines.back() += " " + word;
  }
  return lines;
}

}  // namespace lockstep::apps
