#include "thinwire/train/worker.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/clock.h"
#include "thinwire/kernels/reduce.h"
#include "thinwire/train/replica.h"
#include "thinwire/train/staged.h"

namespace thinwire::train {
namespace {

std::vector<double> sums_over(comm::Group& group, std::initializer_list<double> mine) {
  at::Tensor values = at::empty({static_cast<int64_t>(mine.size())}, at::kDouble);
  std::ranges::copy(mine, values.mutable_data_ptr<double>());
  group.all_reduce_(values, comm::Reduce::sum, comm::Kind::control)->wait();
  const double* p = values.const_data_ptr<double>();
  return {p, p + mine.size()};
}

}  // namespace

std::unique_ptr<Worker> make_worker(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh,
                                    const Origin* origin) {
  if (mesh.stages > 1) return std::make_unique<Staged>(recipe, std::move(text), mesh, origin);
  return std::make_unique<Replica>(recipe, std::move(text), mesh, origin);
}

Worker::Worker(const Recipe& recipe, std::shared_ptr<const data::Text> text, Mesh mesh, const Origin* origin)
    : recipe_(recipe),
      text_(std::move(text)),
      mesh_(std::move(mesh)),
      schedule_(optim::make_schedule(recipe.optim, recipe.planned_steps())),
      model_(models::make_model(recipe.model, data::kVocabulary, recipe.train.seed)),
      layout_(optim::make_layout(models::parameters_by_unit(*model_))) {
  if (origin) begin_with(*model_, *origin);
}

void Worker::made() {
  setup_bytes_ = sent_before_ = mesh_.wire->ledger().sent();
  if (mesh_.along) sent_along_before_ = mesh_.along->ledger().sent();
}

data::Batch Worker::batch_of(int64_t t) const {
  return data::sample(*text_, recipe_.train.seed, t, mesh_.replica, recipe_.train.batch, recipe_.model.context);
}

std::optional<double> Worker::step(int64_t t) {
  const auto start = Clock::now();
  const double exposed_before = exposed_s(), update_before = strategy().update_s();
  const auto loss = do_step(t);
  const auto end = Clock::now();
  if (trace_) trace_->add(Doing::step, start, end);
  const double seconds = seconds_between(start, end), exposed = exposed_s() - exposed_before;
  costs_.seconds += seconds;
  costs_.exposed_s += exposed;
  costs_.compute_s += seconds - exposed;
  costs_.update_s += strategy().update_s() - update_before;
  count_bytes();
  return loss;
}

void Worker::count_bytes() {
  const int64_t sent = mesh_.wire->ledger().sent();
  costs_.wire_bytes += sent - std::exchange(sent_before_, sent);
  if (!mesh_.along) return;
  const int64_t along = mesh_.along->ledger().sent();
  costs_.stage_bytes += along - std::exchange(sent_along_before_, along);
}

void Worker::drain() {
  wait_for_wire();
  count_bytes();
}

double Worker::evaluate() {
  at::NoGradGuard no_grad;
  const auto mine =
      data::held_out(*text_, recipe_.train.eval_windows, mesh_.replica, mesh_.replicas, recipe_.model.context);
  const double rows = mesh_.last_stage() ? static_cast<double>(mine.tokens.size(0)) : 0;
  const auto sums = sums_over(*mesh_.bare, {sum_of_losses(mine), rows});
  TORCH_CHECK(std::isfinite(sums[0]), "[train] the held-out loss is not finite: try a smaller optim.lr, or optim.clip");
  return sums[0] / sums[1];
}

double Worker::consensus_distance() {
  const at::Tensor x = newest();
  if (!mean_.defined()) mean_ = at::empty_like(x);
  mean_.copy_(x);
  mesh_.across->all_reduce_(mean_, comm::Reduce::mean, comm::Kind::control)->wait();
  const auto sums = sums_over(*mesh_.bare, {kernels::sum_squared_differences(x, mean_), kernels::sum_squares(mean_)});
  return sums[0] / sums[1];
}

std::optional<double> Worker::prediction_error() {
  const auto own = strategy().prediction_error();
  if (mesh_.stages == 1) return own;
  const auto sums = sums_over(*mesh_.bare, {own.value_or(0), own ? 1.0 : 0.0});
  if (sums[1] == 0) return {};
  return sums[0] / sums[1];
}

State Worker::state() {
  drain();
  State state = own_state();
  put(state, "costs.seconds", costs_.seconds, Scope::per_replica);
  put(state, "costs.exposed_s", costs_.exposed_s, Scope::per_replica);
  put(state, "costs.compute_s", costs_.compute_s, Scope::per_replica);
  put(state, "costs.update_s", costs_.update_s, Scope::per_replica);
  put(state, "costs.wire_bytes", costs_.wire_bytes, Scope::per_replica);
  put(state, "costs.stage_bytes", costs_.stage_bytes, Scope::per_replica);
  return state;
}

void Worker::load(const State& state) {
  load_own(state);
  costs_ = {.seconds = get_double(state, "costs.seconds"),
            .exposed_s = get_double(state, "costs.exposed_s"),
            .compute_s = get_double(state, "costs.compute_s"),
            .update_s = get_double(state, "costs.update_s"),
            .wire_bytes = get_int(state, "costs.wire_bytes"),
            .stage_bytes = get_int(state, "costs.stage_bytes")};
}

}  // namespace thinwire::train
