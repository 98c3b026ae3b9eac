#include <lockstep/error.h>
#include <lockstep/text/attention_picture.h>

#include <algorithm>
#include <cmath>

#include "drawing/canvas.h"

namespace lockstep::text {
namespace {

using namespace drawing;

constexpr Colour kDark = {16, 56, 112}, kInk = {32, 32, 32}, kPale = {112, 112, 112};
constexpr Colour kLine = {216, 216, 216};
constexpr char kSourceTitle[] = "source", kTargetTitle[] = "target";
constexpr char kLegend[] = "the darker, the more attention";
constexpr int kLargest = 64;  // pieces that are shown in large letters

/// With at most so many letters that the pieces stay smaller than what they name.
std::string shortened(const std::string& piece) {
  constexpr int kMost = 14;
  constexpr std::string_view kWordMark = "\u2581";
  std::string result;
  int letters = 0;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const bool starts_letter = (static_cast<unsigned char>(piece[i]) & 0xc0U) != 0x80U;
    if (starts_letter && ++letters > kMost) return result + "..";
    if (std::string_view(piece).substr(i).starts_with(kWordMark)) {
      result += '_';
      i += kWordMark.size() - 1;
    } else {
      result += piece[i];
    }
  }
  return result;
}

std::vector<std::string> shortened(const std::vector<std::string>& pieces) {
  std::vector<std::string> result;
  for (const std::string& piece : pieces) result.push_back(shortened(piece));
  return result;
}

/// Where things are, in pixels.
struct Layout {
  Layout(const std::vector<std::string>& source, const std::vector<std::string>& target) {
    const int columns = static_cast<int>(source.size()), rows = static_cast<int>(target.size());
    const int most = std::max(columns, rows);
    scale = most <= kLargest ? 2 : 1;
    cell = most <= kLargest ? 20 : std::clamp(1600 / most, 1, 10);
    has_pieces = cell > 8 * scale;
    if (const int least = std::max(least_scale(source), least_scale(target)); least > scale) {
      scale = least;
      if (has_pieces) cell = std::max(cell, 8 * scale + 1);
    }
    line = cell >= 4 ? 1 : 0;
    margin = 8 * scale;
    row = 12 * scale;
    left = margin + row + room(target);
    top = margin + 5 * row / 2 + room(source);
    matrix_width = columns * cell + line;
    matrix_height = rows * cell + line;
    width = std::max({left + matrix_width, margin + text_length(kLegend, scale),
                      left + text_length(kSourceTitle, scale)}) +
            margin;
    height = top + std::max(matrix_height, text_length(kTargetTitle, scale)) + margin;
  }

  int room(const std::vector<std::string>& pieces) const {
    int longest = 0;
    for (const std::string& piece : pieces) longest = std::max(longest, text_length(piece, scale));
    return has_pieces ? longest + 6 * scale : 0;
  }

  bool has_pieces;
  int scale, cell, line, margin, row, left, top, matrix_width, matrix_height, width, height;
};

void draw_words(Canvas& canvas, const Layout& at, const std::vector<std::string>& source,
                const std::vector<std::string>& target) {
  const Lettering ink = {at.scale, kInk}, pale = {at.scale, kPale};
  const auto centred = [&](const char* text, int length) {
    return std::max(0, (length - text_length(text, at.scale)) / 2);
  };
  canvas.write(at.margin, at.margin, kLegend, pale);
  canvas.write(at.left + centred(kSourceTitle, at.matrix_width), at.margin + 5 * at.row / 4,
               kSourceTitle, pale);
  canvas.write(
      at.margin,
      at.top + centred(kTargetTitle, at.matrix_height) + text_length(kTargetTitle, at.scale),
      kTargetTitle, {at.scale, kPale, true});
  if (!at.has_pieces) return;
  const int gap = 4 * at.scale, inset = (at.cell + at.line - 7 * at.scale) / 2;
  for (int i = 0; i < static_cast<int>(target.size()); ++i) {
    const std::string& piece = target[static_cast<std::size_t>(i)];
    canvas.write(at.left - gap - text_length(piece, at.scale), at.top + i * at.cell + inset, piece,
                 ink);
  }
  for (int i = 0; i < static_cast<int>(source.size()); ++i)
    canvas.write(at.left + i * at.cell + inset, at.top - gap, source[static_cast<std::size_t>(i)],
                 {at.scale, kInk, true});
}

/// White for 0, the darkest for 1.
Colour shade(double attention) {
  Colour result = {};
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<std::uint8_t>(std::lround(255 + attention * (kDark[i] - 255)));
  return result;
}

void draw_cells(Canvas& canvas, const Layout& at, const torch::Tensor& attention) {
  canvas.fill({at.left, at.top, at.matrix_width, at.matrix_height}, kLine);
  const auto value = attention.accessor<double, 2>();
  const int inner = at.cell - at.line;
  for (int i = 0; i < static_cast<int>(attention.size(0)); ++i)
    for (int j = 0; j < static_cast<int>(attention.size(1)); ++j)
      canvas.fill({at.left + j * at.cell + at.line, at.top + i * at.cell + at.line, inner, inner},
                  shade(value[i][j]));
}

void check_sizes(const torch::Tensor& attention, const std::vector<std::string>& source,
                 const std::vector<std::string>& target) {
  check(attention.defined() && attention.dim() == 2,
        "an attention picture needs attention of [target, source]");
  if (attention.size(0) != static_cast<std::int64_t>(target.size()) ||
      attention.size(1) != static_cast<std::int64_t>(source.size()))
    throw ConfigError("attention of " + std::to_string(attention.size(0)) + " target pieces to " +
                      std::to_string(attention.size(1)) + " source pieces was given the names of " +
                      std::to_string(target.size()) + " and " + std::to_string(source.size()) +
                      ": give one a piece, and attention without padding");
  if (source.empty() || target.empty())
    throw ConfigError("an attention picture needs at least one piece of source and of target");
}

}  // namespace

Image attention_picture(const torch::Tensor& attention, const std::vector<std::string>& source,
                        const std::vector<std::string>& target) {
  check_sizes(attention, source, target);
  const std::vector<std::string> columns = shortened(source), rows = shortened(target);
  const Layout at(columns, rows);
  Canvas canvas(at.width, at.height);
  draw_words(canvas, at, columns, rows);
  draw_cells(canvas, at,
             attention.detach().to(torch::kCPU, torch::kFloat64).nan_to_num(0).clamp(0, 1));
  return std::move(canvas).image();
}

}  // namespace lockstep::text
