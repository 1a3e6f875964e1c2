#include "thinwire/report/curves.h"

#include <algorithm>
#include <cmath>

#include "thinwire/report/page.h"

namespace thinwire::report {
namespace {

template <class Record>
double x_of(const Record& record, Over over) {
  return over == Over::steps     ? static_cast<double>(record.step)
         : over == Over::seconds ? record.seconds
                                 : record.wire_bytes;
}

Series loss_series(const train::RunRecord& run, int look, Over over) {
  Series series{.label = run.label, .look = look};
  std::vector<double> losses;
  for (const auto& step : run.steps) losses.push_back(step.loss);
  const auto means = smoothed(losses, std::clamp<size_t>(losses.size() / 20, 5, 400));
  for (size_t i = 0; i < means.size(); ++i) series.line.push_back({x_of(run.steps[i], over), means[i]});
  for (const auto& eval : run.evals) series.dots.push_back({x_of(eval, over), eval.val_loss});
  return series;
}

bool far_apart(const std::vector<train::RunRecord>& runs) {
  double least = INFINITY, most = 0;
  for (const auto& run : runs) {
    if (!(run.result.wire_bytes > 0)) continue;
    least = std::min(least, run.result.wire_bytes);
    most = std::max(most, run.result.wire_bytes);
  }
  return most > 5 * least;
}

// The highest loss of the last four fifths of any run; unset where that would cut nothing off.
std::optional<double> late_top(const std::vector<train::RunRecord>& runs) {
  double late = -INFINITY, all = -INFINITY;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Series series = loss_series(runs[i], 0, Over::steps);
    for (const auto* points : {&series.line, &series.dots})
      for (const auto& p : *points) {
        if (!std::isfinite(p.y)) continue;
        all = std::max(all, p.y);
        if (p.x >= 0.2 * static_cast<double>(runs[i].result.steps)) late = std::max(late, p.y);
      }
  }
  return std::isfinite(late) && late < all ? std::optional(late) : std::nullopt;
}

// The entropy of the data, where all runs have the same data.
std::optional<double> common_floor(const std::vector<train::RunRecord>& runs) {
  std::optional<double> floor;
  for (const auto& run : runs) {
    if (run.key("data", "source") != runs[0].key("data", "source")) return std::nullopt;
    if (!run.entropy) continue;  // an unfinished run does not say
    if (floor && *floor != *run.entropy) return std::nullopt;
    floor = run.entropy;
  }
  return floor;
}

}  // namespace

Chart loss_chart(const std::vector<train::RunRecord>& runs, Over over) {
  Chart chart{.y_name = "loss (nats a token)", .dots_name = "held-out"};
  if (over == Over::steps) chart.id = "steps", chart.x_name = "steps", chart.x_unit = Unit::steps;
  if (over == Over::seconds) chart.id = "seconds", chart.x_name = "time of training", chart.x_unit = Unit::seconds;
  if (over == Over::bytes) {
    chart.id = "bytes", chart.x_name = "sent by a replica", chart.x_unit = Unit::bytes;
    chart.x_log = far_apart(runs);
  }
  chart.title = "Loss over " + chart.x_name + ", a line for each run";
  chart.y_top = late_top(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    chart.series.push_back(loss_series(runs[i], static_cast<int>(i) % kLooks, over));
  }
  chart.floor = common_floor(runs);
  chart.floor_label = "lowest possible loss";
  return chart;
}

std::optional<Chart> distance_chart(const std::vector<train::RunRecord>& runs) {
  Chart chart{.id = "distance",
              .title = "Consensus distance over steps, a line for each run",
              .x_name = "steps",
              .y_name = "consensus distance",
              .x_unit = Unit::steps,
              .y_from_zero = true};
  bool any = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    Series series{.label = runs[i].label, .look = static_cast<int>(i) % kLooks};
    for (const auto& eval : runs[i].evals) {
      if (eval.final) continue;  // finish() has made them equal
      series.dots.push_back({static_cast<double>(eval.step), eval.consensus_distance});
      any |= eval.consensus_distance > 0;
    }
    series.line = series.dots;
    chart.series.push_back(std::move(series));
  }
  if (!any) return std::nullopt;
  return chart;
}

}  // namespace thinwire::report
