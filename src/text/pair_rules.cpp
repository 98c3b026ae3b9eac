#include "text/pair_rules.h"

#include <lockstep/error.h>

#include <algorithm>
#include <filesystem>

#include "base/utf8.h"

namespace lockstep::text {
namespace {

constexpr std::size_t kMostExamples = 10;

/// Unicode's White_Space, but for the three no-break spaces (U+00A0, U+2007, U+202F).
bool is_space(char32_t code) {
  if (code == ' ' || (code >= '\t' && code <= '\r')) return true;
  if (code >= 0x2000 && code <= 0x200a) return code != 0x2007;
  return code == 0x85 || code == 0x1680 || code == 0x2028 || code == 0x2029 || code == 0x205f ||
         code == 0x3000;
}

bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7f && code <= 0x9f); }

}  // namespace

PairReport& PairReport::operator+=(const PairReport& other) {
  pairs += other.pairs;
  for (std::size_t fault = 0; fault < bad.size(); ++fault) bad[fault] += other.bad[fault];
  for (const std::string& example : other.examples)
    if (examples.size() < kMostExamples) examples.push_back(example);
  return *this;
}

std::optional<std::string> tidy_text(std::string_view text) {
  std::string tidy;
  tidy.reserve(text.size());
  bool space = false;
  while (!text.empty()) {
    const std::string_view from = text;
    const std::optional<char32_t> code = base::take_character(text);
    if (!code) return std::nullopt;
    if (is_space(*code)) {
      space = true;
    } else if (!is_control(*code)) {
      if (space && !tidy.empty()) tidy += ' ';
      space = false;
      tidy += from.substr(0, from.size() - text.size());
    }
  }
  return tidy;
}

namespace {

namespace fs = std::filesystem;

std::string expected_instead(PairFault fault) {
  switch (fault) {
    case PairFault::bad_utf8:
      return "valid UTF-8";
    case PairFault::empty_side:
      return "a text on both sides of the pair";
    case PairFault::missing_tab:
      return "a tab between source and target";
  }
  return "a pair";
}

}  // namespace

void PairRules::add(const Side& source, const Side& target) {
  std::optional<std::string> from = tidy_text(source.text);
  if (!from) return add_fault(PairFault::bad_utf8, source.place);
  std::optional<std::string> to = tidy_text(target.text);
  if (!to) return add_fault(PairFault::bad_utf8, target.place);
  if (from->empty()) return add_fault(PairFault::empty_side, source.place);
  if (to->empty()) return add_fault(PairFault::empty_side, target.place);
  sink_({std::move(*from), std::move(*to)});
  ++report_.pairs;
}

void PairRules::add_fault(PairFault fault, const Place& place) {
  const std::string file(place.file), number = std::to_string(place.number);
  if (on_bad_ == OnBadPair::refuse)
    throw CorruptFile(
        file, place.offset,
        expected_instead(fault) + " in " + (place.message ? "message " : "line ") + number);
  const auto kind = static_cast<std::size_t>(fault);
  ++report_.bad[kind];
  if (report_.examples.size() < kMostExamples)
    report_.examples.push_back(file + (place.message ? ": message " : ":") + number + ": " +
                               kPairFaults[kind]);
}

std::vector<std::string> pair_files(const std::string& path, const std::string& suffix) {
  std::error_code unknown;  // then reading it says what is wrong
  if (!fs::is_directory(path, unknown)) return {path};
  std::vector<std::string> files;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(path))
      if (entry.path().extension() == suffix && !entry.is_directory())
        files.push_back(entry.path().string());
  } catch (const fs::filesystem_error& error) {
    throw IoError(path, "list the folder", error.code().value());
  }
  if (files.empty())
    throw ConfigError(path + ": no *" + suffix + " file in this folder; name one that has some, " +
                      "or a file");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace lockstep::text
