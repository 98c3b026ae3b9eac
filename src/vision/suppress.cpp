#include <lockstep/error.h>
#include <lockstep/vision/anchors.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace lockstep::vision {
namespace {

/// Rises with the score. Not a number counts as the highest, so that a loss that is one is seen.
std::uint32_t rising_key(float score) {
  if (std::isnan(score)) return std::numeric_limits<std::uint32_t>::max();
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // no negative zero
  constexpr std::uint32_t kSign = 0x80000000U;
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// Greater for higher scores, then for lower numbers.
std::uint64_t ranked(float score, std::size_t number) {
  return (std::uint64_t{rising_key(score)} << 32U) | ~static_cast<std::uint32_t>(number);
}

std::size_t ranked_number(std::uint64_t rank) { return ~static_cast<std::uint32_t>(rank); }

std::vector<std::size_t> by_falling_score(std::span<const float> scores) {
  std::vector<std::uint64_t> ranks(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) ranks[i] = ranked(scores[i], i);
  std::sort(ranks.begin(), ranks.end(), std::greater<>());
  std::vector<std::size_t> order(scores.size());
  std::transform(ranks.begin(), ranks.end(), order.begin(), ranked_number);
  return order;
}

/// Finds the boxes that overlap one by more than a limit, looking at those near its left edge only:
/// an overlap of t needs left edges that differ by at most (1 - t) / t of its width.
class Overlapping {
 public:
  Overlapping(std::span<const Corners> boxes, double limit)
      : limit_(limit),
        reach_(limit > 0 ? (1 - limit) / limit * 1.001 : std::numeric_limits<double>::infinity()),
        boxes_(boxes.begin(), boxes.end()) {
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      Corners& box = boxes_[i];
      if (box.bottom < box.top) std::swap(box.top, box.bottom);
      if (box.right < box.left) std::swap(box.left, box.right);
      if (has_area(box)) by_left_.push_back({box, i});
    }
    std::sort(by_left_.begin(), by_left_.end(),
              [](const Numbered& a, const Numbered& b) { return a.box.left < b.box.left; });
  }

  /// Calls `visit` with the number of each, and perhaps with that of the box itself.
  template <class Visit>
  void for_each(std::size_t number, const Visit& visit) const {
    const Corners& box = boxes_[number];
    if (!has_area(box)) return;
    const double reach = reach_ * (double{box.right} - box.left);
    auto other = std::partition_point(by_left_.begin(), by_left_.end(), [&](const Numbered& one) {
      return one.box.left < box.left - reach;
    });
    for (; other != by_left_.end() && other->box.left <= box.left + reach; ++other)
      if (overlap(box, other->box) > limit_) visit(other->number);
  }

 private:
  struct Numbered {
    Corners box;
    std::size_t number;
  };

  static bool has_area(const Corners& box) {
    const double area = (double{box.bottom} - box.top) * (double{box.right} - box.left);
    return area > 0 && std::isfinite(area);
  }

  double limit_, reach_;
  std::vector<Corners> boxes_;     // with sorted edges
  std::vector<Numbered> by_left_;  // those with area
};

/// The part of a box that is inside the picture, in pixels.
Box in_pixels(const Corners& box, double width, double height) {
  const auto inside = [](float edge) { return std::clamp(double{edge}, 0., 1.); };
  const double left = inside(box.left) * width, top = inside(box.top) * height;
  return {left, top, inside(box.right) * width - left, inside(box.bottom) * height - top};
}

}  // namespace

std::vector<int> suppress(std::span<const Corners> boxes, std::span<const float> scores,
                          double most_overlap, int most) {
  check(boxes.size() == scores.size(), "boxes and scores differ in number");
  const Overlapping overlapping(boxes, most_overlap);
  std::vector<bool> suppressed(boxes.size(), false);
  std::vector<int> kept;
  for (const std::size_t number : by_falling_score(scores)) {
    if (suppressed[number]) continue;
    if (static_cast<int>(kept.size()) >= most) break;
    kept.push_back(static_cast<int>(number));
    overlapping.for_each(number, [&](std::size_t other) { suppressed[other] = true; });
  }
  return kept;
}

std::vector<std::uint8_t> mine(std::span<const float> losses, std::span<const Corners> boxes,
                               std::span<const std::int64_t> labels, const MiningOptions& options) {
  check(labels.size() == losses.size(), "labels and losses differ in number");
  const std::vector<int> kept = suppress(boxes, losses, options.most_overlap, options.most);
  const auto is_positive = [&](int anchor) { return labels[static_cast<std::size_t>(anchor)] > 0; };
  const auto positives = std::count_if(kept.begin(), kept.end(), is_positive);
  const double most_negatives =
      std::max(std::floor(options.negatives_per_positive * static_cast<double>(positives)),
               static_cast<double>(options.min_negatives));
  std::vector<std::uint8_t> counts(losses.size(), 0);
  int negatives = 0;
  for (const int anchor : kept)
    if (is_positive(anchor) || ++negatives <= most_negatives)
      counts[static_cast<std::size_t>(anchor)] = 1;
  return counts;
}

std::vector<Detection> detections(std::span<const Corners> anchors, std::span<const BoxCode> codes,
                                  std::span<const float> scores, int classes, double width,
                                  double height, const DetectionOptions& options) {
  const auto columns = static_cast<std::size_t>(classes) + 1;
  check(codes.size() == anchors.size() && scores.size() == anchors.size() * columns,
        "anchors, codes and scores differ in number");
  std::vector<std::uint64_t> candidates;  // a heap: few of many are looked at
  for (std::size_t anchor = 0; anchor < anchors.size(); ++anchor)
    for (std::size_t label = 0; label + 1 < columns; ++label)
      if (const float score = scores[anchor * columns + label + 1]; score > options.least_score)
        candidates.push_back(ranked(score, label * anchors.size() + anchor));
  std::make_heap(candidates.begin(), candidates.end());

  std::vector<std::vector<Corners>> kept(columns - 1);  // a class
  std::vector<Detection> found;
  while (!candidates.empty() && static_cast<int>(found.size()) < options.most) {
    std::pop_heap(candidates.begin(), candidates.end());
    const std::size_t number = ranked_number(candidates.back());
    candidates.pop_back();
    const std::size_t label = number / anchors.size(), anchor = number % anchors.size();
    std::vector<Corners>& same = kept[label];
    if (static_cast<int>(same.size()) >= options.most_per_class) continue;
    const Corners box = decode(codes[anchor], anchors[anchor]);
    if (std::any_of(same.begin(), same.end(), [&](const Corners& other) {
          return overlap(box, other) > options.most_overlap;
        }))
      continue;
    same.push_back(box);
    const Detection detection{.box = in_pixels(box, width, height),
                              .label = static_cast<int>(label),
                              .score = scores[anchor * columns + label + 1]};
    if (detection.box.width > 0 && detection.box.height > 0) found.push_back(detection);
  }
  return found;
}

}  // namespace lockstep::vision
