#include "thinwire/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/report/axis.h"
#include "thinwire/report/labels.h"
#include "thinwire/report/text.h"

namespace thinwire::report {
namespace {

bool drawable(const Point& p, const Chart& chart) {
  return std::isfinite(p.x) && std::isfinite(p.y) && (!chart.x_log || p.x > 0);
}

std::vector<Point> drawable(const std::vector<Point>& points, const Chart& chart) {
  std::vector<Point> kept;
  std::ranges::copy_if(points, std::back_inserter(kept), [&](const Point& p) { return drawable(p, chart); });
  return kept;
}

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double v) { low = std::min(low, v), high = std::max(high, v); }
  bool empty() const { return low > high; }
};

Range x_range(const Chart& chart) {
  Range range;
  if (!chart.x_log) range.add(0);
  for (const auto& s : chart.series)
    for (const auto* points : {&s.line, &s.dots})
      for (const auto& p : *points)
        if (drawable(p, chart)) range.add(p.x);
  return range;
}

Range y_range(const Chart& chart) {
  Range range;
  for (const auto& s : chart.series)
    for (const auto* points : {&s.line, &s.dots})
      for (const auto& p : drawable(*points, chart)) range.add(p.y);
  if (chart.floor) range.add(*chart.floor);
  if (chart.y_from_zero) range.add(0);
  if (range.empty()) return {0, 1};
  if (chart.y_top) range.high = std::max(range.low, std::min(range.high, *chart.y_top));
  const double pad =
      range.high > range.low ? 0.06 * (range.high - range.low) : std::max(0.5, 0.1 * std::abs(range.high));
  return {chart.y_from_zero ? 0 : range.low - pad, range.high + pad};
}

std::string points_text(const std::vector<Point>& points, const Scale& x, const Scale& y) {
  std::string out;
  for (const auto& p : points)
    out += fmt::format("{}{:.1f},{:.2f}", out.empty() ? "" : " ", x(p.x), std::clamp(y(p.y), -1e4, 1e4));
  return out;
}

}  // namespace

std::string chart_svg(const Chart& chart, Size size) {
  const bool small = size.width < 400;
  double label_width = 0;
  for (const auto& s : chart.series) label_width = std::max(label_width, text_width(s.label));
  const Box plot{.left = small ? 36.0 : 52.0,
                 .top = 26,
                 .right = size.width - std::min(label_width + 16, 0.25 * size.width),
                 .bottom = size.height - 44};
  Range xs = x_range(chart);
  if (xs.empty() || xs.low == xs.high) xs = {chart.x_log ? 1.0 : 0.0, std::max(1.0, xs.high)};
  const Range ys = y_range(chart);
  const Scale x(xs.low, xs.high, plot.left, plot.right, chart.x_log), y(ys.low, ys.high, plot.bottom, plot.top, false);

  std::string svg = fmt::format(
      R"(<svg class="chart" viewBox="0 0 {} {}" role="img" data-x="{}" data-y="{}" data-dots="{}"><title>{}</title>)",
      size.width, size.height, x.data(chart.x_unit), y.data(Unit::number), escaped(chart.dots_name),
      escaped(chart.title));
  const std::string clip = fmt::format("{}-{}", chart.id, static_cast<int>(size.width));
  svg += fmt::format(R"(<clipPath id="{}"><rect x="{}" y="{}" width="{}" height="{}"/></clipPath>)", escaped(clip),
                     plot.left, plot.top - 4, plot.right - plot.left + 6, plot.bottom - plot.top + 8);
  svg += axes_svg(x, y, plot, chart.x_unit, chart.x_name, chart.y_name, size);
  Labels labels(plot, size);
  if (chart.floor) {
    const double at = y(*chart.floor);
    svg +=
        fmt::format(R"(<line class="floor" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)", plot.left, plot.right, at, at);
    svg += fmt::format(R"(<text class="floorname" x="{}" y="{:.1f}">{}</text>)", plot.left + 6, at - 6,
                       escaped(chart.floor_label));
    labels.keep_clear({plot.left, at - 18, plot.left + 6 + text_width(chart.floor_label), at + 2});
  }
  svg += fmt::format("<g clip-path=\"url(#{})\">", escaped(clip));
  for (const auto& s : chart.series) {
    const auto line = drawable(s.line, chart), dots = drawable(s.dots, chart);
    if (line.size() > 1)
      svg += fmt::format(R"(<polyline class="line s{}" data-name="{}" points="{}"/>)", s.look, escaped(s.label),
                         points_text(thinned(line), x, y));
    for (const auto& p : thinned(dots, static_cast<size_t>(size.width / 40)))
      svg += fmt::format(R"(<circle class="dot s{}" cx="{:.1f}" cy="{:.1f}" r="{}" data-name="{}" data-v="{:.6g}"/>)",
                         s.look, x(p.x), y(p.y), small ? 3 : 3.5, escaped(s.label), p.y),
          labels.pass_by({x(p.x) - 4, y(p.y)}, {x(p.x) + 4, y(p.y)});
    std::optional<Point> before;
    for (const auto& p : thinned(line)) {
      const Point here{x(p.x), y(p.y)};
      labels.pass_by(before.value_or(here), here);
      before = here;
    }
  }
  svg += "</g>";
  std::vector<Labels::Label> names;
  for (const auto& s : chart.series) {
    const auto line = drawable(s.line.empty() ? s.dots : s.line, chart);
    if (!line.empty())
      names.push_back({s.label, s.look, {x(line.back().x), std::clamp(y(line.back().y), plot.top, plot.bottom)}});
  }
  svg += labels.place(names);
  svg += fmt::format(R"(<line class="cursor" y1="{}" y2="{}" x1="0" x2="0"/></svg>)", plot.top, plot.bottom);
  return svg;
}

std::vector<Point> thinned(const std::vector<Point>& line, size_t points) {
  if (line.size() <= points) return line;
  std::vector<Point> kept;
  for (size_t i = 0; i < points; ++i) kept.push_back(line[i * (line.size() - 1) / (points - 1)]);
  return kept;
}

std::vector<double> smoothed(const std::vector<double>& values, size_t width) {
  std::vector<double> sum{0}, count{0}, out;  // of all finite values before
  for (const double v : values) {
    sum.push_back(sum.back() + (std::isfinite(v) ? v : 0));
    count.push_back(count.back() + (std::isfinite(v) ? 1 : 0));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t before = std::min(width / 2, i), behind = std::min({width / 2, i, values.size() - 1 - i});
    const size_t from = i - before, to = i + behind + 1;
    out.push_back((sum[to] - sum[from]) / (count[to] - count[from]));  // 0 / 0 where there is none
  }
  return out;
}

}  // namespace thinwire::report
