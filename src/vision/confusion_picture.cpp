#include <lockstep/error.h>
#include <lockstep/vision/classify.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "drawing/canvas.h"

namespace lockstep::vision {
namespace {

using namespace drawing;

constexpr int kMostWithNumbers = 20;  // classes
constexpr Colour kRight = {24, 88, 160}, kWrong = {196, 40, 24};
constexpr Colour kInk = {32, 32, 32}, kPale = {112, 112, 112}, kLine = {216, 216, 216};
constexpr Colour kWhite = {255, 255, 255};
constexpr char kRowsTitle[] = "label", kColumnsTitle[] = "prediction";
constexpr char kLegend[] = "in percent of the label's rows";

std::string number(const char* format, double value) {
  char text[32] = {};
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// At most so many letters that a column of names stays narrower than the matrix.
std::string shortened(const std::string& name) {
  constexpr int kMost = 16;
  int letters = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool starts_letter = (static_cast<unsigned char>(name[i]) & 0xc0U) != 0x80U;
    if (starts_letter && ++letters > kMost) return name.substr(0, i) + "..";
  }
  return name;
}

std::vector<std::string> names_of(const std::vector<std::string>& classes, std::int64_t count) {
  if (!classes.empty() && static_cast<std::int64_t>(classes.size()) != count)
    throw ConfigError("a confusion matrix of " + std::to_string(count) + " classes was given " +
                      std::to_string(classes.size()) + " names: give one a class");
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i)
    names.push_back(classes.empty() ? std::to_string(i)
                                    : shortened(classes[static_cast<std::size_t>(i)]));
  return names;
}

std::string title_of(const Classification& result) {
  const Mean accuracy = result.metrics.at("accuracy");
  return "accuracy " + number("%.2f", 100 * accuracy.value()) + " % of " +
         number("%.0f", accuracy.weight) + " rows";
}

/// Where things are, in pixels.
struct Layout {
  Layout(const std::vector<std::string>& names, const std::string& title) {
    const int classes = static_cast<int>(names.size());
    has_numbers = classes <= kMostWithNumbers;
    scale = has_numbers ? 2 : 1;
    cell = has_numbers ? 29 * scale : std::clamp(900 / classes, 1, 20);
    has_names = cell > 8 * scale;
    line = cell >= 4 ? 1 : 0;
    margin = 8 * scale;
    row = 12 * scale;
    int longest = 0;
    for (const std::string& name : names) longest = std::max(longest, text_length(name, scale));
    const int names_room = has_names ? longest + 6 * scale : 0;
    left = margin + row + names_room;
    top = margin + 4 * row + names_room;
    side = classes * cell + line;
    const int text = std::max(text_length(title, scale), text_length(kLegend, scale));
    width = std::max(left + side, margin + text) + margin;
    height = top + side + margin;
  }

  bool has_numbers, has_names;
  int scale, cell, line, margin, row, left, top, side, width, height;
};

void draw_words(Canvas& canvas, const Layout& at, const std::vector<std::string>& names,
                const std::string& title) {
  const Lettering ink = {at.scale, kInk}, pale = {at.scale, kPale};
  const auto centred = [&](const char* text) {
    return (at.side - text_length(text, at.scale)) / 2;
  };
  canvas.write(at.margin, at.margin, title, ink);
  canvas.write(at.margin, at.margin + at.row, kLegend, pale);
  canvas.write(at.left + centred(kColumnsTitle), at.margin + 5 * at.row / 2, kColumnsTitle, pale);
  canvas.write(at.margin, at.top + at.side - centred(kRowsTitle), kRowsTitle,
               {at.scale, kPale, true});
  if (!at.has_names) return;
  int middle = at.cell / 2 - 7 * at.scale / 2;
  for (const std::string& name : names) {
    const int gap = 4 * at.scale;
    canvas.write(at.left - gap - text_length(name, at.scale), at.top + middle, name, ink);
    canvas.write(at.left + middle, at.top - gap, name, {at.scale, kInk, true});
    middle += at.cell;
  }
}

/// White for 0, the hue for 1; by the square root, since a rare error shall be seen.
Colour shade(double rate, const Colour& hue) {
  Colour result = {};
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<std::uint8_t>(std::lround(255 + std::sqrt(rate) * (hue[i] - 255)));
  return result;
}

std::string percent(double rate) {
  if (rate == 0) return "";
  if (rate < 0.0005) return "<0.1";
  return number(rate < 0.9995 ? "%.1f" : "%.0f", 100 * rate);
}

void draw_cell(Canvas& canvas, const Layout& at, const Area& area, double rate, bool right) {
  canvas.fill(area, shade(rate, right ? kRight : kWrong));
  if (!at.has_numbers) return;
  const std::string text = percent(rate);
  canvas.write(area.left + (area.width - text_length(text, at.scale)) / 2,
               area.top + (area.height - 7 * at.scale) / 2, text,
               {at.scale, rate > 0.25 ? kWhite : kInk});
}

}  // namespace

Image confusion_picture(const Classification& result, const std::vector<std::string>& classes) {
  check(result.confusion.defined(), "a confusion picture needs a result of at least one batch");
  const torch::Tensor counts = result.confusion.to(torch::kFloat64);
  // A label without rows has rates of 0.
  const torch::Tensor rates = (counts / counts.sum(1, true).clamp_min(1)).contiguous();
  const std::vector<std::string> names = names_of(classes, counts.size(0));
  const std::string title = title_of(result);
  const Layout at(names, title);
  Canvas canvas(at.width, at.height);
  draw_words(canvas, at, names, title);
  canvas.fill({at.left, at.top, at.side, at.side}, kLine);
  const auto rate = rates.accessor<double, 2>();
  const int count = static_cast<int>(names.size()), inner = at.cell - at.line;
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < count; ++j)
      draw_cell(canvas, at,
                {at.left + j * at.cell + at.line, at.top + i * at.cell + at.line, inner, inner},
                rate[i][j], i == j);
  return std::move(canvas).image();
}

}  // namespace lockstep::vision
