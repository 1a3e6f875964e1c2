#include "thinwire/train/pipeline_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "thinwire/base/errors.h"
#include "thinwire/pipeline/stage_channel.h"
#include "thinwire/train/json_fields.h"
#include "thinwire/train/stages.h"

namespace thinwire::train {
namespace {

using pipeline::Block;
using pipeline::Chart;
using pipeline::Op;
using pipeline::OpKind;
using pipeline::Schedule;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

struct Kind {
  OpKind op;
  TraceKind trace;
  const char* symbol;
};
constexpr Kind kKinds[] = {{OpKind::forward, TraceKind::forward, "F"},
                           {OpKind::backward, TraceKind::backward, "B"},
                           {OpKind::weights, TraceKind::weights, "W"},
                           {OpKind::update, TraceKind::update, "U"}};

struct Steps {
  int64_t first, last;  // from 1
  int64_t count() const { return last - first + 1; }
};

// Enough to see a pattern come again, few enough to read the numbers.
int64_t steps_to_show(const Schedule& schedule) {
  if (!schedule.asynchronous()) return std::clamp<int64_t>(16 / (schedule.microbatches + schedule.stages - 1), 1, 4);
  const int64_t loop = schedule.warmup[0] + 1;
  return loop > 4 ? std::min<int64_t>(loop, 12) : 8 / loop * loop;
}

// Of the last `reach` steps the latest to show. A stage may be warmup[0] steps ahead of stage 0: it stops for a pause
// while stage 0 is that far from it.
Steps undisturbed(const Recipe& recipe, const Schedule& schedule, int64_t done, int64_t reach) {
  const int64_t ahead = schedule.warmup[0], wanted = steps_to_show(schedule), before = done - reach;
  const auto pause_after = [&](int64_t step) {
    const auto due = [&](int64_t every) { return every > 0 && step % every == 0; };
    return due(recipe.train.eval_every) || due(recipe.train.save_every);
  };
  Steps best{done + 1, done};
  for (int64_t end = done; end > before && best.count() < wanted;) {
    int64_t begin = end - 1;
    while (begin > before && !pause_after(begin)) --begin;
    const Steps found{std::max(begin, end - ahead - wanted) + 1, end - ahead};
    if (found.count() > best.count()) best = found;
    end = begin;
  }
  if (best.count() > 0) return best;
  return {std::max(before, done - wanted) + 1, done};
}

// The block without what lies in one of `waits`.
void add_without(const std::vector<Interval>& waits, Block block, Clock::time_point zero, std::vector<Block>& into) {
  for (const Interval& wait : waits) {
    const double begin = seconds_between(zero, wait.begin), end = seconds_between(zero, wait.end);
    if (end <= block.begin || begin >= block.end) continue;
    if (begin > block.begin) into.push_back({block.kind, block.batch, block.begin, begin});
    block.begin = end;
    if (block.begin >= block.end) return;
  }
  into.push_back(block);
}

Chart chart_of(const std::vector<TracePtr>& traces, int stages) {
  Chart chart{std::vector<std::vector<Block>>(stages)};
  const auto zero = traces.at(0)->of(TraceKind::update).at(0).begin;
  for (int j = 0; j < stages; ++j) {
    auto waits = traces.at(j)->of(TraceKind::wait);
    std::ranges::sort(waits, {}, &Interval::begin);
    for (const Kind& kind : kKinds)
      for (const Interval& s : traces[j]->of(kind.trace))
        add_without(waits, {kind.op, s.number, seconds_between(zero, s.begin), seconds_between(zero, s.end)}, zero,
                    chart.stages[j]);
    std::ranges::sort(chart.stages[j], {}, &Block::begin);
  }
  return chart;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<StageCosts> costs_of(const Chart& chart) {
  std::vector<StageCosts> costs;
  for (const auto& blocks : chart.stages) {
    const auto median_of = [&](OpKind kind) {
      std::map<int64_t, double> seconds;  // of one operation: it may be in pieces
      for (const Block& block : blocks)
        if (block.kind == kind) seconds[block.batch] += block.end - block.begin;
      std::vector<double> all;
      for (const auto& entry : seconds) all.push_back(entry.second);
      return median(std::move(all));
    };
    costs.push_back({median_of(OpKind::forward), median_of(OpKind::backward), median_of(OpKind::weights),
                     median_of(OpKind::update)});
  }
  return costs;
}

pipeline::Cost cost_of(const std::vector<StageCosts>& costs) {
  return [&costs](int stage, OpKind kind) { return costs.at(stage).of(kind); };
}

// From the beginning of a step's first operation on stage 0 to the end of a later one's update there. Steps as `chart`
// counts them; `ops`: of the first.
PipelinePicture picture(const Chart& chart, const std::vector<Op>& ops, int64_t last_step) {
  double from = INFINITY, to = 0;
  for (const Block& block : chart.stages[0]) {
    if (Op{block.kind, block.batch} == ops.front()) from = std::min(from, block.begin);
    if (Op{block.kind, block.batch} == Op{OpKind::update, last_step - 1}) to = std::max(to, block.end);
  }
  PipelinePicture picture{chart.between(from, to), to - from};
  if (!(picture.seconds > 0)) return {};
  for (auto& blocks : picture.chart.stages) {
    std::erase_if(blocks, [](const Block& block) { return block.begin == block.end; });
    for (Block& block : blocks) block.begin -= from, block.end -= from;
  }
  return picture;
}

PipelinePicture plan(const Schedule& schedule, const Steps& steps, int64_t planned_steps,
                     const std::vector<StageCosts>& costs, double transfer_s) {
  const int64_t loop = schedule.warmup[0] + 1;
  const int64_t before = std::min(steps.first - 1, 3 * loop);  // steps before those to show
  const int64_t after = planned_steps > 0 ? std::min(planned_steps - steps.last, loop) : loop;
  const int64_t all = before + steps.count() + after, left_out = steps.first - 1 - before;
  PipelinePicture shown = picture(simulate(schedule, all, cost_of(costs), transfer_s), schedule.ops(0, before, all),
                                  before + steps.count());
  for (auto& blocks : shown.chart.stages)
    for (Block& block : blocks) block.batch += left_out * (block.kind == OpKind::update ? 1 : schedule.microbatches);
  return shown;
}

OrderedJson to_json(const PipelinePicture& picture) {
  OrderedJson stages = OrderedJson::array();
  for (const auto& blocks : picture.chart.stages) {
    OrderedJson list = OrderedJson::array();
    for (const Block& block : blocks)
      list.push_back({kKinds[static_cast<int>(block.kind)].symbol, block.batch, block.begin, block.end});
    stages.push_back(std::move(list));
  }
  return {{"seconds", picture.seconds}, {"stages", std::move(stages)}};
}

// A list with an item for each stage.
const Json& list_of(const Json& json, const char* key, size_t stages, const std::string& place) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_array() || it->size() != stages)
    throw BadInput("{}: {} is not a list of {} stages", place, key, stages);
  return *it;
}

const Json& object_of(const Json& json, const char* key, const std::string& place) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_object()) throw BadInput("{}: {} is not an object", place, key);
  return *it;
}

double seconds_of(const Json& json, const char* key, const std::string& place) {
  const double value = number_of(json, key, place);
  if (!std::isfinite(value) || value < 0) throw BadInput("{}: {} is not a time", place, key);
  return value;
}

Block block_of(const Json& item, double seconds, const std::string& place) {
  const bool four = item.is_array() && item.size() == 4 && item[0].is_string() && item[1].is_number_integer() &&
                    item[2].is_number() && item[3].is_number();
  const auto kind = std::ranges::find_if(kKinds, [&](const Kind& k) { return four && item[0] == k.symbol; });
  if (kind == std::end(kKinds))
    throw BadInput("{}: holds something that is not [\"F\" or B, W, U; batch, begin, end]", place);
  const Block block{kind->op, item[1].get<int64_t>(), item[2].get<double>(), item[3].get<double>()};
  if (!(0 <= block.begin && block.begin <= block.end && block.end <= seconds * (1 + 1e-9)))
    throw BadInput("{}: a block is from {} to {} s, the picture from 0 to {} s", place, block.begin, block.end,
                   seconds);
  return block;
}

PipelinePicture picture_of(const Json& json, const char* key, size_t stages, const std::string& file) {
  const std::string place = fmt::format("{}: {}", file, key);
  const Json& object = object_of(json, key, file);
  PipelinePicture picture{.chart = {}, .seconds = seconds_of(object, "seconds", place)};
  for (const Json& list : list_of(object, "stages", stages, place)) {
    if (!list.is_array()) throw BadInput("{}: a stage is not a list of blocks", place);
    auto& blocks = picture.chart.stages.emplace_back();
    for (const Json& item : list) blocks.push_back(block_of(item, picture.seconds, place));
    std::ranges::sort(blocks, {}, &Block::begin);
  }
  return picture;
}

}  // namespace

double StageCosts::of(OpKind kind) const {
  switch (kind) {
    case OpKind::forward:
      return forward_s;
    case OpKind::backward:
      return backward_s;
    case OpKind::weights:
      return weights_s;
    case OpKind::update:
      return update_s;
  }
  return 0;
}

double PipelinePicture::idle(size_t stage) const {
  double busy = 0;
  for (const Block& block : chart.stages.at(stage)) busy += block.end - block.begin;
  return seconds > 0 ? std::max(0.0, 1 - busy / seconds) : 0;
}

double PipelinePicture::idle() const {
  double sum = 0;
  for (size_t j = 0; j < chart.stages.size(); ++j) sum += idle(j);
  return chart.stages.empty() ? 0 : sum / static_cast<double>(chart.stages.size());
}

double steady_utilisation(const Schedule& schedule, const std::vector<StageCosts>& costs, double transfer_s) {
  // It repeats after w_0 + 1 steps. From update to update of stage 0 every stage does as much as a step has.
  const int64_t loop = schedule.warmup.at(0) + 1, steady = 5 * loop, last = 10 * loop;
  const Chart chart = simulate(schedule, last + loop, cost_of(costs), transfer_s);
  std::vector<double> updated;
  for (const Block& block : chart.stages[0])
    if (block.kind == OpKind::update) updated.push_back(block.end);
  double step_s = 0;  // of all stages
  for (int j = 0; j < schedule.stages; ++j)
    for (const Op& op : schedule.ops(j, steady, 0)) step_s += costs.at(j).of(op.kind);
  const double all = static_cast<double>(schedule.stages) * (updated[last] - updated[steady]);
  return all > 0 ? step_s * static_cast<double>(last - steady) / all : 1;
}

std::optional<PipelineRecord> pipeline_record(const Recipe& recipe, const std::vector<TracePtr>& traces, int64_t done) {
  const Schedule schedule = schedule_of(recipe);
  // Traces keep so many intervals of a kind, and a microbatch has at most two waits.
  const int64_t reach =
      std::min(std::ssize(traces.at(0)->of(TraceKind::update)), std::max<int64_t>(1, 1024 / schedule.microbatches));
  if (reach == 0) return {};
  PipelineRecord record;
  record.schedule = schedule.name;
  record.microbatches = schedule.microbatches;
  if (schedule.asynchronous()) record.hop = recipe.pipeline.hop.count;
  record.stash = recipe.pipeline.stash || !schedule.asynchronous();

  const net::Link& link = recipe.link.stages;
  record.transfer_bytes = pipeline::message_bytes(activation_spec_of(recipe));
  record.transfer_s = link.latency + link.jitter / 2 + 8 * static_cast<double>(record.transfer_bytes) / link.rate;

  const Chart chart = chart_of(traces, schedule.stages);
  const Steps steps = undisturbed(recipe, schedule, done, reach);
  record.from_step = steps.first, record.to_step = steps.last;
  record.costs = costs_of(chart);
  for (int j = 0; j < schedule.stages; ++j) {
    record.peak_stash.push_back(pipeline::peak_stash(schedule, j, 0));
    if (!record.stash) record.peak_stash.back().versions = 1;
  }
  record.utilisation = steady_utilisation(schedule, record.costs, record.transfer_s);
  if (record.hop)
    record.utilisation_hop_1 = steady_utilisation(pipeline::make_schedule(schedule.name, schedule.stages, 1, 1),
                                                  record.costs, record.transfer_s);
  record.recorded = picture(chart, schedule.ops(0, steps.first - 1, recipe.planned_steps()), steps.last);
  record.planned = plan(schedule, steps, recipe.planned_steps(), record.costs, record.transfer_s);
  if (record.recorded.seconds <= 0 || record.planned.seconds <= 0) return {};
  return record;
}

OrderedJson to_json(const PipelineRecord& r) {
  OrderedJson json = {{"schedule", r.schedule}, {"stages", r.costs.size()}};
  if (r.hop) {
    json["hop"] = *r.hop;
    json["stash"] = r.stash;
  } else {
    json["microbatches"] = r.microbatches;
  }
  json["from_step"] = r.from_step;
  json["to_step"] = r.to_step;
  json["transfer_s"] = r.transfer_s;
  json["transfer_bytes"] = r.transfer_bytes;
  json["utilisation"] = r.utilisation;
  if (r.utilisation_hop_1) json["utilisation_hop_1"] = *r.utilisation_hop_1;
  json["costs"] = OrderedJson::array();
  for (const StageCosts& c : r.costs)
    json["costs"].push_back({{"forward_s", c.forward_s},
                             {"backward_s", c.backward_s},
                             {"weights_s", c.weights_s},
                             {"update_s", c.update_s}});
  json["held"] = OrderedJson::array();
  for (const auto& h : r.peak_stash) json["held"].push_back({{"versions", h.versions}, {"inputs", h.inputs}});
  json["planned"] = to_json(r.planned);
  json["recorded"] = to_json(r.recorded);
  return json;
}

PipelineRecord pipeline_of_json(const Json& json, const std::string& place) {
  PipelineRecord r;
  r.schedule = text_of(json, "schedule", place);
  const int64_t count = whole_of(json, "stages", place);
  if (count < 1 || count > 1024) throw BadInput("{}: stages must be from 1 to 1024, got {}", place, count);
  const auto stages = static_cast<size_t>(count);
  r.microbatches = std::max<int64_t>(1, whole_of(json, "microbatches", place));
  if (const int64_t hop = whole_of(json, "hop", place); hop > 0) r.hop = hop;
  if (const auto it = json.find("stash"); it != json.end()) {
    if (!it->is_boolean()) throw BadInput("{}: stash is neither true nor false", place);
    r.stash = it->get<bool>();
  }
  r.from_step = whole_of(json, "from_step", place);
  r.to_step = whole_of(json, "to_step", place);
  r.transfer_s = number_of(json, "transfer_s", place);
  r.transfer_bytes = whole_of(json, "transfer_bytes", place);
  r.utilisation = number_of(json, "utilisation", place);
  if (const double hop_1 = number_of(json, "utilisation_hop_1", place); std::isfinite(hop_1))
    r.utilisation_hop_1 = hop_1;
  for (const Json& item : list_of(json, "costs", stages, place)) {
    if (!item.is_object()) throw BadInput("{}: costs holds something that is not an object", place);
    r.costs.push_back({seconds_of(item, "forward_s", place), seconds_of(item, "backward_s", place),
                       seconds_of(item, "weights_s", place), seconds_of(item, "update_s", place)});
  }
  for (const Json& item : list_of(json, "held", stages, place)) {
    if (!item.is_object()) throw BadInput("{}: held holds something that is not an object", place);
    r.peak_stash.push_back({whole_of(item, "versions", place), whole_of(item, "inputs", place)});
  }
  r.planned = picture_of(json, "planned", stages, place);
  r.recorded = picture_of(json, "recorded", stages, place);
  return r;
}

std::string schedule_text(const Recipe& recipe, int width) {
  const Schedule schedule = schedule_of(recipe);
  const bool split = schedule.name == "zero_bubble_h1";
  const pipeline::Cost cost = [&](int, OpKind kind) {
    return kind == OpKind::update ? 0 : kind == OpKind::backward && !split ? 2 : 1;
  };
  // What fits if a column is 1: of a schedule with an end to each step whole steps.
  const int columns = std::max(width, 40) - 17;
  const auto planned = recipe.planned_steps();
  const auto limited = [&](int64_t steps) { return planned > 0 ? std::min(planned, steps) : steps; };
  Chart chart;
  if (schedule.asynchronous()) {
    chart = simulate(schedule, limited(columns), cost, 0).between(0, columns);
  } else {
    const auto step = static_cast<int64_t>(simulate(schedule, 1, cost, 0).end());
    chart = simulate(schedule, limited(std::max<int64_t>(1, columns / step)), cost, 0);
  }
  return fmt::format("{}{}, if F takes 1, B {} and transfers nothing:\n", schedule.name,
                     schedule.asynchronous() ? fmt::format(" with hop {}", recipe.pipeline.hop.count)
                                             : fmt::format(" with {} microbatches", schedule.microbatches),
                     split ? "1, W 1" : "2") +
         pipeline::to_text(chart, width);
}

}  // namespace thinwire::train
