// Charts as inline SVG: lines and dots over two axes. A chart is a value; the same chart is drawn at several sizes.
//
// Colours, dashes and fonts come from the page's style sheet (classes s0..s7, axis, ...). What the page's script needs
// to show values under the pointer is in data- attributes: an axis as "low high from_px to_px linear|log unit".
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace thinwire::report {

inline constexpr size_t kCurvePoints = 600;  // a line has no more

struct Point {
  double x, y;
};

struct Series {
  std::string label = {};
  int look = 0;                  // colour and dash
  std::vector<Point> line = {};  // points that are not finite are left out
  std::vector<Point> dots = {};
};

enum class Unit { number, steps, seconds, bytes };

struct Chart {
  std::string id = {};     // unique in the page
  std::string title = {};  // read out, and by those who cannot see it
  std::string x_name = {}, y_name = {};
  std::string dots_name = {};  // what dots are, where there are lines beside them
  Unit x_unit = Unit::number;
  bool x_log = false;
  bool y_from_zero = false;
  std::optional<double> y_top = {};  // what is above is cut off
  std::vector<Series> series = {};
  std::optional<double> floor = {};  // a horizontal dashed line
  std::string floor_label = {};
};

struct Size {
  double width, height;
};

std::string chart_svg(const Chart& chart, Size size);

// At most `points` of them, evenly chosen, first and last included.
std::vector<Point> thinned(const std::vector<Point>& line, size_t points = kCurvePoints);
// The mean over `width` neighbours that are finite; at the beginning over fewer, as many on both sides, and at the end
// over those before.
std::vector<double> smoothed(const std::vector<double>& values, size_t width);
// About `count` round numbers within [low, high]; on a log axis 1, 2, 5 times powers of ten, or powers of ten alone.
std::vector<double> ticks(double low, double high, int count);
std::vector<double> log_ticks(double low, double high, int count);

}  // namespace thinwire::report
