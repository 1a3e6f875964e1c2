#include "thinwire/train/replica.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/clock.h"
#include "thinwire/dp/hooks.h"
#include "thinwire/kernels/reduce.h"

namespace thinwire::train {
namespace {

double sum_over(comm::Group& group, std::initializer_list<double> mine, std::vector<double>* all = nullptr) {
  at::Tensor values = at::empty({static_cast<int64_t>(mine.size())}, at::kDouble);
  std::ranges::copy(mine, values.mutable_data_ptr<double>());
  group.all_reduce_(values, comm::Reduce::sum, comm::Kind::control)->wait();
  const double* p = values.const_data_ptr<double>();
  if (all) all->assign(p, p + mine.size());
  return p[0];
}

optim::Labels labels_of(const models::Model& model) {
  optim::Labels labels;
  for (const auto& unit : model.units)
    for (const auto& parameter : unit->parameters) {
      labels.names.push_back(parameter.name);
      labels.matrices.push_back(parameter.matrices);
    }
  return labels;
}

}  // namespace

Replica::Replica(const Recipe& recipe, std::shared_ptr<const data::Text> text, comm::GroupPtr wire, comm::GroupPtr bare)
    : recipe_(recipe),
      text_(std::move(text)),
      wire_(std::move(wire)),
      bare_(std::move(bare)),
      schedule_(optim::make_schedule(recipe.optim, recipe.planned_steps())),
      model_(models::make_model(recipe.model, data::kVocabulary, recipe.train.seed)),
      weights_(std::make_unique<optim::Flat>(models::parameters_by_unit(*model_), labels_of(*model_),
                                             recipe.train.dtype == "bfloat16" ? at::kBFloat16 : at::kFloat)) {
  strategy_ = dp::make_strategy(recipe.strategy, *weights_, {.sync = wire_, .sum_over_shards = {}, .aside = bare_},
                                recipe.optim, recipe.planned_steps());
  weights_->refresh();  // after replica 0's weights came
  for (size_t piece = 0; piece < weights_->layout().pieces.size(); ++piece)
    dp::on_grad_ready(weights_->parameters()[weights_->layout().pieces[piece].tensor],
                      [this, piece = static_cast<int>(piece)] {
                        weights_->grad_ready(piece);
                        strategy_->grad_ready(piece);
                      });
  setup_bytes_ = sent_before_ = wire_->ledger().sent();
}

double Replica::step(int64_t t) {
  const auto start = Clock::now();
  const double exposed_before = strategy_->exposed_s(), update_before = strategy_->update_s();

  const auto batch =
      data::sample(*text_, recipe_.train.seed, t, wire_->rank(), recipe_.train.batch, recipe_.model.context);
  weights_->zero_grad();
  const at::Tensor loss = model_->loss(batch.tokens, batch.targets);
  const double value = loss.item<double>();
  TORCH_CHECK(std::isfinite(value), "[train] the loss of replica ", wire_->rank(), " is not finite at step ", t,
              ": try a smaller optim.lr, or optim.clip");
  loss.backward();
  const double lr[optim::kGroups] = {schedule_.at(t), schedule_.at(t)};
  strategy_->step({.x = weights_->x, .next = weights_->x, .grad = weights_->grad, .lr = lr, .t = t});
  weights_->refresh();

  const auto end = Clock::now();
  if (trace_) trace_->add(Doing::step, start, end);
  const double seconds = seconds_between(start, end), exposed = strategy_->exposed_s() - exposed_before;
  costs_.seconds += seconds;
  costs_.exposed_s += exposed;
  costs_.compute_s += seconds - exposed;
  costs_.update_s += strategy_->update_s() - update_before;
  count_bytes();
  return value;
}

void Replica::count_bytes() {
  const int64_t sent = wire_->ledger().sent();
  costs_.wire_bytes += sent - sent_before_;
  sent_before_ = sent;
}

void Replica::drain() {
  strategy_->drain();
  count_bytes();
}

void Replica::finish() {
  strategy_->finish(weights_->x);
  weights_->refresh();
}

void Replica::record(TracePtr trace) {
  trace_ = trace;
  strategy_->record(std::move(trace));
}

double Replica::evaluate() {
  at::NoGradGuard no_grad;
  weights_->bind(strategy_->consensus(weights_->x));
  double loss = 0;
  int64_t rows = 0;
  const int64_t windows = recipe_.train.eval_windows, ranks = bare_->size(), batch = recipe_.train.batch;
  const auto mine = data::held_out(*text_, windows, bare_->rank(), ranks, recipe_.model.context);
  for (; rows < mine.tokens.size(0); rows += std::min(batch, mine.tokens.size(0) - rows)) {
    const int64_t n = std::min(batch, mine.tokens.size(0) - rows);
    const at::Tensor part = model_->loss(mine.tokens.narrow(0, rows, n), mine.targets.narrow(0, rows, n));
    loss += part.item<double>() * static_cast<double>(n);
  }
  weights_->bind(weights_->x);
  std::vector<double> sums;
  sum_over(*bare_, {loss, static_cast<double>(rows)}, &sums);
  TORCH_CHECK(std::isfinite(sums[0]), "[train] the held-out loss is not finite: try a smaller optim.lr, or optim.clip");
  return sums[0] / sums[1];
}

double Replica::consensus_distance() {
  if (!mean_.defined()) mean_ = at::empty_like(weights_->x);
  mean_.copy_(weights_->x);
  bare_->all_reduce_(mean_, comm::Reduce::mean, comm::Kind::control)->wait();
  const double away = kernels::sum_squared_differences(weights_->x, mean_);
  return sum_over(*bare_, {away}) / bare_->size() / kernels::sum_squares(mean_);
}

State Replica::state() {
  drain();
  State state;
  state["x"] = {weights_->x, Scope::per_replica};
  add_prefixed(state, "strategy.", strategy_->state());
  put(state, "costs.seconds", costs_.seconds, Scope::per_replica);
  put(state, "costs.exposed_s", costs_.exposed_s, Scope::per_replica);
  put(state, "costs.compute_s", costs_.compute_s, Scope::per_replica);
  put(state, "costs.update_s", costs_.update_s, Scope::per_replica);
  put(state, "costs.wire_bytes", costs_.wire_bytes, Scope::per_replica);
  return state;
}

void Replica::load(const State& state) {
  get(state, "x", weights_->x);
  weights_->refresh();
  strategy_->load(with_prefix(state, "strategy."));
  costs_ = {.seconds = get_double(state, "costs.seconds"),
            .exposed_s = get_double(state, "costs.exposed_s"),
            .compute_s = get_double(state, "costs.compute_s"),
            .update_s = get_double(state, "costs.update_s"),
            .wire_bytes = get_int(state, "costs.wire_bytes")};
}

}  // namespace thinwire::train
