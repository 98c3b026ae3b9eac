#include "vision/confusion_drawing.h"

#include <lockstep/error.h>
#include <lockstep/vision/box_pictures.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "drawing/canvas.h"
#include "vision/class_names.h"

namespace lockstep::vision {
namespace {

using namespace drawing;

constexpr int kMostWithNumbers = 20;  // classes
constexpr int kMostLetters = 16;      // so that a column of names stays narrower than the matrix
constexpr Colour kConfusionRight = {24, 88, 160}, kConfusionWrong = {196, 40, 24};
constexpr Colour kConfusionInk = {32, 32, 32}, kConfusionPale = {112, 112, 112};
constexpr Colour kConfusionLine = {216, 216, 216}, kConfusionWhite = {255, 255, 255};

/// Where things are, in pixels.
struct ConfusionLayout {
  ConfusionLayout(const std::vector<std::string>& names, const ConfusionWords& words) {
    const int classes = static_cast<int>(names.size());
    has_numbers = classes <= kMostWithNumbers;
    scale = has_numbers ? 2 : 1;
    cell = has_numbers ? 29 * scale : std::clamp(900 / classes, 1, 20);
    has_names = cell > 8 * scale;
    if (least_scale(names) > scale) {
      scale = least_scale(names);
      if (has_names) cell = std::max(cell, 8 * scale + 1);
    }
    line = cell >= 4 ? 1 : 0;
    margin = 8 * scale;
    row = 12 * scale;
    int longest = 0;
    for (const std::string& name : names) longest = std::max(longest, text_length(name, scale));
    const int names_room = has_names ? longest + 6 * scale : 0;
    left = margin + row + names_room;
    top = margin + 4 * row + names_room;
    side = classes * cell + line;
    const int text = std::max(text_length(words.title, scale), text_length(words.legend, scale));
    width = std::max(left + side, margin + text) + margin;
    height = top + side + margin;
  }

  bool has_numbers, has_names;
  int scale, cell, line, margin, row, left, top, side, width, height;
};

void write_confusion_words(Canvas& canvas, const ConfusionLayout& at,
                           const std::vector<std::string>& names, const ConfusionWords& words) {
  const Lettering ink = {at.scale, kConfusionInk}, pale = {at.scale, kConfusionPale};
  const auto centred = [&](const std::string& text) {
    return (at.side - text_length(text, at.scale)) / 2;
  };
  canvas.write(at.margin, at.margin, words.title, ink);
  canvas.write(at.margin, at.margin + at.row, words.legend, pale);
  canvas.write(at.left + centred(words.columns), at.margin + 5 * at.row / 2, words.columns, pale);
  canvas.write(at.margin, at.top + at.side - centred(words.rows), words.rows,
               {at.scale, kConfusionPale, true});
  if (!at.has_names) return;
  int middle = at.cell / 2 - 7 * at.scale / 2;
  for (const std::string& name : names) {
    const int gap = 4 * at.scale;
    canvas.write(at.left - gap - text_length(name, at.scale), at.top + middle, name, ink);
    canvas.write(at.left + middle, at.top - gap, name, {at.scale, kConfusionInk, true});
    middle += at.cell;
  }
}

/// White for 0, the hue for 1; by the square root, since a rare error shall be seen.
Colour confusion_shade(double rate, const Colour& hue) {
  Colour result = {};
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<std::uint8_t>(std::lround(255 + std::sqrt(rate) * (hue[i] - 255)));
  return result;
}

std::string percent_text(double rate) {
  if (rate == 0) return "";
  if (rate < 0.0005) return "<0.1";
  return formatted(rate < 0.9995 ? "%.1f" : "%.0f", 100 * rate);
}

void draw_confusion_cell(Canvas& canvas, const ConfusionLayout& at, const Area& area, double rate,
                         bool right) {
  canvas.fill(area, confusion_shade(rate, right ? kConfusionRight : kConfusionWrong));
  if (!at.has_numbers) return;
  const std::string text = percent_text(rate);
  canvas.write(area.left + (area.width - text_length(text, at.scale)) / 2,
               area.top + (area.height - 7 * at.scale) / 2, text,
               {at.scale, rate > 0.25 ? kConfusionWhite : kConfusionInk});
}

/// In parts of each row; a row without counts has rates of 0.
std::vector<std::vector<double>> rates_of(const std::vector<std::vector<std::int64_t>>& counts) {
  std::vector<std::vector<double>> rates;
  for (const std::vector<std::int64_t>& row : counts) {
    check(row.size() == counts.size(), "a confusion picture needs as many columns as rows");
    const std::int64_t sum = std::accumulate(row.begin(), row.end(), std::int64_t{0});
    for (auto& rate = rates.emplace_back(); const std::int64_t count : row)
      rate.push_back(static_cast<double>(count) /
                     static_cast<double>(std::max(sum, std::int64_t{1})));
  }
  return rates;
}

}  // namespace

Image draw_confusion(const std::vector<std::vector<std::int64_t>>& counts,
                     const std::vector<std::string>& names, const ConfusionWords& words) {
  check(!counts.empty() && names.size() == counts.size(),
        "a confusion picture needs a row, and a name a row");
  const std::vector<std::vector<double>> rates = rates_of(counts);
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(shortened(name, kMostLetters));
  const ConfusionLayout at(shown, words);
  Canvas canvas(at.width, at.height);
  write_confusion_words(canvas, at, shown, words);
  canvas.fill({at.left, at.top, at.side, at.side}, kConfusionLine);
  const int inner = at.cell - at.line;
  int top = at.top + at.line;
  for (std::size_t i = 0; i < rates.size(); ++i, top += at.cell) {
    int left = at.left + at.line;
    for (std::size_t j = 0; j < rates.size(); ++j, left += at.cell)
      draw_confusion_cell(canvas, at, {left, top, inner, inner}, rates[i][j], i == j);
  }
  return std::move(canvas).image();
}

Image detection_confusion_picture(const std::vector<std::vector<std::int64_t>>& counts,
                                  const std::vector<std::string>& classes,
                                  const std::string& title) {
  check(!counts.empty(), "detection_confusion_picture: the background is always there");
  std::vector<std::string> names =
      names_of_classes(classes, counts.size() - 1, "a confusion matrix");
  names.emplace_back("background");
  return draw_confusion(
      counts, names,
      {.title = title, .legend = "in percent of each row", .rows = "truth", .columns = "found"});
}

}  // namespace lockstep::vision
