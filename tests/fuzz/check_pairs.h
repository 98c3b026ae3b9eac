#pragma once

// What must be true of the pairs of any file.

#include <lockstep/error.h>
#include <lockstep/text/pairs.h>

#include <cstdlib>
#include <optional>
#include <string>

/// Calls `read(sink)`. Aborts unless each pair is tidy and the report counts what was handed over;
/// gives the report, or nothing when the reader threw CorruptFile for `path`.
template <class Read>
std::optional<lockstep::text::PairReport> check_pairs(const std::string& path, const Read& read) {
  std::int64_t pairs = 0;
  const auto check = [](const std::string& text) {
    if (text.empty() || lockstep::text::tidy_text(text) != text) std::abort();
  };
  const lockstep::text::PairSink sink = [&](const lockstep::text::TextPair& pair) {
    check(pair.source);
    check(pair.target);
    ++pairs;
  };
  try {
    const lockstep::text::PairReport report = read(sink);
    if (report.pairs != pairs || report.examples.size() > 10) std::abort();
    return report;
  } catch (const lockstep::CorruptFile& error) {
    if (error.path != path) std::abort();
    return std::nullopt;
  }
}
