#include <lockstep/vision/box_pictures.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ranges>

#include "drawing/canvas.h"
#include "vision/class_names.h"

namespace lockstep::vision {
namespace {

using namespace drawing;

/// How large things are drawn on a picture, in pixels.
struct BoxStyle {
  BoxStyle(const Image& image, const std::vector<DrawnBox>& boxes) {
    const double side = (image.width + image.height) / 2.0;
    thickness = std::max(1, static_cast<int>(std::lround(side / 200)));
    scale = std::max(1, static_cast<int>(std::lround(side / 350)));
    for (const DrawnBox& box : boxes) scale = std::max(scale, least_scale(box.text));
    padding = 2 * scale;
    tag_height = 8 * scale + 2 * padding - scale;
  }

  int thickness, scale, padding, tag_height;
};

struct PlacedFrame {
  Area area;
  Colour colour;
};

struct PlacedTag {
  Area area;
  std::string_view text;
  Colour colour;
};

/// The pixels of a box that are on the picture, at least one each way; nothing if there are none.
std::optional<Area> pixels_of(const Box& box, const Image& image) {
  const double left = std::max(box.left, 0.0), top = std::max(box.top, 0.0);
  const double right = std::min<double>(box.right(), image.width);
  const double bottom = std::min<double>(box.bottom(), image.height);
  // Not a number is not below anything.
  const bool is_box = box.left < box.right() && box.top < box.bottom();
  if (!is_box || !(left < right) || !(top < bottom)) return std::nullopt;
  const auto place = [](double at, int size) {
    return std::min(static_cast<int>(std::lround(at)), size - 1);
  };
  const int x = place(left, image.width), y = place(top, image.height);
  return Area{x, y, std::max(1, static_cast<int>(std::lround(right)) - x),
              std::max(1, static_cast<int>(std::lround(bottom)) - y)};
}

bool areas_meet(const Area& a, const Area& b) {
  return a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height &&
         b.top < a.top + a.height;
}

/// Above the box, else inside at its upper or lower edge, else below: the first place on the
/// picture where no other tag is. In case of need, on others.
Area tag_area(const Area& box, int width, int height, const Image& image,
              const std::vector<PlacedTag>& placed) {
  const int left = std::max(0, std::min(box.left, image.width - width));
  const int bottom = box.top + box.height;
  Area fallback = {left, std::max(0, std::min(box.top, image.height - height)), width, height};
  bool has_fallback = false;
  for (const int top : {box.top - height, box.top, bottom - height, bottom}) {
    const Area area = {left, top, width, height};
    if (top < 0 || top + height > image.height) continue;
    if (std::ranges::none_of(placed, [&](const auto& tag) { return areas_meet(tag.area, area); }))
      return area;
    if (!has_fallback) fallback = area;
    has_fallback = true;
  }
  return fallback;
}

std::string name_of_label(int label, const std::vector<std::string>& classes) {
  const auto at = static_cast<std::size_t>(label);
  return label >= 0 && at < classes.size() ? classes[at] : std::to_string(label);
}

}  // namespace

void draw_boxes(Image& image, const std::vector<DrawnBox>& boxes) {
  const BoxStyle style(image, boxes);
  std::vector<PlacedFrame> frames;
  std::vector<PlacedTag> tags;
  for (const DrawnBox& drawn : boxes) {
    const std::optional<Area> area = pixels_of(drawn.box, image);
    if (!area) continue;
    const Colour colour = distinct_colour(drawn.label);
    frames.push_back({*area, colour});
    if (drawn.text.empty()) continue;
    const int width = text_length(drawn.text, style.scale) + 2 * style.padding;
    tags.push_back({tag_area(*area, width, style.tag_height, image, tags), drawn.text, colour});
  }
  Canvas canvas(std::move(image));
  for (const PlacedFrame& frame : std::views::reverse(frames))
    canvas.frame(frame.area, style.thickness, frame.colour);
  for (const PlacedTag& tag : std::views::reverse(tags)) {
    canvas.fill(tag.area, tag.colour);
    canvas.write(tag.area.left + style.padding, tag.area.top + style.padding, tag.text,
                 {style.scale, {255, 255, 255}});
  }
  image = std::move(canvas).image();
}

std::vector<DrawnBox> drawn(const std::vector<Detection>& found,
                            const std::vector<std::string>& classes, double least_score) {
  std::vector<DrawnBox> result;
  for (const Detection& one : found)
    if (one.score >= least_score)
      result.push_back(
          {one.box, one.label, name_of_label(one.label, classes) + formatted(" %.2f", one.score)});
  return result;
}

std::vector<DrawnBox> drawn(const std::vector<LabelledBox>& truth,
                            const std::vector<std::string>& classes) {
  std::vector<DrawnBox> result;
  for (const LabelledBox& one : truth)
    result.push_back({one.box, one.label,
                      name_of_label(one.label, classes) + (one.crowd       ? ", crowd"
                                                           : one.difficult ? ", difficult"
                                                                           : "")});
  return result;
}

}  // namespace lockstep::vision
