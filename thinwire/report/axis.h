// Axes of a chart: from values to pixels, ticks, grid, names.
#pragma once

#include <string>

#include "thinwire/report/chart.h"

namespace thinwire::report {

struct Box {
  double left, top, right, bottom;
};

class Scale {
 public:
  Scale(double low, double high, double from_px, double to_px, bool log);
  double operator()(double value) const;
  std::string data(Unit unit) const;  // for the page's script
  std::vector<double> ticks(int count) const;

 private:
  double low_, high_, from_, to_;
  bool log_;
};

// Width in pixels of a text in the charts' font, about.
double text_width(const std::string& text);

// Grid, tick labels with their unit, and the names of both axes.
std::string axes_svg(const Scale& x, const Scale& y, const Box& plot, Unit x_unit, const std::string& x_name,
                     const std::string& y_name, Size size);

}  // namespace thinwire::report
