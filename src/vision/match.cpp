#include <lockstep/error.h>
#include <lockstep/vision/anchors.h>

#include <string>

namespace lockstep::vision {

std::vector<int> match(std::span<const Corners> anchors, std::span<const Corners> things,
                       const MatchOptions& options) {
  std::vector<int> thing_of(anchors.size(), -1), forced(anchors.size(), -1);
  std::vector<double> most(anchors.size(), 0);  // overlap of an anchor with any thing so far
  for (std::size_t thing = 0; thing < things.size(); ++thing) {
    double best = 0;
    std::size_t best_anchor = 0;
    for (std::size_t anchor = 0; anchor < anchors.size(); ++anchor) {
      const double shared = overlap(anchors[anchor], things[thing]);
      if (shared > most[anchor]) {
        most[anchor] = shared;
        thing_of[anchor] = static_cast<int>(thing);
      }
      if (shared > best) {
        best = shared;
        best_anchor = anchor;
      }
    }
    if (best > 0 && forced[best_anchor] < 0) forced[best_anchor] = static_cast<int>(thing);
  }
  for (std::size_t anchor = 0; anchor < anchors.size(); ++anchor) {
    if (most[anchor] < options.overlap) thing_of[anchor] = -1;
    if (options.force && forced[anchor] >= 0) thing_of[anchor] = forced[anchor];
  }
  return thing_of;
}

Targets make_targets(std::span<const Corners> anchors, std::span<const Corners> things,
                     std::span<const int> labels, const MatchOptions& options) {
  check(things.size() == labels.size(), "things and labels differ in number");
  Targets targets{.labels = std::vector<std::int64_t>(anchors.size(), 0),
                  .codes = std::vector<BoxCode>(anchors.size(), BoxCode{})};
  const std::vector<int> thing_of = match(anchors, things, options);
  for (std::size_t anchor = 0; anchor < anchors.size(); ++anchor) {
    if (thing_of[anchor] < 0) continue;
    const auto thing = static_cast<std::size_t>(thing_of[anchor]);
    targets.labels[anchor] = labels[thing] + 1;
    targets.codes[anchor] = encode(things[thing], anchors[anchor]);
  }
  return targets;
}

}  // namespace lockstep::vision
