// Any bytes as lines with tabs, and as two files of equal length: each line is a pair or a fault.

#include <algorithm>
#include <string_view>

#include "check_pairs.h"
#include "temporary_file.h"

namespace {

void check_lines(const std::optional<lockstep::text::PairReport>& report, std::int64_t lines) {
  if (!report) return;  // a line of more than 1 MiB
  std::int64_t seen = report->pairs;
  for (const std::int64_t bad : report->bad) seen += bad;
  if (seen != lines) std::abort();
}

/// Lines with nothing but white space, and perhaps the mark at the beginning of the file.
std::int64_t blank_lines(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) {
    text.remove_prefix(3);
    if (text.empty()) return 1;
  }
  std::int64_t blank = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (text.substr(0, end).find_first_not_of(" \t\r\v\f") == text.npos) ++blank;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return blank;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const TemporaryFile file(data, size);
  const bool unended = size > 0 && data[size - 1] != '\n';
  const std::int64_t lines = std::count(data, data + size, '\n') + (unended ? 1 : 0);
  constexpr auto kSkip = lockstep::text::OnBadPair::skip;
  const auto tsv = [&](const auto& sink) {
    return lockstep::text::read_tsv_pairs(file.path(), kSkip, sink);
  };
  const auto parallel = [&](const auto& sink) {
    return lockstep::text::read_parallel_pairs(file.path(), file.path(), kSkip, sink);
  };
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_lines(check_pairs(file.path(), tsv), lines - blank_lines(text));
  check_lines(check_pairs(file.path(), parallel), lines);
  return 0;
}
