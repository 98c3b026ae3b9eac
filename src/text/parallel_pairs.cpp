#include <lockstep/error.h>
#include <lockstep/text/pairs.h>

#include "text/line_reader.h"
#include "text/pair_rules.h"

namespace lockstep::text {
namespace {

/// `ended` is at its end, `longer` on the line after that.
[[noreturn]] void throw_shorter(const LineReader& ended, LineReader& longer) {
  while (longer.next()) {
  }
  throw CorruptFile(ended.path(), ended.offset(),
                    "as many lines as " + longer.path() + " has (" +
                        std::to_string(longer.lines()) + "), not " + std::to_string(ended.lines()));
}

}  // namespace

PairReport read_parallel_pairs(const std::string& source_path, const std::string& target_path,
                               OnBadPair on_bad, const PairSink& sink) {
  PairRules rules(on_bad, sink);
  LineReader sources(source_path), targets(target_path);
  while (true) {
    const bool source = sources.next(), target = targets.next();
    if (!source && target) throw_shorter(sources, targets);
    if (source && !target) throw_shorter(targets, sources);
    if (!source) return rules.report();
    rules.add({sources.line(), sources.place()}, {targets.line(), targets.place()});
  }
}

}  // namespace lockstep::text
