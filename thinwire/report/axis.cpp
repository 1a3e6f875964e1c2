#include "thinwire/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/report/text.h"

namespace thinwire::report {
namespace {

// One unit for a whole axis: the one its largest number wants.
struct AxisUnit {
  double divide = 1;
  std::string name;
};

AxisUnit axis_unit(Unit unit, double largest) {
  if (unit == Unit::bytes)
    return largest >= 2e9 ? AxisUnit{1e9, "GB"} : largest >= 2e6 ? AxisUnit{1e6, "MB"} : AxisUnit{1e3, "kB"};
  if (unit == Unit::seconds)
    return largest >= 4 * 3600 ? AxisUnit{3600, "hours"} : largest >= 300 ? AxisUnit{60, "minutes"} : AxisUnit{1, "s"};
  if (largest >= 0.01 || largest <= 0) return {};
  static constexpr const char* digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  const int power =
      static_cast<int>(std::ceil(-std::log10(largest) - 1e-9));  // small numbers are told in powers of ten
  std::string name = "units of 10⁻";
  for (const char c : std::to_string(power)) name += digits[c - '0'];
  return {std::pow(10, -power), name};
}

std::string tick_text(double value) { return fmt::format("{:.{}g}", value, std::abs(value) >= 1e6 ? 3 : 6); }

std::string named(const std::string& name, const AxisUnit& unit) {
  return escaped(unit.name.empty() ? name : fmt::format("{} ({})", name, unit.name));
}

}  // namespace

Scale::Scale(double low, double high, double from_px, double to_px, bool log)
    : low_(low), high_(high), from_(from_px), to_(to_px), log_(log) {}

double Scale::operator()(double value) const {
  const double share = log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + share * (to_ - from_);
}

std::string Scale::data(Unit unit) const {
  static constexpr const char* names[] = {"number", "steps", "seconds", "bytes"};
  return fmt::format("{:.9g} {:.9g} {} {} {} {}", low_, high_, from_, to_, log_ ? "log" : "linear",
                     names[static_cast<int>(unit)]);
}

std::vector<double> Scale::ticks(int count) const {
  return log_ ? report::log_ticks(low_, high_, count) : report::ticks(low_, high_, count);
}

double text_width(const std::string& text) { return 6.9 * static_cast<double>(text.size()); }

std::string axes_svg(const Scale& x, const Scale& y, const Box& plot, Unit x_unit, const std::string& x_name,
                     const std::string& y_name, Size size) {
  const bool small = size.width < 400;
  std::string svg = R"(<g class="axis">)";
  const auto rows = y.ticks(small ? 5 : 6);
  const AxisUnit y_unit = axis_unit(Unit::number, rows.empty() ? 0 : rows.back());
  for (const double v : rows) {
    svg += fmt::format(R"(<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>)", plot.left, plot.right, y(v),
                       y(v));
    svg += fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", plot.left - 8, y(v) + 4,
                       tick_text(v / y_unit.divide));
  }
  const auto columns = x.ticks(small ? 5 : size.width < 700 ? 6 : 10);
  const AxisUnit unit = axis_unit(x_unit, columns.empty() ? 0 : columns.back());
  for (const double v : columns) {
    svg += fmt::format(R"(<line class="tick" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>)", x(v), x(v), plot.bottom,
                       plot.bottom + 5);
    svg += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x(v), plot.bottom + 19,
                       tick_text(v / unit.divide));
  }
  svg += fmt::format(R"(<line class="base" x1="{}" x2="{}" y1="{}" y2="{}"/>)", plot.left, plot.right, plot.bottom,
                     plot.bottom);
  svg += fmt::format(R"(<text class="name" x="{}" y="{}" text-anchor="end">{} →</text>)", plot.right, plot.bottom + 38,
                     named(x_name, unit));
  svg += fmt::format(R"(<text class="name" x="2" y="13">{}</text></g>)", named(y_name, y_unit));
  return svg;
}

std::vector<double> ticks(double low, double high, int count) {
  if (!(high > low) || count < 1) return {low};
  const double rough = (high - low) / count, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * 0.999) {
      step = factor * power;
      break;
    }
  std::vector<double> out;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) {
    const double v = k * step;
    out.push_back(std::abs(v) < 1e-9 * step ? 0 : v);
  }
  return out;
}

std::vector<double> log_ticks(double low, double high, int count) {
  std::vector<double> fine, coarse;
  for (int power = static_cast<int>(std::floor(std::log10(low))); power <= std::log10(high); ++power)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double v = factor * std::pow(10, power);
      if (v < low * (1 - 1e-9) || v > high * (1 + 1e-9)) continue;
      fine.push_back(v);
      if (factor == 1) coarse.push_back(v);
    }
  if (static_cast<int>(fine.size()) <= count) return fine;
  const size_t every = std::max<size_t>(1, (coarse.size() + count - 1) / count);
  std::vector<double> out;
  for (size_t i = 0; i < coarse.size(); i += every) out.push_back(coarse[i]);
  return out;
}

}  // namespace thinwire::report
