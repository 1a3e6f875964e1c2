#include "thinwire/report/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/report/text.h"

namespace thinwire::report {
namespace {
constexpr double kHeight = 15;
}

void Labels::pass_by(Point from, Point to) {
  const double length = std::hypot(to.x - from.x, to.y - from.y);
  const int dots = std::clamp(static_cast<int>(std::ceil(length / 4)), 1, 400);
  for (int i = 1; i <= dots; ++i)
    passed_.push_back({from.x + (to.x - from.x) * i / dots, from.y + (to.y - from.y) * i / dots});
}

double Labels::cost(const Box& box, Point end) const {
  double sum = std::abs((box.top + box.bottom) / 2 - end.y);
  if (box.top < plot_.top - 6 || box.bottom > plot_.bottom - 1) sum += 500;
  for (const Box& other : taken_)
    if (box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom)
      sum += 2000;
  int covered = 0;
  for (const Point& p : passed_)
    covered += p.x > box.left - 1 && p.x < box.right && p.y > box.top && p.y < box.bottom ? 1 : 0;
  return sum + 12.0 * std::min(covered, 60);
}

Box Labels::spot(const Label& label) const {
  const double width = text_width(label.text);
  Box best{};
  double lowest = INFINITY;
  for (int k = 0; k <= 32; ++k) {
    const int away = (k + 1) / 2;
    const double middle = label.end.y + (k % 2 ? 7.0 : -7.0) * away;
    for (const double left : {label.end.x + 8, label.end.x - width - 2, label.end.x - width - 30}) {
      if (left < plot_.left || left + width > size_.width) continue;
      const Box box{left, middle - kHeight / 2, left + width, middle + kHeight / 2};
      const double here = cost(box, label.end) + (left > label.end.x ? 0 : 12);
      if (here < lowest) lowest = here, best = box;
    }
  }
  return best;
}

std::string Labels::draw(const Label& label, const Box& box) {
  const double middle = (box.top + box.bottom) / 2;
  std::string svg;
  if (box.left > label.end.x && std::hypot(box.left - label.end.x, middle - label.end.y) > 14)
    svg = fmt::format(R"(<line class="leader s{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", label.look,
                      label.end.x + 4, label.end.y, box.left - 3, middle);
  return svg + fmt::format(R"(<text class="label s{}" x="{:.1f}" y="{:.1f}">{}</text>)", label.look, box.left,
                           middle + 4, escaped(label.text));
}

void Labels::column(const std::vector<Label>& labels, std::string& svg) {
  std::vector<double> at;
  for (const auto& label : labels) at.push_back(std::max(label.end.y, at.empty() ? plot_.top : at.back() + kHeight));
  double below = plot_.bottom + 2;
  for (size_t i = at.size(); i-- > 0; below = at[i] - kHeight) at[i] = std::min(at[i], below);
  for (size_t i = 0; i < at.size(); ++i) {
    const double left = plot_.right + 12;
    const Box box{left, at[i] - kHeight / 2, left + text_width(labels[i].text), at[i] + kHeight / 2};
    taken_.push_back(box);
    svg += draw(labels[i], box);
  }
}

std::string Labels::place(std::vector<Label> labels) {
  std::ranges::sort(labels, {}, [](const Label& label) { return label.end.y; });
  std::vector<Label> right, near;
  for (const auto& label : labels) {
    const bool fits = plot_.right + 12 + text_width(label.text) <= size_.width + 4;
    (fits && plot_.right - label.end.x < 60 ? right : near).push_back(label);
  }
  std::string svg;
  column(right, svg);
  for (const auto& label : near) {
    const Box box = spot(label);
    if (box.right <= box.left) continue;  // longer than the picture is wide: the legend has it
    taken_.push_back(box);
    svg += draw(label, box);
  }
  return svg;
}

}  // namespace thinwire::report
