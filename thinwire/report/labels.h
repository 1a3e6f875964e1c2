// Names at the ends of lines, placed so that they cover neither each other nor the lines.
#pragma once

#include <string>
#include <vector>

#include "thinwire/report/axis.h"

namespace thinwire::report {

class Labels {
 public:
  Labels(const Box& plot, Size size) : plot_(plot), size_(size) {}
  void pass_by(Point from, Point to);                         // a line goes here
  void keep_clear(const Box& box) { taken_.push_back(box); }  // something else stands here
  struct Label {
    std::string text;
    int look;
    Point end;  // of its line
  };
  // Names of lines that end at the right edge go into a column beside the plot, where there is room for one, in the
  // order in which the lines end. The others stand near their ends. A thin leader joins what is apart.
  std::string place(std::vector<Label> labels);

 private:
  double cost(const Box& box, Point end) const;
  Box spot(const Label& label) const;  // the best one near its end; of no width if there is none
  void column(const std::vector<Label>& labels, std::string& svg);
  static std::string draw(const Label& label, const Box& box);
  Box plot_;
  Size size_;
  std::vector<Point> passed_;
  std::vector<Box> taken_;
};

}  // namespace thinwire::report
