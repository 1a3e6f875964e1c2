#include "thinwire/train/worker.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/clock.h"
#include "thinwire/kernels/reduce.h"
#include "thinwire/train/replica.h"
#include "thinwire/train/stage_worker.h"
#include "thinwire/train/stages.h"
#include "thinwire/train/sums.h"

namespace thinwire::train {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 60;  // that a checkpoint can say were sent: more can still be counted

}  // namespace

std::unique_ptr<Worker> make_worker(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh,
                                    const WarmStart* warm_start) {
  if (mesh.shape.stages > 1) return std::make_unique<StageWorker>(recipe, std::move(text), mesh, warm_start);
  return std::make_unique<Replica>(recipe, std::move(text), mesh, warm_start);
}

Worker::Worker(const Recipe& recipe, std::shared_ptr<const data::Text> text, Mesh mesh, const WarmStart* warm_start)
    : recipe_(recipe),
      text_(std::move(text)),
      mesh_(std::move(mesh)),
      schedule_(optim::make_schedule(recipe.optim, recipe.planned_steps())),
      model_(models::make_model(recipe.model, data::kVocabulary, recipe.train.seed)),
      layout_(optim::make_layout(models::parameters_by_unit(*model_))),
      probe_(std::make_shared<dp::StalenessProbe>(mesh_.replica_control, optim::OverShards())),
      sync_steps_(mesh_.shape.stages > 1 ? sync_steps_of(recipe) : 0) {
  if (warm_start) begin_with(*model_, *warm_start);
}

void Worker::made() {
  setup_bytes_ = sent_before_ = mesh_.replica_group->ledger().sent();
  if (mesh_.pipeline_group) sent_to_stages_before_ = mesh_.pipeline_group->ledger().sent();
}

data::Batch Worker::batch_of(int64_t t) const {
  return data::sample(*text_, recipe_.train.seed, t, mesh_.at.replica, recipe_.train.batch, recipe_.model.context);
}

std::optional<double> Worker::step(int64_t t) {
  const auto start = Clock::now();
  const double exposed_before = meter_->exposed_s(), update_before = meter_->update_s();
  const auto loss = do_step(t);
  const auto end = Clock::now();
  if (trace_) trace_->add(TraceKind::step, start, end);
  const double seconds = seconds_between(start, end), exposed = meter_->exposed_s() - exposed_before;
  last_step_ = t;
  spent(seconds, exposed);
  costs_.compute_s += seconds - exposed;
  costs_.update_s += meter_->update_s() - update_before;
  count_bytes();
  return loss;
}

void Worker::spent(double seconds, double exposed) {
  costs_.seconds += seconds;
  costs_.exposed_s += exposed;
  if (last_step_ > sync_steps_) return;
  costs_.sync_seconds += seconds;
  costs_.sync_exposed_s += exposed;
}

void Worker::count_bytes() {
  const int64_t sent = mesh_.replica_group->ledger().sent();
  costs_.wire_bytes += sent - std::exchange(sent_before_, sent);
  if (!mesh_.pipeline_group) return;
  const int64_t sent_to_stages = mesh_.pipeline_group->ledger().sent();
  costs_.stage_bytes += sent_to_stages - std::exchange(sent_to_stages_before_, sent_to_stages);
}

void Worker::drain() {
  wait_for_wire();
  count_bytes();
}

double Worker::evaluate() {
  at::NoGradGuard no_grad;
  const auto mine =
      data::held_out(*text_, recipe_.train.eval_windows, mesh_.at.replica, mesh_.shape.replicas, recipe_.model.context);
  const double rows = mesh_.last_stage() ? static_cast<double>(mine.tokens.size(0)) : 0;
  const auto sums = sums_over(*mesh_.control, {sum_of_losses(mine), rows});
  TORCH_CHECK(std::isfinite(sums[0]), "[train] the held-out loss is not finite: try a smaller optim.lr, or optim.clip");
  return sums[0] / sums[1];
}

// Of a sample of each rank's weights, scaled up: a large model is not sent once more for a figure.
double Worker::consensus_distance() {
  const at::Tensor x = newest(), own = dp::sample(x), mean = own.clone();
  mesh_.replica_control->all_reduce_(mean, comm::Reduce::mean, comm::TrafficKind::control)->wait();
  const double scale = static_cast<double>(x.numel()) / static_cast<double>(own.numel());
  const auto sums = sums_over(
      *mesh_.control, {scale * kernels::sum_squared_differences(own, mean), scale * kernels::sum_squares(mean)});
  return sums[0] / sums[1];
}

std::optional<double> Worker::prediction_error() {
  const auto own = probe_->error();
  if (mesh_.shape.stages == 1) return own;
  const auto sums = sums_over(*mesh_.control, {own.value_or(0), own ? 1.0 : 0.0});
  if (sums[1] == 0) return {};
  return sums[0] / sums[1];
}

dp::Groups Worker::groups(comm::GroupPtr sync, bool over_stages) {
  dp::Groups groups{.sync = std::move(sync), .control = mesh_.replica_control, .meter = meter_, .probe = probe_};
  if (over_stages)
    groups.over_replica = [this](at::Tensor numbers, optim::Over how) {
      const auto reduce = how == optim::Over::sum ? comm::Reduce::sum : comm::Reduce::max;
      meter_->wait(*mesh_.pipeline_group->all_reduce_(numbers, reduce, comm::TrafficKind::control));
    };
  return groups;
}

Worker::Saved Worker::state() {
  drain();
  Saved saved{own_state(), "agreed"};
  State& state = saved.state;
  for (const auto& [prefix, weights] : agreed_parts()) {
    std::string name = "agreed";
    for (const auto& [entry, held] : state)
      if (entry.starts_with(prefix) && held.value.numel() == weights.numel() && held.value.dim() == 1 &&
          held.value.is_alias_of(weights) && held.value.storage_offset() == weights.storage_offset())
        name = entry.substr(prefix.size());
    if (name == "agreed") state[prefix + name] = {weights, Scope::all_equal};
    saved.agreed = name;  // the same for all parts: one kind of strategy
  }
  put(state, "costs.seconds", costs_.seconds, Scope::per_replica);
  put(state, "costs.exposed_s", costs_.exposed_s, Scope::per_replica);
  put(state, "costs.compute_s", costs_.compute_s, Scope::per_replica);
  put(state, "costs.update_s", costs_.update_s, Scope::per_replica);
  put(state, "costs.wire_bytes", costs_.wire_bytes, Scope::per_replica);
  put(state, "costs.stage_bytes", costs_.stage_bytes, Scope::per_replica);
  put(state, "costs.skipped", costs_.skipped, Scope::per_replica);
  if (sync_steps_ > 0) {
    put(state, "costs.sync_seconds", costs_.sync_seconds, Scope::per_replica);
    put(state, "costs.sync_exposed_s", costs_.sync_exposed_s, Scope::per_replica);
  }
  return saved;
}

void Worker::load(const State& state) {
  load_own(state);
  costs_ = {.seconds = get_double(state, "costs.seconds", 0),
            .exposed_s = get_double(state, "costs.exposed_s", 0),
            .compute_s = get_double(state, "costs.compute_s", 0),
            .update_s = get_double(state, "costs.update_s", 0),
            .wire_bytes = get_int(state, "costs.wire_bytes", 0, kMostBytes),
            .stage_bytes = get_int(state, "costs.stage_bytes", 0, kMostBytes),
            // Not in version 0.1.
            .skipped = state.contains("costs.skipped") ? get_int(state, "costs.skipped", 0) : 0};
  if (sync_steps_ == 0) return;
  costs_.sync_seconds = get_double(state, "costs.sync_seconds", 0);
  costs_.sync_exposed_s = get_double(state, "costs.sync_exposed_s", 0);
}

}  // namespace thinwire::train
