#include "thinwire/report/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "thinwire/report/axis.h"
#include "thinwire/report/text.h"

namespace thinwire::report {
namespace {

using pipeline::Block;
using pipeline::OpKind;

constexpr double kTop = 4, kBelow = 26;

struct Look {
  const char *kind, *name;  // class in the style sheet; what a person reads
};
constexpr Look kLooks[] = {
    {"forward", "forward"}, {"backward", "backward"}, {"weights", "gradient of the weights"}, {"update", "update"}};

Look look(OpKind kind) { return kLooks[static_cast<int>(kind)]; }

double pitch(const train::PipelineRecord& pipeline) { return pipeline.costs.size() <= 8 ? 26 : 18; }

// Steps, minibatches and the microbatches of a step count from 1 here.
std::string number_in(const train::PipelineRecord& pipeline, const Block& block) {
  if (block.kind == OpKind::update) return "";
  const auto place = pipeline.place_of(block.batch);
  return std::to_string((place.synchronous ? place.part : place.step) + 1);
}

std::string tip(const train::PipelineRecord& pipeline, size_t stage, const Block& block) {
  std::string of = fmt::format("step {}", block.batch + 1);
  if (block.kind != OpKind::update) {
    const auto place = pipeline.place_of(block.batch);
    of = place.synchronous ? fmt::format("microbatch {} of step {}", place.part + 1, place.step + 1)
                           : fmt::format("minibatch {}", place.step + 1);
  }
  return fmt::format("stage {}, {}, {}: {}", stage, look(block.kind).name, of, time_text(block.end - block.begin));
}

std::string stage_tip(const train::PipelineRecord& pipeline, size_t stage) {
  const train::StageCosts& c = pipeline.costs[stage];
  std::vector<std::string> costs;
  for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::weights, OpKind::update})
    if (c.of(kind) > 0) costs.push_back(fmt::format("{} {}", look(kind).name, time_text(c.of(kind))));
  return fmt::format("stage {}, medians: {}", stage, and_text(costs));
}

// With a hair of room after it, where it is not that thin itself.
std::string rect(const char* kind, double from, double to, double top, double height, const std::string& tip) {
  const double width = to - from > 3 ? to - from - 0.8 : std::max(0.8, to - from);
  return fmt::format(R"(<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}" data-tip="{}"/>)", kind, from,
                     top, width, height, escaped(tip));
}

// "4, 3, 2 and 1"; of many stages the first and the last.
std::string by_stage(const train::PipelineRecord& pipeline, int64_t pipeline::PeakStash::*what) {
  std::vector<std::string> numbers;
  for (const auto& peak : pipeline.peak_stash) numbers.push_back(std::to_string(peak.*what));
  if (std::ranges::count(numbers, numbers[0]) == std::ssize(numbers)) return numbers[0];
  return numbers.size() > 8 ? numbers.front() + " to " + numbers.back() : and_text(numbers);
}

std::string kept_html(const train::PipelineRecord& pipeline) {
  const std::string versions = by_stage(pipeline, &pipeline::PeakStash::versions),
                    inputs = by_stage(pipeline, &pipeline::PeakStash::inputs);
  return fmt::format(" From the first to the last they keep {} version{} of the weights and {} input{}.", versions,
                     versions == "1" ? "" : "s", versions == inputs ? "as many" : inputs,
                     inputs == "1" && versions != "1" ? "" : "s");
}

}  // namespace

double pipeline_height(const train::PipelineRecord& pipeline) {
  return kTop + pitch(pipeline) * static_cast<double>(pipeline.costs.size()) + kBelow;
}

std::string pipeline_svg(const train::PipelineRecord& pipeline, const train::PipelinePicture& picture,
                         const std::string& title, double seconds, Size size) {
  const bool small = size.width < 400;
  const double row = pitch(pipeline), left = small ? 20 : 62, right = size.width - (small ? 8 : 76),
               bottom = kTop + row * static_cast<double>(picture.chart.stages.size());
  const Scale x(0, seconds, left, right, false);
  std::string svg = fmt::format(R"(<svg class="stages" viewBox="0 0 {} {}" role="img"><title>{}</title>)", size.width,
                                size.height, escaped(title));
  const double unit = seconds < 1.5 ? 1e-3 : 1;
  for (const double v : ticks(0, seconds, small ? 4 : 8)) {
    svg += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>)", x(v), x(v), kTop, bottom);
    svg += fmt::format(R"(<text class="ticktext" x="{:.1f}" y="{}" text-anchor="{}">{:.4g}{}</text>)", x(v),
                       bottom + 18, small && right - x(v) < 12 ? "end" : "middle", v / unit, unit < 1 ? " ms" : " s");
  }
  for (size_t j = 0; j < picture.chart.stages.size(); ++j) {
    const double top = kTop + row * static_cast<double>(j) + 2, height = row - 4, line = top + height / 2 + 4.5;
    svg += fmt::format(R"(<text class="lane" x="0" y="{}" data-tip="{}">{}{}</text>)", line,
                       escaped(stage_tip(pipeline, j)), small ? "" : "stage ", j);
    const auto idle = [&](double from, double to) {
      if (x(to) - x(from) > 0.4)
        svg += rect("idle", x(from), x(to), top, height, fmt::format("stage {}, idle: {}", j, time_text(to - from)));
    };
    double free = 0;
    for (const Block& block : picture.chart.stages[j]) {
      if (block.end <= block.begin) continue;
      idle(free, block.begin);
      free = block.end;
      const Look as = look(block.kind);
      svg += rect(as.kind, x(block.begin), x(block.end), top, height, tip(pipeline, j, block));
      const std::string number = number_in(pipeline, block);
      const double room = x(block.end) - x(block.begin);
      if (!number.empty() && row >= 20 && room > 6.6 * static_cast<double>(number.size()) + 3)
        svg += fmt::format(R"(<text class="batch on-{}" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", as.kind,
                           (x(block.begin) + x(block.end)) / 2, line, number);
    }
    idle(free, picture.seconds);
    if (!small)
      svg += fmt::format(R"(<text class="lane" x="{}" y="{}" text-anchor="end">{} idle</text>)", size.width, line,
                         percent_text(picture.idle(j)));
  }
  return svg + "</svg>";
}

bool has_weights(const train::PipelineRecord& pipeline) {
  return std::ranges::any_of(pipeline.costs, [](const train::StageCosts& c) { return c.weights_s > 0; });
}

std::string pipeline_legend(bool weights) {
  auto item = [](const char* kind, const char* name) {
    return fmt::format(
        R"(<li><span class="swatch"><svg viewBox="0 0 18 11" preserveAspectRatio="none"><title>{}</title>)"
        R"(<rect class="{}" width="18" height="11"/></svg></span>{}</li>)",
        name, kind, name);
  };
  std::string out = "<ul class=\"legend\">";
  for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::weights, OpKind::update})
    if (kind != OpKind::weights || weights) out += item(look(kind).kind, look(kind).name);
  return out + item("idle", "idle") + "</ul>\n";
}

std::string schedule_html(const train::PipelineRecord& pipeline) {
  static const std::map<std::string, std::string> sentences = {
      {"gpipe",
       "A step does all its forwards, then all its backwards, then one update: the pipeline fills and drains in "
       "every step."},
      {"1f1b",
       "A step does forwards and backwards by turns, so that few inputs are kept, and then one update: the "
       "pipeline fills and drains in every step."},
      {"zero_bubble_h1",
       "A step does forwards and backwards by turns, leaves the gradient of the weights for moments in "
       "which a stage would be idle, and then does one update."},
      {"async_1f1b",
       "The pipeline never drains: every backward is followed by an update at once, and a stage sends "
       "later minibatches ahead meanwhile."}};
  const auto it = sentences.find(pipeline.schedule);
  return it == sentences.end() ? "" : it->second;
}

std::string change_html(const train::RunRecord& run) {
  const train::SyncPart& sync = *run.pipeline->sync;
  std::string out = fmt::format(
      "The first <strong>{}</strong> step{} went by {} with {} microbatch{}, the rest by {}. Steps {} to {} show the "
      "change: the pipeline empties and fills once more, and no stage waits for all.",
      sync.steps, sync.steps == 1 ? "" : "s", escaped(sync.schedule), sync.microbatches,
      sync.microbatches == 1 ? "" : "es", escaped(run.pipeline->schedule), sync.from_step, sync.to_step);
  if (const auto& parts = run.result.sync; parts && parts->utilisation_after)
    out += fmt::format(
        " Stages computed for <strong>{}</strong> of the time before it and for <strong>{}</strong> after it; by the "
        "plan {} and {}.",
        percent_text(parts->utilisation), percent_text(*parts->utilisation_after), percent_text(sync.utilisation),
        percent_text(run.pipeline->utilisation));
  return out;
}

std::string pipeline_html(const train::RunRecord& run) {
  const train::PipelineRecord& p = *run.pipeline;
  std::string out = fmt::format(
      "Steps {} to {}: by the plan the stages are idle for <strong>{}</strong> of the time, and they were for "
      "<strong>{}</strong>.",
      p.from_step, p.to_step, percent_text(p.planned.idle()), percent_text(p.recorded.idle()));
  if (p.transfer_s > 0)
    out += fmt::format(" A transfer to the next stage, {}, takes {} in the plan.",
                       bytes_text(static_cast<double>(p.transfer_bytes)), time_text(p.transfer_s));
  if (p.hop && *p.hop > 1 && p.utilisation_hop_1)
    out += fmt::format(" With hop 1 instead of {} the plan would be idle for {}.", *p.hop,
                       percent_text(1 - *p.utilisation_hop_1));
  out += kept_html(p);
  if (run.replicas > 1) out += " The plan leaves waiting for other replicas out.";
  if (const int64_t ranks = run.replicas * run.stages; run.cores > 0 && run.cores < ranks)
    out += fmt::format(" All {} shared {} core{}: a block is longer where its stage had to wait for one.", ranks,
                       run.cores, run.cores == 1 ? "" : "s");
  return out;
}

}  // namespace thinwire::report
