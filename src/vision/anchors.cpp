#include <lockstep/error.h>
#include <lockstep/vision/anchors.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace lockstep::vision {
namespace {

constexpr double kCodeEpsilon = 1e-8;  // a box without height or width still has a logarithm
constexpr double kCentreScale = 10, kSizeScale = 5;

struct AnchorSize {
  double height, width;
};

AnchorSize anchor_size(double scale, double ratio) {
  return {scale / std::sqrt(ratio), scale * std::sqrt(ratio)};
}

double scale_of(const AnchorOptions& options, std::size_t map) {
  const std::size_t maps = options.grids.size();
  if (map == maps) return 1;
  if (maps == 1) return options.min_scale;
  return options.min_scale + (options.max_scale - options.min_scale) * static_cast<double>(map) /
                                 static_cast<double>(maps - 1);
}

std::vector<AnchorSize> sizes_in_cell(const AnchorOptions& options, std::size_t map) {
  const double scale = scale_of(options, map);
  if (map == 0 && options.reduce_finest)
    return {anchor_size(scale / 2, 1), anchor_size(scale, 2), anchor_size(scale, 0.5)};
  std::vector<AnchorSize> sizes;
  for (const double ratio : options.ratios) sizes.push_back(anchor_size(scale, ratio));
  sizes.push_back(anchor_size(std::sqrt(scale * scale_of(options, map + 1)), 1));
  return sizes;
}

void check_anchor_options(const AnchorOptions& options) {
  if (options.grids.empty()) throw ConfigError("anchors need at least one grid");
  for (const int cells : options.grids)
    if (cells < 1)
      throw ConfigError("a grid of anchors has " + std::to_string(cells) +
                        " cells: give each at least 1");
  for (const double ratio : options.ratios)
    if (!(ratio > 0))
      throw ConfigError("an anchor's ratio of width to height is " + std::to_string(ratio) +
                        ": give one above 0");
  if (!(options.min_scale > 0 && options.max_scale >= options.min_scale))
    throw ConfigError("the scales of anchors go from " + std::to_string(options.min_scale) +
                      " to " + std::to_string(options.max_scale) +
                      ": the first must be above 0, and the second not below it");
}

struct Centred {
  double y, x, height, width;
};

Centred by_centre(const Corners& box) {
  const double height = double{box.bottom} - box.top, width = double{box.right} - box.left;
  return {box.top + height / 2, box.left + width / 2, height, width};
}

Corners corners_of(const Centred& box) {
  const auto edge = [](double centre, double half) { return static_cast<float>(centre + half); };
  return {edge(box.y, -box.height / 2), edge(box.x, -box.width / 2), edge(box.y, box.height / 2),
          edge(box.x, box.width / 2)};
}

}  // namespace

double overlap(const Corners& a, const Corners& b) {
  const double height = double{std::min(a.bottom, b.bottom)} - std::max(a.top, b.top);
  const double width = double{std::min(a.right, b.right)} - std::max(a.left, b.left);
  if (!(height > 0 && width > 0)) return 0;
  const auto area = [](const Corners& box) {
    return (double{box.bottom} - box.top) * (double{box.right} - box.left);
  };
  const double shared = height * width;
  return shared / (area(a) + area(b) - shared);
}

std::vector<Corners> make_anchors(const AnchorOptions& options) {
  check_anchor_options(options);
  std::vector<Corners> anchors;
  for (std::size_t map = 0; map < options.grids.size(); ++map) {
    const std::vector<AnchorSize> sizes = sizes_in_cell(options, map);
    const int cells = options.grids[map];
    for (int row = 0; row < cells; ++row)
      for (int column = 0; column < cells; ++column)
        for (const AnchorSize& size : sizes)
          anchors.push_back(
              corners_of({(row + 0.5) / cells, (column + 0.5) / cells, size.height, size.width}));
  }
  return anchors;
}

int anchors_per_cell(const AnchorOptions& options, std::size_t map) {
  return static_cast<int>(sizes_in_cell(options, map).size());
}

BoxCode encode(const Corners& box, const Corners& anchor) {
  Centred to = by_centre(box), from = by_centre(anchor);
  for (double* size : {&to.height, &to.width, &from.height, &from.width}) *size += kCodeEpsilon;
  return {static_cast<float>(kCentreScale * (to.y - from.y) / from.height),
          static_cast<float>(kCentreScale * (to.x - from.x) / from.width),
          static_cast<float>(kSizeScale * std::log(to.height / from.height)),
          static_cast<float>(kSizeScale * std::log(to.width / from.width))};
}

Corners decode(const BoxCode& code, const Corners& anchor) {
  const Centred from = by_centre(anchor);
  return corners_of(
      {code[0] / kCentreScale * from.height + from.y, code[1] / kCentreScale * from.width + from.x,
       std::exp(code[2] / kSizeScale) * from.height, std::exp(code[3] / kSizeScale) * from.width});
}

}  // namespace lockstep::vision
