// Any bytes as lines with tabs, and as two files of equal length: each line is a pair or a fault.

#include <algorithm>

#include "check_pairs.h"
#include "temporary_file.h"

namespace {

void check_lines(const std::optional<lockstep::text::PairReport>& report, std::int64_t lines) {
  if (!report) return;  // a line of more than 1 MiB
  std::int64_t seen = report->pairs;
  for (const std::int64_t bad : report->bad) seen += bad;
  if (seen != lines) std::abort();
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
  check_lines(check_pairs(file.path(), tsv), lines);
  check_lines(check_pairs(file.path(), parallel), lines);
  return 0;
}
