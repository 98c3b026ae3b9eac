#include <lockstep/vision/box_pictures.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "drawing/canvas.h"
#include "vision/class_names.h"

namespace lockstep::vision {
namespace {

using namespace drawing;

constexpr Colour kPlotInk = {32, 32, 32}, kPlotPale = {112, 112, 112}, kPlotGrid = {228, 228, 228};
constexpr int kPlotScale = 2, kPlotRow = 12 * kPlotScale, kPlotSide = 600;
constexpr int kPlotLeft = 7 * kPlotRow / 2, kPlotTop = 2 * kPlotRow;
constexpr int kSwatch = 3 * kPlotRow / 2;
constexpr std::size_t kMostCurves = 12;

/// The best precision from each recall of 0, 1 / kPlotSide, ..., 1 on; 0: not reached.
using Heights = std::vector<double>;

Heights heights_of(const PrecisionRecall& curve) {
  Heights heights(kPlotSide + 1, 0);
  double best = 0;
  std::size_t point = curve.recall.size();
  for (int x = kPlotSide; x >= 0; --x) {
    // A millionth, because recalls are rounded.
    while (point > 0 && curve.recall[point - 1] * kPlotSide >= x - 1e-6)
      best = std::max(best, curve.precision[--point]);
    heights[static_cast<std::size_t>(x)] = best;
  }
  return heights;
}

struct PlotCurve {
  Heights heights;
  Colour colour;
  int thickness;
  std::string name;
  double value;
};

/// Of the classes with most boxes, and last of the mean of all if there are several.
std::vector<PlotCurve> curves_of(const AveragePrecision& result,
                                 const std::vector<std::string>& names) {
  std::vector<std::size_t> order;
  Heights mean(kPlotSide + 1, 0);
  for (std::size_t i = 0; i < result.classes.size(); ++i) {
    if (result.classes[i].boxes == 0) continue;
    order.push_back(i);
    const Heights heights = heights_of(result.classes[i].curve);
    std::ranges::transform(mean, heights, mean.begin(), std::plus{});
  }
  if (order.empty()) return {};
  for (double& height : mean) height /= static_cast<double>(order.size());
  const std::string all = "all " + std::to_string(order.size()) + " classes";
  std::ranges::stable_sort(order, std::greater{},
                           [&](std::size_t i) { return result.classes[i].boxes; });
  order.resize(std::min(order.size(), kMostCurves));
  std::vector<PlotCurve> curves;
  for (const std::size_t i : order)
    curves.push_back({heights_of(result.classes[i].curve), distinct_colour(static_cast<int>(i)), 2,
                      shortened(names[i], 16), result.classes[i].ap50});
  if (curves.size() > 1) curves.push_back({std::move(mean), {0, 0, 0}, 4, all, result.coco[1]});
  return curves;
}

void draw_axes(Canvas& canvas) {
  const Lettering pale = {kPlotScale, kPlotPale};
  const int bottom = kPlotTop + kPlotSide;
  for (int i = 0; i <= 10; ++i) {
    const int along = i * kPlotSide / 10;
    canvas.fill({kPlotLeft + along, kPlotTop, 1, kPlotSide + 1}, kPlotGrid);
    canvas.fill({kPlotLeft, bottom - along, kPlotSide + 1, 1}, kPlotGrid);
    if (i % 2 == 1) continue;
    const std::string text = formatted("%.1f", i / 10.0);
    const int length = text_length(text, kPlotScale);
    canvas.write(kPlotLeft + along - length / 2, bottom + 5 * kPlotScale, text, pale);
    canvas.write(kPlotLeft - 5 * kPlotScale - length, bottom - along - 7 * kPlotScale / 2, text,
                 pale);
  }
  canvas.fill({kPlotLeft - 1, kPlotTop, 2, kPlotSide + 2}, kPlotPale);
  canvas.fill({kPlotLeft - 1, bottom, kPlotSide + 2, 2}, kPlotPale);
  const auto centred = [](const char* text) {
    return (kPlotSide - text_length(text, kPlotScale)) / 2;
  };
  canvas.write(kPlotLeft + centred("recall"), bottom + 6 * kPlotScale + kPlotRow, "recall",
               {kPlotScale, kPlotInk});
  canvas.write(4 * kPlotScale, bottom - centred("precision"), "precision",
               {kPlotScale, kPlotInk, true});
}

/// Steps from recall to recall; at the last one that is reached, down to the axis.
void draw_curve(Canvas& canvas, const PlotCurve& curve) {
  const auto row = [](double precision) {
    return kPlotTop + static_cast<int>(std::lround((1 - precision) * kPlotSide));
  };
  const int half = curve.thickness / 2;
  int last = row(curve.heights.front());
  for (int x = 0; x <= kPlotSide; ++x) {
    const double height = curve.heights[static_cast<std::size_t>(x)];
    const int now = row(height);
    canvas.fill({kPlotLeft + x - half, last - half, curve.thickness, now - last + curve.thickness},
                curve.colour);
    last = now;
    if (height == 0) break;
  }
}

}  // namespace

Image precision_recall_picture(const AveragePrecision& result,
                               const std::vector<std::string>& classes) {
  constexpr char kTitle[] = "precision over recall at an overlap of 0.5";
  const std::vector<PlotCurve> curves =
      curves_of(result, names_of_classes(classes, result.classes.size(), "a result"));
  int longest = text_length("nothing to be found", kPlotScale);
  for (const PlotCurve& curve : curves)
    longest = std::max(longest, text_length(curve.name, kPlotScale));
  const int names = kPlotLeft + kPlotSide + kPlotRow + kSwatch;
  const int values = names + longest + kPlotRow / 2;
  Canvas canvas(values + text_length("0.000", kPlotScale) + kPlotRow,
                kPlotTop + kPlotSide + 3 * kPlotRow);
  canvas.write(kPlotLeft, kPlotRow / 2, kTitle, {kPlotScale, kPlotInk});
  draw_axes(canvas);
  for (const PlotCurve& curve : curves) draw_curve(canvas, curve);
  const Lettering ink = {kPlotScale, kPlotInk}, pale = {kPlotScale, kPlotPale};
  int top = kPlotTop;
  canvas.write(names, top, curves.empty() ? "nothing to be found" : "class", pale);
  if (!curves.empty()) canvas.write(values, top, "AP50", pale);
  for (const PlotCurve& curve : curves) {
    top += 7 * kPlotRow / 6;
    canvas.fill({names - kSwatch, top + 7 * kPlotScale / 2 - curve.thickness / 2,
                 kSwatch - kPlotRow / 3, curve.thickness},
                curve.colour);
    canvas.write(names, top, curve.name, ink);
    canvas.write(values, top, formatted("%.3f", curve.value), ink);
  }
  return std::move(canvas).image();
}

}  // namespace lockstep::vision
