#include "thinwire/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/report/axis.h"
#include "thinwire/report/text.h"

namespace thinwire::report {
namespace {

constexpr size_t kLanes = 4;  // ranks drawn
constexpr double kPitch = 30, kCompute = 13, kWire = 7, kTop = 4, kBelow = 26;

double total(const Spans& spans) {
  double sum = 0;
  for (const auto& s : spans) sum += s.end - s.begin;
  return sum;
}

size_t lanes(const train::TimelineRecord& timeline) { return std::min(kLanes, timeline.ranks.size()); }

// In one line, or two where a rank is a stage of one of several replicas; on a phone the numbers alone.
std::string lane_name(const train::TimelineRecord& timeline, size_t rank, bool small, double y) {
  const auto line = [](double at, const char* what, const std::string& number) {
    return fmt::format(R"(<text class="lane" x="0" y="{}">{}{}</text>)", at, what, number);
  };
  if (timeline.stages == 1) return line(y, small ? "" : "replica ", std::to_string(rank));
  const auto stages = static_cast<size_t>(timeline.stages);
  const std::string replica = std::to_string(rank / stages), stage = std::to_string(rank % stages);
  if (timeline.ranks.size() == stages) return line(y, small ? "" : "stage ", stage);
  if (small) return line(y, "", replica + "." + stage);
  return line(y, "replica ", replica) + line(y + 12, "stage ", stage);
}

std::string bar(const char* kind, const train::TimelineRecord::Span& span, const Scale& x, double top, double height,
                const std::string& tip) {
  return fmt::format(R"(<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}" data-tip="{}"/>)", kind,
                     x(span.begin), top, std::max(0.6, x(span.end) - x(span.begin)), height, escaped(tip));
}

}  // namespace

Spans joined(Spans spans, double end, double gap) {
  std::ranges::sort(spans, {}, &train::TimelineRecord::Span::begin);
  Spans out;
  for (auto span : spans) {
    if (span.begin >= end) break;
    span.end = std::min(span.end, end);
    if (out.empty() || span.begin - out.back().end > gap) {
      out.push_back(span);
      continue;
    }
    out.back().end = std::max(out.back().end, span.end);
    out.back().bytes += span.bytes;
  }
  return out;
}

double overlap(const Spans& a, const Spans& b) {
  double sum = 0;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    sum += std::max(0.0, std::min(a[i].end, b[k].end) - std::max(a[i].begin, b[k].begin));
    (a[i].end < b[k].end ? i : k)++;
  }
  return sum;
}

TimelineSummary summary(const train::TimelineRecord& timeline, double seconds) {
  TimelineSummary sum;
  const double shown = std::min(seconds, timeline.seconds()), ranks = static_cast<double>(timeline.ranks.size());
  double busy = 0, covered = 0;
  for (const auto& rank : timeline.ranks) {
    const auto waits = joined(rank.waits, shown, 0), transfers = joined(rank.transfers, shown, 0);
    sum.steps += static_cast<double>(std::ranges::count_if(
                     rank.steps, [&](const auto& step) { return step.end <= shown * (1 + 1e-9); })) /
                 ranks;
    sum.waiting += total(waits) / shown / ranks;
    busy += total(transfers);
    covered += overlap(transfers, waits);
  }
  sum.wire = busy / shown / ranks;
  sum.hidden = busy > 0 ? 1 - covered / busy : 0;
  return sum;
}

double common_seconds(const std::vector<const train::TimelineRecord*>& timelines) {
  double least = INFINITY, most = 0;
  for (const auto* timeline : timelines) {
    least = std::min(least, timeline->seconds());
    most = std::max(most, timeline->seconds());
  }
  return std::max(least, 0.6 * most);
}

double timeline_height(const train::TimelineRecord& timeline) {
  return kTop + kPitch * static_cast<double>(lanes(timeline)) + kBelow;
}

std::string timeline_svg(const train::TimelineRecord& timeline, const std::string& title, double seconds, Size size) {
  const bool small = size.width < 400;
  const bool two_numbers = timeline.stages > 1 && std::ssize(timeline.ranks) > timeline.stages;  // "0.1"
  const double left = small ? (two_numbers ? 25 : 18) : 66, right = size.width - 12,
               bottom = kTop + kPitch * static_cast<double>(lanes(timeline));
  const Scale x(0, seconds, left, right, false);
  const double pixel = seconds / (right - left);
  std::string svg = fmt::format(R"(<svg class="lanes" viewBox="0 0 {} {}" role="img"><title>{}</title>)", size.width,
                                size.height, escaped(title));
  const double unit = seconds < 1.5 ? 1e-3 : 1;
  for (const double v : ticks(0, seconds, small ? 4 : 8)) {
    svg += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>)", x(v), x(v), kTop, bottom);
    svg += fmt::format(R"(<text class="ticktext" x="{:.1f}" y="{}" text-anchor="{}">{:.4g}{}</text>)", x(v),
                       bottom + 18, right - x(v) < 12 ? "end" : "middle", v / unit, unit < 1 ? " ms" : " s");
  }
  for (size_t r = 0; r < lanes(timeline); ++r) {
    const auto& rank = timeline.ranks[r];
    const double top = kTop + kPitch * static_cast<double>(r) + 2, below = top + kCompute + 1;
    svg += lane_name(timeline, r, small, top + 11);
    int64_t number = timeline.from_step;
    for (auto span : rank.steps) {
      const std::string tip = fmt::format("step {}: {}", number++, time_text(span.end - span.begin));
      if (span.begin >= seconds) break;
      span.end = std::min(span.end, seconds);
      svg += bar("compute", span, x, top, kCompute, tip);
    }
    for (const auto& span : joined(rank.waits, seconds, pixel / 2))
      svg += bar("wait", span, x, top, kCompute, "waiting for the wire: " + time_text(span.end - span.begin));
    for (const auto& span : joined(rank.transfers, seconds, pixel / 2))
      svg += bar("wire", span, x, below, kWire,
                 fmt::format("on the wire: {} in {}", bytes_text(span.bytes), time_text(span.end - span.begin)));
  }
  if (const double end = x(timeline.seconds()); right - end > 140)
    svg += fmt::format(R"(<text class="ticktext" x="{:.1f}" y="{}">the record ends here</text>)", end + 8, kTop + 13);
  return svg + "</svg>";
}

}  // namespace thinwire::report
