#include <lockstep/text/pairs.h>

#include "text/line_reader.h"
#include "text/pair_rules.h"

namespace lockstep::text {

PairReport read_tsv_pairs(const std::string& path, OnBadPair on_bad, const PairSink& sink) {
  PairRules rules(on_bad, sink);
  LineReader lines(path);
  while (lines.next()) {
    const std::string_view line = lines.line();
    if (line.find_first_not_of(" \t\r\v\f") == std::string_view::npos) continue;
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) {
      rules.add_fault(PairFault::missing_tab, lines.place());
      continue;
    }
    const std::string_view after = line.substr(tab + 1);
    rules.add({line.substr(0, tab), lines.place()},
              {after.substr(0, after.find('\t')), lines.place()});
  }
  return rules.report();
}

}  // namespace lockstep::text
