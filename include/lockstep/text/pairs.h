#pragma once

// Pairs of texts: a question and its answer, a sentence and its translation. Readers go through
// their files once and hand over one pair after the other; nothing is kept. All of them throw
// IoError for what cannot be read, CorruptFile for a file of another kind (also after pairs were
// handed over), and what the sink throws.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::text {

/// Valid UTF-8 without control characters; runs of white space are one space, none at the ends.
/// No-break spaces stay. Neither side is empty.
struct TextPair {
  std::string source;
  std::string target;
};

/// A text as it would be in a TextPair; no-break spaces stay. Nothing when it is not valid UTF-8.
std::optional<std::string> tidy_text(std::string_view text);

using PairSink = std::function<void(TextPair)>;

/// What may be wrong with a pair.
enum class PairFault { bad_utf8, empty_side, missing_tab };
inline constexpr std::array<const char*, 3> kPairFaults = {"bad UTF-8", "empty side",
                                                           "missing tab"};

enum class OnBadPair {
  skip,    ///< count it and go on
  refuse,  ///< throw CorruptFile with the file and the line
};

/// What a reader found.
struct PairReport {
  std::int64_t pairs = 0;                                 ///< handed over
  std::array<std::int64_t, kPairFaults.size()> bad = {};  ///< by PairFault
  std::vector<std::string> examples = {};                 ///< "FILE:LINE: bad UTF-8": the first ten

  PairReport& operator+=(const PairReport& other);
};

/// Lines of source, tab, target; further columns are ignored (Tatoeba's attributions), and so are
/// blank lines. Here as in two files, lines end in LF or CR LF and have at most 1 MiB.
PairReport read_tsv_pairs(const std::string& path, OnBadPair on_bad, const PairSink& sink);

/// Line n of one file belongs to line n of the other. Throws CorruptFile when one is longer.
PairReport read_parallel_pairs(const std::string& source_path, const std::string& target_path,
                               OnBadPair on_bad, const PairSink& sink);

/// Conversations in the YAML of chatterbot-corpus: each line and the one after it; a single line is
/// a pair with an empty side. `path` is a file or a folder of .yml files, which are read in the
/// order of their names. Throws ConfigError when the folder has none.
PairReport read_chatterbot_pairs(const std::string& path, OnBadPair on_bad, const PairSink& sink);

/// Messages and their translations in compiled gettext catalogues: a .mo file, or a folder of them
/// (such as /usr/share/locale/fr/LC_MESSAGES), in the order of their names. What is not translated
/// is not a pair; singular and plural are one each. In place of a line, a fault has the number of
/// the message: "FILE: message 12: bad UTF-8". Throws ConfigError when the folder has none.
PairReport read_gettext_pairs(const std::string& path, OnBadPair on_bad, const PairSink& sink);

}  // namespace lockstep::text
