// Names at the ends of lines, placed so that they cover neither each other nor the lines.
#pragma once

#include <string>
#include <vector>

#include "thinwire/train/report_axis.h"

namespace thinwire::train {

class Labels {
 public:
  Labels(const Box& plot, Size size) : plot_(plot), size_(size) {}
  void pass_by(Point px) { passed_.push_back(px); }         // a line goes through here
  void keep_clear(const Box& box) { taken_.push_back(box); }  // something else stands here
  // The label of the line that ends at `end`: beside it if there is room, otherwise above or below, with a thin leader.
  std::string place(const std::string& text, int look, Point end);

 private:
  double cost(const Box& box, Point end) const;
  Box plot_;
  Size size_;
  std::vector<Point> passed_;
  std::vector<Box> taken_;
};

}  // namespace thinwire::train
