#include "scaling_plot.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "terminal.h"

namespace lockstep::apps {
namespace {

constexpr double kLeft = 80, kRight = 600, kTop = 60, kBottom = 360;

/// From devices and samples/s to the place in the figure.
struct Axes {
  int devices;
  double most;

  double x(double count) const { return kLeft + (kRight - kLeft) * count / (devices + 0.5); }
  double y(double speed) const { return kBottom - (kBottom - kTop) * speed / most; }
};

/// The next of 1, 2, 5, 10, ... that is at least `value`.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(std::max(value, 1e-9))));
  for (const double digit : {1.0, 2.0, 5.0})
    if (digit * power >= value) return digit * power;
  return 10 * power;
}

std::string text(double x, double y, const std::string& words, const std::string& more = "") {
  return "<text x=\"" + format("%.1f", x) + "\" y=\"" + format("%.1f", y) + "\" " + more + ">" +
         words + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + format("%.1f", x1) + "\" y1=\"" + format("%.1f", y1) + "\" x2=\"" +
         format("%.1f", x2) + "\" y2=\"" + format("%.1f", y2) + "\" " + style + "/>\n";
}

std::string escaped(const std::string& words) {
  std::string result;
  for (const char letter : words)
    result += letter == '<' ? "&lt;" : letter == '&' ? "&amp;" : std::string(1, letter);
  return result;
}

std::string curve(const Axes& axes, const std::vector<ScalingPoint>& points,
                  const std::string& colour) {
  std::string path, dots;
  for (const ScalingPoint& point : points) {
    const std::string x = format("%.1f", axes.x(point.devices));
    const std::string y = format("%.1f", axes.y(point.rows_per_second));
    path += x + "," + y + " ";
    dots += "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"4\" fill=\"" + colour + "\"><title>" +
            std::to_string(point.devices) +
            " devices: " + format("%.0f samples/s", point.rows_per_second) +
            format(", efficiency %.2f", point.efficiency) + "</title></circle>\n";
  }
  return "<polyline points=\"" + path + "\" fill=\"none\" stroke=\"" + colour +
         "\" stroke-width=\"2\"/>\n" + dots;
}

std::string grid(const Axes& axes) {
  std::string result;
  const double step = round_up(axes.most / 5);
  for (double speed = 0; speed <= axes.most; speed += step)
    result += line(kLeft, axes.y(speed), kRight, axes.y(speed), "stroke=\"#ddd\"") +
              text(kLeft - 8, axes.y(speed) + 4, format("%.0f", speed), "text-anchor=\"end\"");
  for (int count = 1; count <= axes.devices; ++count)
    result += text(axes.x(count), kBottom + 20, std::to_string(count), "text-anchor=\"middle\"");
  return result + text((kLeft + kRight) / 2, kBottom + 42, "devices", "text-anchor=\"middle\"") +
         text(kLeft - 60, kTop - 14, "samples/s");
}

}  // namespace

std::string scaling_svg(const ScalingCurves& curves) {
  Axes axes{.devices = 1, .most = 1};
  for (const auto* points : {&curves.strong, &curves.weak})
    for (const ScalingPoint& point : *points) {
      axes.devices = std::max(axes.devices, point.devices);
      axes.most = std::max({axes.most, point.rows_per_second * 1.05,
                            points->front().rows_per_second * point.devices * 1.05});
    }
  std::ostringstream svg;
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"420\" "
         "font-family=\"sans-serif\" font-size=\"13\">\n"
         "<rect width=\"640\" height=\"420\" fill=\"white\"/>\n"
      << text(kLeft, 26, escaped(curves.title), "font-size=\"15\" font-weight=\"bold\"")
      << grid(axes);
  const auto& first = curves.strong.empty() ? curves.weak : curves.strong;
  if (!first.empty()) {
    const double one = first.front().rows_per_second / first.front().devices;
    svg << line(axes.x(1), axes.y(one), axes.x(axes.devices), axes.y(one * axes.devices),
                "stroke=\"#888\" stroke-dasharray=\"5 4\"");
  }
  svg << curve(axes, curves.strong, "#1f6fb4") << curve(axes, curves.weak, "#d2691e");
  if (!curves.strong.empty())
    svg << text(kRight - 200, kBottom - 44, "the global batch stays", "fill=\"#1f6fb4\"");
  svg << text(kRight - 200, kBottom - 26, "the batch of a device stays", "fill=\"#d2691e\"")
      << text(kRight - 200, kBottom - 8, "- - n times one device", "fill=\"#888\"") << "</svg>\n";
  return svg.str();
}

}  // namespace lockstep::apps
