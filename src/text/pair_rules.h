#pragma once

// What all readers of text pairs have in common: how a text is made tidy, which pairs are bad and
// what becomes of them, and the files of a folder.

#include <lockstep/text/pairs.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::text {

/// A longer line or message is refused: it would be a file of another kind.
inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 20U;

/// In place of a text that could not be read as UTF-8: tidy_text gives nothing for it.
inline constexpr std::string_view kNoText = "\xff";

/// Where a text was found.
struct Place {
  std::string_view file;
  std::uint64_t number = 0;  ///< of the line or message, from 1
  std::uint64_t offset = 0;  ///< in bytes
  bool message = false;      ///< number counts messages, not lines
};

struct Side {
  std::string_view text;  ///< as found
  Place place;
};

/// Hands pairs over to a sink, or counts what is wrong with them. The sink must outlive it.
class PairRules {
 public:
  PairRules(OnBadPair on_bad, const PairSink& sink) : on_bad_(on_bad), sink_(sink) {}

  void add(const Side& source, const Side& target);

  /// Throws CorruptFile where bad pairs are refused.
  void add_fault(PairFault fault, const Place& place);

  PairReport report() const { return report_; }

 private:
  const OnBadPair on_bad_;
  const PairSink& sink_;
  PairReport report_;
};

/// `path` itself, or if it is a folder its files that end in `suffix`, sorted. Throws ConfigError
/// when there is none, IoError when the folder cannot be read.
std::vector<std::string> pair_files(const std::string& path, const std::string& suffix);

}  // namespace lockstep::text
