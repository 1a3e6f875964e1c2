#include "thinwire/pipeline/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace thinwire::pipeline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double busy(const std::vector<Block>& blocks) {
  double sum = 0;
  for (const Block& block : blocks) sum += block.end - block.begin;
  return sum;
}

char mark(const Block& block) {
  const auto digit = static_cast<char>(block.batch % 10);
  switch (block.kind) {
    case OpKind::forward:
      return static_cast<char>('0' + digit);
    case OpKind::backward:
      return static_cast<char>('a' + digit);
    case OpKind::weights:
      return 'w';
    case OpKind::update:
      return '|';
  }
  return '?';
}

// Of a column; the whole chart takes at most `columns` of them.
double unit_of(const Chart& chart, int columns) {
  const double length = chart.end() - chart.begin();
  double shortest = length;
  for (const auto& blocks : chart.stages)
    for (const Block& block : blocks)
      if (block.end > block.begin) shortest = std::min(shortest, block.end - block.begin);
  const auto fits = [&](double unit) { return length / unit < columns + 0.01; };
  const auto on_columns = [&](double unit) {
    const auto whole = [&](double time) {
      const double n = (time - chart.begin()) / unit;
      return std::abs(n - std::round(n)) < 0.01;
    };
    return std::ranges::all_of(chart.stages, [&](const auto& blocks) {
      return std::ranges::all_of(blocks, [&](const Block& block) { return whole(block.begin) && whole(block.end); });
    });
  };
  for (int parts = 1; parts <= 6; ++parts)
    if (const double unit = shortest / parts; fits(unit) && on_columns(unit)) return unit;
  return fits(shortest) ? shortest : length / columns;
}

// Each column shows what takes most of it, doing nothing included; of equals the later.
std::string row_of(const std::vector<Block>& blocks, double begin, double unit, int columns) {
  std::string row(columns, '.');
  std::vector<double> most(columns, 0.0);
  const auto paint = [&](double from, double to, char with) {
    for (int i = std::max(0, static_cast<int>((from - begin) / unit)); i < columns && begin + i * unit < to; ++i) {
      const double share = std::min(to, begin + (i + 1) * unit) - std::max(from, begin + i * unit);
      if (share <= 0 || share < most[i] - 1e-6 * unit) continue;
      most[i] = share;
      row[i] = with;
    }
  };
  double free = begin;
  for (const Block& block : blocks) {
    paint(free, block.begin, '.');
    paint(block.begin, block.end, mark(block));
    free = block.end;
  }
  paint(free, begin + columns * unit, '.');
  return row;
}

// Items with two blanks between them, in as many lines as it takes.
std::string flow(const std::vector<std::string>& items, size_t width) {
  std::string text, line;
  for (const auto& item : items) {
    if (!line.empty() && line.size() + 2 + item.size() > width) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : "  ") + item;
  }
  return text + line + "\n";
}

}  // namespace

double Chart::begin() const {
  double first = kNever;
  for (const auto& blocks : stages)
    if (!blocks.empty()) first = std::min(first, blocks.front().begin);
  return first == kNever ? 0 : first;
}

double Chart::end() const {
  double last = -kNever;
  for (const auto& blocks : stages)
    if (!blocks.empty()) last = std::max(last, blocks.back().end);
  return last == -kNever ? 0 : last;
}

double Chart::bubbles() const {
  const double all = static_cast<double>(stages.size()) * (end() - begin());
  if (all <= 0) return 0;
  double done = 0;
  for (const auto& blocks : stages) done += busy(blocks);
  return 1 - done / all;
}

Chart Chart::between(double from, double to) const {
  Chart part{std::vector<std::vector<Block>>(stages.size())};
  for (size_t j = 0; j < stages.size(); ++j)
    for (Block block : stages[j]) {
      const bool instant = block.begin == block.end;
      block.begin = std::max(block.begin, from);
      block.end = std::min(block.end, to);
      if (block.begin < block.end || (instant && block.begin == block.end)) part.stages[j].push_back(block);
    }
  return part;
}

Chart simulate(const Schedule& schedule, int64_t steps, const Cost& cost, double transfer) {
  return simulate(schedule, steps, cost, [transfer](int64_t) { return transfer; });
}

Chart simulate(const Schedule& schedule, int64_t steps, const Cost& cost, const Transfer& transfer) {
  if (steps < 1) throw std::invalid_argument(fmt::format("[pipeline.simulate] wanted at least 1 step, got {}", steps));
  const int P = schedule.stages;
  const std::vector<double> not_yet(schedule.first_batch(steps), kNever);
  std::vector forward(P, not_yet), backward(P, not_yet);  // [stage][batch]: when it was ready
  const auto needs = [&](int j, const Op& op) {           // when what it needs is there
    if (op.kind == OpKind::forward && j > 0) return forward[j - 1][op.batch] + transfer(op.batch);
    if (op.kind == OpKind::backward && j < P - 1) return backward[j + 1][op.batch] + transfer(op.batch);
    return 0.0;
  };

  struct Cursor {
    int64_t step = 0;
    size_t next = 0;  // in ops
    std::vector<Op> ops;
    double free = 0;
  };
  std::vector<Cursor> cursors(P);
  for (int j = 0; j < P; ++j) cursors[j].ops = schedule.ops(j, 0, steps);

  Chart chart{std::vector<std::vector<Block>>(P)};
  const auto advance = [&](int j) {  // one operation; false if there is none that can be done yet
    Cursor& cursor = cursors[j];
    if (cursor.next == cursor.ops.size()) {
      if (cursor.step + 1 >= steps) return false;
      cursor.ops = schedule.ops(j, ++cursor.step, steps);
      cursor.next = 0;
    }
    const Op op = cursor.ops[cursor.next];
    const double begin = std::max(cursor.free, needs(j, op));
    if (begin == kNever) return false;
    cursor.free = begin + cost(j, op);
    chart.stages[j].push_back({op.kind, op.batch, begin, cursor.free});
    if (op.kind == OpKind::forward) forward[j][op.batch] = cursor.free;
    if (op.kind == OpKind::backward) backward[j][op.batch] = cursor.free;
    ++cursor.next;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int j = 0; j < P; ++j)
      while (advance(j)) moved = true;
  }
  for (int j = 0; j < P; ++j)
    if (cursors[j].next < cursors[j].ops.size())
      throw std::logic_error(fmt::format("[pipeline.simulate] stage {} waits for ever in step {}", j, cursors[j].step));
  return chart;
}

double steady_utilisation(const Schedule& all, double stage_s, double transfer_s) {
  const Schedule schedule = continued(all, all.sync_steps);
  if (!(stage_s > 0))
    throw std::invalid_argument(fmt::format("[pipeline.steady_utilisation] stage_s must be above 0, got {}", stage_s));
  const bool split = schedule.name == "zero_bubble_h1";
  const Cost cost = [&](int, const Op& op) {
    if (op.kind == OpKind::update) return 0.0;
    return (op.kind == OpKind::backward && !split ? 2 : 1) * stage_s / 3;
  };
  // It repeats after w_0 + 1 steps, here from the first update of stage 0 on; one loop more and the drain are left out.
  // From update to update every stage does the same, so that one of them is enough.
  const int64_t loop = schedule.warmup.at(0) + 1, steady = loop, last = 5 * loop;
  const Chart chart = simulate(schedule, last + loop, cost, transfer_s);
  std::vector<double> updated;
  for (const Block& block : chart.stages[0])
    if (block.kind == OpKind::update) updated.push_back(block.end);
  return static_cast<double>((last - steady) * schedule.microbatches) * stage_s / (updated[last] - updated[steady]);
}

std::string to_text(const Chart& chart, int width) {
  const double begin = chart.begin(), length = chart.end() - begin;
  if (length <= 0) return "nothing that took time\n";
  const size_t stages = chart.stages.size();
  const int digits = static_cast<int>(std::to_string(stages - 1).size());
  width = std::max(width, 40);
  const double unit = unit_of(chart, width - digits - 15);  // "stage ", two blanks, two blanks, "100 %"
  const int columns = static_cast<int>(std::ceil(length / unit - 0.02));

  std::string rows;
  for (size_t j = 0; j < stages; ++j)
    rows += fmt::format("stage {:{}}  {}  {:3.0f} %\n", j, digits, row_of(chart.stages[j], begin, unit, columns),
                        100 * busy(chart.stages[j]) / length);

  std::vector<std::string> marks = {"0-9 forward (last digit)", "a-j its backward"};
  if (rows.find('w') != std::string::npos) marks.push_back("w weights");
  if (rows.find('|') != std::string::npos) marks.push_back("| update");
  marks.push_back(fmt::format(". idle {:.1f} %", 100 * std::abs(chart.bubbles())));
  marks.push_back(fmt::format("1 column = {:.3g}", unit));
  return flow(marks, width) + rows;
}

}  // namespace thinwire::pipeline
