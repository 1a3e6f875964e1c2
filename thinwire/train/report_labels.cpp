#include "thinwire/train/report_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/train/report_text.h"

namespace thinwire::train {

double Labels::cost(const Box& box, Point end) const {
  double sum = std::abs((box.top + box.bottom) / 2 - end.y);
  if (box.top < plot_.top - 6 || box.bottom > plot_.bottom + 4) sum += 500;
  for (const Box& other : taken_)
    if (box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom) sum += 2000;
  int covered = 0;
  for (const Point& p : passed_)
    covered += p.x > box.left - 1 && p.x < box.right && p.y > box.top && p.y < box.bottom ? 1 : 0;
  return sum + 4.0 * std::min(covered, 40);
}

std::string Labels::place(const std::string& text, int look, Point end) {
  const double width = text_width(text), height = 14;
  Box best{};
  double lowest = INFINITY;
  for (int k = 0; k <= 24; ++k) {
    const double dy = (k % 2 ? 1 : -1) * ((k + 1) / 2) * 7.0;
    for (const double left : {end.x + 8, end.x - width - 2, end.x - width - 30}) {
      if (left < plot_.left || left + width > size_.width) continue;
      const Box box{left, end.y + dy - height / 2, left + width, end.y + dy + height / 2};
      const double here = cost(box, end) + (left > end.x ? 0 : 12);
      if (here < lowest) lowest = here, best = box;
    }
  }
  if (std::isinf(lowest)) return "";  // longer than the picture: the legend has it
  taken_.push_back(best);
  const double middle = (best.top + best.bottom) / 2;
  std::string svg;
  if (best.left > end.x && std::abs(middle - end.y) > 6)
    svg = fmt::format(R"(<line class="leader s{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", look, end.x + 1,
                      end.y, best.left - 1, middle);
  return svg + fmt::format(R"(<text class="label s{}" x="{:.1f}" y="{:.1f}">{}</text>)", look, best.left, middle + 4,
                           escaped(text));
}

}  // namespace thinwire::train
