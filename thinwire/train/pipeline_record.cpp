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

constexpr int64_t kMostBatches = 1'000'000'000'000'000;  // of a file that anybody may have written

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

// Of the last `reach` steps the latest to show, after a synchronous beginning. A stage may be warmup[0] steps ahead of
// stage 0: it stops for a pause while stage 0 is that far from it.
Steps undisturbed(const Recipe& recipe, const Schedule& schedule, int64_t done, int64_t reach) {
  const int64_t ahead = schedule.warmup[0], wanted = steps_to_show(schedule);
  const int64_t before = std::max(done - reach, schedule.sync_steps);
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

bool is_late(const Schedule& schedule, OpKind kind, int64_t batch) {
  return schedule.late(kind == OpKind::update ? batch : schedule.step_of(batch));
}

// Of the blocks after a synchronous beginning, or of those in it.
std::vector<StageCosts> costs_of(const Chart& chart, const Schedule& schedule, bool late) {
  std::vector<StageCosts> costs;
  for (const auto& blocks : chart.stages) {
    const auto median_of = [&](OpKind kind) {
      std::map<int64_t, double> seconds;  // of one operation: it may be in pieces
      for (const Block& block : blocks)
        if (block.kind == kind && is_late(schedule, kind, block.batch) == late)
          seconds[block.batch] += block.end - block.begin;
      std::vector<double> all;
      for (const auto& entry : seconds) all.push_back(entry.second);
      return median(std::move(all));
    };
    costs.push_back({median_of(OpKind::forward), median_of(OpKind::backward), median_of(OpKind::weights),
                     median_of(OpKind::update)});
  }
  return costs;
}

// What operations and transfers take; `sync`: in a synchronous beginning.
struct Times {
  std::vector<StageCosts> costs, sync_costs;
  double transfer_s = 0, sync_transfer_s = 0;

  Chart simulate(const Schedule& schedule, int64_t steps) const {
    const auto beginning = [&](OpKind kind, int64_t batch) {
      return schedule.asynchronous() && !is_late(schedule, kind, batch);
    };
    return pipeline::simulate(
        schedule, steps,
        [&](int stage, const Op& op) {
          return (beginning(op.kind, op.batch) ? sync_costs : costs).at(stage).of(op.kind);
        },
        [&](int64_t batch) { return beginning(OpKind::forward, batch) ? sync_transfer_s : transfer_s; });
  }
};

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

PipelinePicture plan(const Schedule& schedule, const Steps& steps, int64_t planned_steps, const Times& times) {
  const int64_t loop = schedule.warmup[0] + 1;
  const int64_t before = std::min(steps.first - 1, 3 * loop);  // steps before those to show
  const int64_t after = planned_steps > 0 ? std::min(planned_steps - steps.last, loop) : loop;
  const int64_t all = before + steps.count() + after, left_out = steps.first - 1 - before;
  const Schedule rest = continued(schedule, left_out);
  PipelinePicture shown = picture(times.simulate(rest, all), rest.ops(0, before, all), before + steps.count());
  for (auto& blocks : shown.chart.stages)
    for (Block& block : blocks) block.batch += block.kind == OpKind::update ? left_out : schedule.first_batch(left_out);
  return shown;
}

double transfer_s(const net::Link& link, const pipeline::ActivationSpec& activation) {
  const auto bytes = static_cast<double>(pipeline::message_bytes(activation));
  return link.latency + link.jitter / 2 + 8 * bytes / link.rate;
}

// The last step of the beginning, and until all minibatches that filled the pipeline after it are through.
Steps around_change(const Schedule& schedule, int64_t done) {
  return {schedule.sync_steps, std::min(done, schedule.sync_steps + schedule.warmup[0] + 2)};
}

// Fills in the beginning's times, too. Nothing if the traces do not hold the change.
std::optional<SyncPart> sync_part(const Recipe& recipe, const Schedule& schedule, const std::vector<TracePtr>& traces,
                                  int64_t done, Times& times) {
  SyncPart part{
      .schedule = schedule.sync_name, .steps = schedule.sync_steps, .microbatches = schedule.sync_microbatches};
  auto activation = activation_spec_of(recipe);
  activation.shape[0] = recipe.train.batch / part.microbatches;
  const Chart chart = chart_of(traces, schedule.stages);
  times.sync_transfer_s = part.transfer_s = transfer_s(recipe.link.stages, activation);
  times.sync_costs = part.costs = costs_of(chart, schedule, false);
  part.utilisation = steady_utilisation(pipeline::make_schedule(part.schedule, schedule.stages, part.microbatches, 1),
                                        part.costs, part.transfer_s);
  const Steps steps = around_change(schedule, done);
  part.from_step = steps.first, part.to_step = steps.last;
  part.recorded = picture(chart, schedule.ops(0, steps.first - 1, recipe.planned_steps()), steps.last);
  part.planned = plan(schedule, steps, recipe.planned_steps(), times);
  if (part.recorded.seconds <= 0 || part.planned.seconds <= 0) return {};
  return part;
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

OrderedJson to_json(const std::vector<StageCosts>& costs) {
  OrderedJson list = OrderedJson::array();
  for (const StageCosts& c : costs)
    list.push_back({{"forward_s", c.forward_s},
                    {"backward_s", c.backward_s},
                    {"weights_s", c.weights_s},
                    {"update_s", c.update_s}});
  return list;
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
  if (block.batch < 0 || block.batch > kMostBatches)
    throw BadInput("{}: a block is of batch {}, wanted 0 to {}", place, block.batch, kMostBatches);
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

std::vector<StageCosts> costs_of_json(const Json& json, size_t stages, const std::string& place) {
  std::vector<StageCosts> costs;
  for (const Json& item : list_of(json, "costs", stages, place)) {
    if (!item.is_object()) throw BadInput("{}: costs holds something that is not an object", place);
    costs.push_back({seconds_of(item, "forward_s", place), seconds_of(item, "backward_s", place),
                     seconds_of(item, "weights_s", place), seconds_of(item, "update_s", place)});
  }
  return costs;
}

SyncPart sync_of_json(const Json& json, size_t stages, const std::string& place) {
  SyncPart part{.schedule = text_of(json, "schedule", place),
                .steps = whole_of(json, "steps", place),
                .microbatches = whole_of(json, "microbatches", place),
                .transfer_s = number_of(json, "transfer_s", place),
                .costs = costs_of_json(json, stages, place),
                .utilisation = number_of(json, "utilisation", place),
                .from_step = whole_of(json, "from_step", place),
                .to_step = whole_of(json, "to_step", place),
                .planned = picture_of(json, "planned", stages, place),
                .recorded = picture_of(json, "recorded", stages, place)};
  if (part.steps < 1 || part.microbatches < 1 || part.steps > kMostBatches / part.microbatches)
    throw BadInput("{}: steps and microbatches must be at least 1 and their product at most {}, got {} and {}", place,
                   kMostBatches, part.steps, part.microbatches);
  return part;
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
  const Chart chart =
      Times{.costs = costs, .sync_costs = costs, .transfer_s = transfer_s}.simulate(schedule, last + loop);
  std::vector<double> updated;
  for (const Block& block : chart.stages[0])
    if (block.kind == OpKind::update) updated.push_back(block.end);
  double step_s = 0;  // of all stages
  for (int j = 0; j < schedule.stages; ++j)
    for (const Op& op : schedule.ops(j, steady, 0)) step_s += costs.at(j).of(op.kind);
  const double all = static_cast<double>(schedule.stages) * (updated[last] - updated[steady]);
  return all > 0 ? step_s * static_cast<double>(last - steady) / all : 1;
}

int64_t steps_to_see_change(const Recipe& recipe) {
  const Schedule schedule = schedule_of(recipe);
  const int64_t steps = around_change(schedule, INT64_MAX).last + schedule.warmup[0] + 1,
                planned = recipe.planned_steps();
  return planned > 0 ? std::min(planned, steps) : steps;
}

std::optional<PipelineRecord> pipeline_record(const Recipe& recipe, const std::vector<TracePtr>& traces, int64_t done,
                                              const std::vector<TracePtr>& change) {
  Schedule schedule = schedule_of(recipe);
  if (schedule.sync_steps >= done && schedule.sync_steps > 0)  // it has never been anything else
    schedule = pipeline::make_schedule(schedule.sync_name, schedule.stages, schedule.sync_microbatches, 1);
  // Traces keep so many intervals of a kind, and a microbatch has at most two waits.
  const int64_t reach =
      std::min(std::ssize(traces.at(0)->of(TraceKind::update)), std::max<int64_t>(1, 1024 / schedule.microbatches));
  if (reach == 0) return {};
  PipelineRecord record;
  record.schedule = schedule.name;
  record.microbatches = schedule.microbatches;
  if (schedule.asynchronous()) record.hop = recipe.pipeline.hop.count;
  record.stash = recipe.pipeline.stash || !schedule.asynchronous();

  auto activation = activation_spec_of(recipe);
  activation.shape[0] = recipe.train.batch / schedule.microbatches;
  record.transfer_bytes = pipeline::message_bytes(activation);
  record.transfer_s = transfer_s(recipe.link.stages, activation);

  const Chart chart = chart_of(traces, schedule.stages);
  const Steps steps = undisturbed(recipe, schedule, done, reach);
  record.from_step = steps.first, record.to_step = steps.last;
  record.costs = costs_of(chart, schedule, schedule.asynchronous());
  const Schedule steady = continued(schedule, schedule.sync_steps);
  for (int j = 0; j < schedule.stages; ++j) {
    record.peak_stash.push_back(pipeline::peak_stash(steady, j, 0));
    if (!record.stash) record.peak_stash.back().versions = 1;
    if (schedule.warmup[j] > 0 && recipe.pipeline.predict > 0)  // and the newest weights, and their last change
      record.peak_stash.back().versions += 2;
  }
  record.utilisation = steady_utilisation(steady, record.costs, record.transfer_s);
  if (record.hop)
    record.utilisation_hop_1 = steady_utilisation(pipeline::make_schedule(schedule.name, schedule.stages, 1, 1),
                                                  record.costs, record.transfer_s);
  Times times{.costs = record.costs, .sync_costs = record.costs, .transfer_s = record.transfer_s};
  if (schedule.sync_steps > 0 && !change.empty() && std::ssize(change.at(0)->of(TraceKind::update)) > 0)
    record.sync = sync_part(recipe, schedule, change, done, times);
  record.recorded = picture(chart, schedule.ops(0, steps.first - 1, recipe.planned_steps()), steps.last);
  record.planned = plan(schedule, steps, recipe.planned_steps(), times);
  if (record.recorded.seconds <= 0 || record.planned.seconds <= 0) return {};
  return record;
}

PipelineRecord::Place PipelineRecord::place_of(int64_t batch) const {
  const int64_t steps = sync ? sync->steps : 0, first = sync ? steps * sync->microbatches : 0;
  if (batch < first) return {batch / sync->microbatches, batch % sync->microbatches, true};
  return {steps + (batch - first) / microbatches, (batch - first) % microbatches, !hop};
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
  json["costs"] = to_json(r.costs);
  json["held"] = OrderedJson::array();
  for (const auto& h : r.peak_stash) json["held"].push_back({{"versions", h.versions}, {"inputs", h.inputs}});
  json["planned"] = to_json(r.planned);
  json["recorded"] = to_json(r.recorded);
  if (r.sync)
    json["sync"] = {{"schedule", r.sync->schedule},         {"steps", r.sync->steps},
                    {"microbatches", r.sync->microbatches}, {"transfer_s", r.sync->transfer_s},
                    {"utilisation", r.sync->utilisation},   {"from_step", r.sync->from_step},
                    {"to_step", r.sync->to_step},           {"costs", to_json(r.sync->costs)},
                    {"planned", to_json(r.sync->planned)},  {"recorded", to_json(r.sync->recorded)}};
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
  r.costs = costs_of_json(json, stages, place);
  for (const Json& item : list_of(json, "held", stages, place)) {
    if (!item.is_object()) throw BadInput("{}: held holds something that is not an object", place);
    r.peak_stash.push_back({whole_of(item, "versions", place), whole_of(item, "inputs", place)});
  }
  r.planned = picture_of(json, "planned", stages, place);
  r.recorded = picture_of(json, "recorded", stages, place);
  if (json.contains("sync")) r.sync = sync_of_json(object_of(json, "sync", place), stages, place + ": sync");
  return r;
}

std::string schedule_text(const Recipe& recipe, int width) {
  const Schedule whole = schedule_of(recipe);
  const auto planned = recipe.planned_steps();
  const int64_t S = planned > 0 ? std::min(whole.sync_steps, planned) : whole.sync_steps;
  const Schedule schedule = continued(whole, std::max<int64_t>(0, S - 1));  // from the last step of a beginning on
  const auto splits = [&](int64_t step) { return schedule.name_at(step) == "zero_bubble_h1"; };
  const int64_t parts = S > 0 ? schedule.sync_microbatches : 1;
  const pipeline::Cost cost = [&](int, const Op& op) {
    if (op.kind == OpKind::update) return 0.0;
    const int64_t step = schedule.step_of(op.batch);
    const double size = schedule.late(step) ? static_cast<double>(parts) : 1.0;
    return (op.kind == OpKind::backward && !splits(step) ? 2 : 1) * size;
  };
  // What fits if a column is 1: of a schedule with an end to each step whole steps.
  const int columns = std::max(width, 40) - 17;
  const auto limited = [&](int64_t steps) {
    return planned > 0 ? std::min(planned - std::max<int64_t>(0, S - 1), steps) : steps;
  };
  Chart chart;
  if (schedule.asynchronous()) {
    chart = simulate(schedule, limited(columns), cost, 0).between(0, columns);
  } else {
    const auto step = static_cast<int64_t>(simulate(schedule, 1, cost, 0).end());
    chart = simulate(schedule, limited(std::max<int64_t>(1, columns / step)), cost, 0);
  }
  const std::string way = schedule.asynchronous()
                              ? fmt::format("{} with hop {}", schedule.name, recipe.pipeline.hop.count)
                              : fmt::format("{} with {} microbatches", schedule.name, schedule.microbatches);
  if (S > 0)
    return fmt::format("{} step{} of {} with {} microbatches, then {}\n", S, S == 1 ? "" : "s", schedule.sync_name,
                       parts, way) +
           fmt::format("the change, if a microbatch's F takes 1, B {}, a minibatch's {} times that:\n",
                       splits(0) ? "1, W 1" : "2", parts) +
           pipeline::to_text(chart, width);
  return fmt::format("{}, if F takes 1, B {} and transfers nothing:\n", way, splits(0) ? "1, W 1" : "2") +
         pipeline::to_text(chart, width);
}

}  // namespace thinwire::train
