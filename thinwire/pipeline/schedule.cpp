#include "thinwire/pipeline/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "thinwire/base/errors.h"

namespace thinwire::pipeline {
namespace {

void check_stage(const Schedule& schedule, int stage) {
  if (stage < 0 || stage >= schedule.stages || schedule.warmup.size() != static_cast<size_t>(schedule.stages))
    throw std::invalid_argument(fmt::format("[pipeline.schedule] there is no stage {} among {} ({} of them with w_j)",
                                            stage, schedule.stages, schedule.warmup.size()));
}

void at_least_1(const char* name, int64_t given) {
  if (given < 1) throw BadInput("pipeline.{} must be at least 1, got {}", name, given);
}

}  // namespace

int64_t Schedule::first_batch(int64_t step) const {
  const int64_t synchronous = asynchronous() ? std::min(step, sync_steps) : 0;
  return synchronous * sync_microbatches + (step - synchronous) * microbatches;
}

int64_t Schedule::step_of(int64_t batch) const {
  const int64_t synchronous = asynchronous() ? first_batch(sync_steps) : 0;
  if (batch < synchronous) return batch / sync_microbatches;
  return (asynchronous() ? sync_steps : 0) + (batch - synchronous) / microbatches;
}

int64_t Schedule::version(int stage, int64_t batch) const {
  check_stage(*this, stage);
  const int64_t step = step_of(batch);
  return late(step) ? std::max(sync_steps, step - warmup[stage]) : step;
}

std::vector<Op> Schedule::ops(int stage, int64_t step, int64_t steps) const {
  check_stage(*this, stage);
  if (step < 0 || steps < 0 || (steps > 0 && step >= steps))
    throw std::invalid_argument(fmt::format("[pipeline.schedule] there is no step {} of {}", step, steps));

  std::vector<Op> ops;
  if (late(step)) {
    const int64_t w = warmup[stage];
    const auto exists = [&](int64_t b) { return steps == 0 || b < steps; };
    const auto forward = [&](int64_t b) {
      if (exists(b)) ops.push_back({OpKind::forward, first_batch(b)});
    };
    if (step == sync_steps)
      for (int64_t b = step; b < step + w; ++b) forward(b);
    forward(step + w);
    ops.push_back({OpKind::backward, first_batch(step)});
  } else {
    const int64_t M = microbatches_of(step), first = first_batch(step);
    const int64_t ahead = name_at(step) == "gpipe" ? M : std::min<int64_t>(stages - 1 - stage, M);
    const bool split = name_at(step) == "zero_bubble_h1";
    for (int64_t i = 0; i < ahead; ++i) ops.push_back({OpKind::forward, first + i});
    for (int64_t i = 0; i < M; ++i) {
      if (ahead + i < M) ops.push_back({OpKind::forward, first + ahead + i});
      ops.push_back({OpKind::backward, first + i});
      if (split && i >= stage) ops.push_back({OpKind::weights, first + i - stage});
    }
    if (split)
      for (int64_t i = std::max<int64_t>(0, M - stage); i < M; ++i) ops.push_back({OpKind::weights, first + i});
  }
  ops.push_back({OpKind::update, step});
  return ops;
}

std::vector<std::string> synchronous_names() { return {"gpipe", "1f1b", "zero_bubble_h1"}; }

std::vector<std::string> schedule_names() {
  auto names = synchronous_names();
  names.emplace_back("async_1f1b");
  return names;
}

Schedule make_schedule(const std::string& name, int stages, int64_t microbatches, int64_t hop) {
  const auto names = schedule_names();
  if (std::ranges::find(names, name) == names.end())
    throw BadInput("pipeline.schedule must be one of {}, got \"{}\"", fmt::join(names, ", "), name);
  at_least_1("stages", stages);
  at_least_1("microbatches", microbatches);
  at_least_1("hop", hop);
  Schedule schedule{.name = name, .stages = stages, .microbatches = microbatches};
  schedule.warmup.assign(stages, 0);
  if (schedule.asynchronous()) {
    if (microbatches != 1)
      throw BadInput("pipeline.microbatches must be 1 in async_1f1b, which updates after every one, got {}",
                     microbatches);
    for (int j = stages - 2; j >= 0; --j) schedule.warmup[j] = schedule.warmup[j + 1] + hop;
  }
  return schedule;
}

Schedule starting_with(Schedule schedule, int64_t steps, const std::string& name, int64_t microbatches) {
  if (steps < 0) throw BadInput("pipeline.sync_steps must be at least 0, got {}", steps);
  if (steps == 0) return schedule;
  if (!schedule.asynchronous())
    throw BadInput("pipeline.sync_steps needs an asynchronous schedule, got \"{}\"", schedule.name);
  const auto names = synchronous_names();
  if (std::ranges::find(names, name) == names.end())
    throw BadInput("pipeline.sync_schedule must be one of {}, got \"{}\"", fmt::join(names, ", "), name);
  at_least_1("microbatches", microbatches);
  schedule.sync_steps = steps, schedule.sync_name = name, schedule.sync_microbatches = microbatches;
  return schedule;
}

Schedule continued(Schedule schedule, int64_t after_steps) {
  schedule.sync_steps = std::max<int64_t>(0, schedule.sync_steps - after_steps);
  return schedule;
}

PeakStash peak_stash(const Schedule& schedule, int stage, int64_t steps) {
  check_stage(schedule, stage);
  // for every version to come and go
  const int64_t enough = steps > 0 ? steps : schedule.sync_steps + 2 * schedule.warmup[stage] + 2;
  std::vector<Op> ops;
  for (int64_t step = 0; step < enough; ++step)
    for (const Op& op : schedule.ops(stage, step, steps)) ops.push_back(op);

  std::map<int64_t, size_t> last_use;  // of a version: position in ops
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].kind == OpKind::backward) last_use[schedule.version(stage, ops[i].batch)] = i;

  const auto lets_go = [&](const Op& op) {
    if (op.kind != OpKind::weights && op.kind != OpKind::backward) return false;
    const bool split = schedule.name_at(schedule.step_of(op.batch)) == "zero_bubble_h1";
    return op.kind == (split ? OpKind::weights : OpKind::backward);
  };
  std::set<int64_t> versions = {0};
  int64_t inputs = 0;
  PeakStash most{.versions = 1, .inputs = 0};
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto [kind, batch] = ops[i];
    if (kind == OpKind::forward) ++inputs;
    if (lets_go(ops[i])) --inputs;
    if (kind == OpKind::update) {
      std::erase_if(versions, [&](int64_t v) { return !last_use.contains(v) || last_use[v] < i; });
      versions.insert(batch + 1);
    }
    most.versions = std::max(most.versions, static_cast<int64_t>(versions.size()));
    most.inputs = std::max(most.inputs, inputs);
  }
  return most;
}

}  // namespace thinwire::pipeline
