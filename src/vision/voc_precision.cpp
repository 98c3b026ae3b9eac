#include "vision/judged_class.h"

#include <algorithm>

// The rules are those of PASCAL VOC's evaluation. It has boxes of whole pixels that include their
// last ones, and so adds 1 to widths and heights; ours end where the next pixel begins, and the
// same overlap comes without it. VOC has no crowds: they count as difficult.

namespace lockstep::vision {
namespace {

constexpr double kVocOverlap = 0.5;

bool is_left_out(const LabelledBox& thing) { return thing.difficult || thing.crowd; }

/// Each detection is matched with what it overlaps most, even if that is taken: the first of
/// equals. Writes outcomes in place.
void match_picture(const PictureOfClass& picture, Outcome* outcomes) {
  std::vector<bool> taken(picture.truth.size(), false);
  for (std::size_t i = 0; i < picture.found.size(); ++i) {
    double most = kVocOverlap;
    std::size_t thing = picture.truth.size();
    for (std::size_t j = 0; j < picture.truth.size(); ++j) {
      const double value = overlap(picture.found[i]->box, picture.truth[j]->box);
      if (!(value > most)) continue;
      most = value;
      thing = j;
    }
    if (thing == picture.truth.size()) {
      outcomes[i] = Outcome::wrong;
    } else if (is_left_out(*picture.truth[thing])) {
      outcomes[i] = Outcome::ignored;
    } else {
      outcomes[i] = taken[thing] ? Outcome::wrong : Outcome::right;
      taken[thing] = true;
    }
  }
}

/// The mean of the best precisions at or after the recalls 0, 0.1, ..., 1.0, as numpy's
/// arange(0, 1.1, 0.1) rounds them. `best` has one a right detection: the best there or later.
double voc2007(const std::vector<double>& best, double boxes) {
  double sum = 0;
  std::size_t at = 0;
  for (int step = 0; step <= 10; ++step) {
    while (at < best.size() && static_cast<double>(at + 1) / boxes < step * 0.1) ++at;
    if (at < best.size()) sum += best[at] / 11;
  }
  return sum;
}

/// The area below the curve.
double voc2010(const std::vector<double>& best, double boxes) {
  double sum = 0;
  for (std::size_t i = 0; i < best.size(); ++i)
    sum += (static_cast<double>(i + 1) / boxes - static_cast<double>(i) / boxes) * best[i];
  return sum;
}

}  // namespace

VocClass voc_class(const JudgedClass& judged) {
  std::vector<Outcome> outcomes(judged.order.size());
  double boxes = 0;
  std::size_t place = 0;
  for (const PictureOfClass& picture : judged.pictures) {
    match_picture(picture, outcomes.data() + place);
    place += picture.found.size();
    for (const LabelledBox* thing : picture.truth) boxes += is_left_out(*thing) ? 0 : 1;
  }
  if (boxes == 0) return {};
  std::vector<double> best;
  double right = 0, wrong = 0;
  for (const RankedDetection& detection : judged.order) {
    const Outcome outcome = outcomes[detection.place];
    if (outcome == Outcome::wrong) ++wrong;
    if (outcome != Outcome::right) continue;
    ++right;
    best.push_back(right / (right + wrong));
  }
  for (std::size_t i = best.size(); i-- > 1;) best[i - 1] = std::max(best[i - 1], best[i]);
  return {voc2007(best, boxes), voc2010(best, boxes)};
}

}  // namespace lockstep::vision
