#include "thinwire/train/staged.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "thinwire/base/clock.h"
#include "thinwire/kernels/reduce.h"
#include "thinwire/train/body.h"
#include "thinwire/train/cutting.h"

namespace thinwire::train {

Staged::Staged(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh, const Origin* origin)
    : Worker(recipe, std::move(text), mesh, origin), order_(schedule_of(recipe)) {
  stage_ = std::make_unique<pipeline::Stage>(
      body_of(model_, units_of(cut_of(recipe, *model_), mesh.stage), /*tie_apart=*/order_.asynchronous()),
      pipeline::StageOptions{.schedule = order_,
                             .steps = recipe.planned_steps(),
                             .begin = origin ? origin->step : 0,
                             .stash = recipe.pipeline.stash || !order_.asynchronous(),
                             .discount_steps = recipe.pipeline.discount_steps,
                             .parcel = parcel_of(recipe)},
      mesh.along,
      [this](int64_t t) {
        auto batch = batch_of(t);
        return pipeline::Rows{std::move(batch.tokens), std::move(batch.targets)};
      },
      [this](const optim::Flat& weights) { return make_strategy(weights, mesh_.wire, mesh_.stage); },
      [this](const optim::Flat& weights) {  // at both ends as at the first
        return make_strategy(weights, mesh_.wire->split(0, mesh_.replica), 0);
      });
  forget_others(units_of(cut_of(recipe, *model_), mesh.stage));
  if (origin) {
    strategy().load(with_moments(strategy().state(), *origin, [&](const at::Tensor& all) {
      return taken_apart(recipe_, *model_, all, mesh_.stage);
    }));
    if (auto* tie = stage_->tie())
      tie->strategy().load(with_moments(tie->strategy().state(), *origin,
                                        [&](const at::Tensor& all) { return tied_part(*model_, all); }));
  }
  made();
}

void Staged::forget_others(Units own) {
  for (size_t unit = 0; unit < model_->units.size(); ++unit) {
    if (own.first <= unit && unit < own.end) continue;
    for (auto& parameter : model_->units[unit]->parameters)
      if (!parameter.tensor.is_same(stage_->body().tied))
        parameter.tensor.set_data(at::zeros({1}, parameter.tensor.options()).expand(parameter.tensor.sizes()));
  }
}

dp::StrategyPtr Staged::make_strategy(const optim::Flat& weights, const comm::GroupPtr& wire, int stage) {
  dp::Ranks ranks{.sync = wire, .sum_over_shards = {}, .aside = mesh_.across};
  // A synchronous pipeline is one replica cut up: norms are of all of it. 1-bit strategies clip by estimates of their
  // own.
  if (!order_.asynchronous() && dp::family_of(recipe_.strategy.name) != dp::Family::one_bit)
    ranks.sum_over_shards = [this, twice = twice(weights)](double own) {
      if (twice.defined()) own -= kernels::sum_squares(twice);
      const at::Tensor sum = at::empty({1}, at::kDouble).fill_(own);
      const auto begin = Clock::now();
      mesh_.along->all_reduce_(sum, comm::Reduce::sum, comm::Kind::control)->wait();
      const auto end = Clock::now();
      summing_s_ += seconds_between(begin, end);
      if (trace_) trace_->add(Doing::wait, begin, end);
      return sum.item<double>();
    };
  optim::OptimOptions optim = recipe_.optim;
  if (optim.name == "muon" && weights.layout().matrices.empty()) optim.name = "adamw";  // as muon does with all others
  if (order_.asynchronous() && !recipe_.pipeline.stash) optim.betas[0] = pipeline::unstashed_beta1(stage, mesh_.stages);
  return dp::make_strategy(recipe_.strategy, weights, ranks, optim, recipe_.planned_steps());
}

at::Tensor Staged::twice(const optim::Flat& weights) const {
  for (const optim::Piece& piece : weights.layout().pieces)
    if (mesh_.last_stage() && weights.parameters()[piece.tensor].is_same(model_->tied))
      return weights.grad.narrow(0, piece.at, piece.numel);
  return {};
}

int Staged::lead() const { return static_cast<int>(order_.warmup[0]); }

void Staged::finish() { stage_->finish(); }

void Staged::record(const TracePtr& trace) {
  Worker::record(trace);
  stage_->record(trace);
}

double Staged::sum_of_losses(const data::Batch& held_out) {
  double loss = 0;
  struct Sent {
    at::Tensor x;
    comm::WorkPtr work;
  };
  std::vector<Sent> sent;
  const int64_t rows = held_out.tokens.size(0), batch = recipe_.train.batch;
  stage_->with(strategy().consensus(newest()), agreed_tie(), [&] {
    for (int64_t row = 0; row < rows; row += batch) {
      const int64_t n = std::min(batch, rows - row);
      at::Tensor x = held_out.tokens.narrow(0, row, n);
      if (!stage_->first()) {
        x = at::empty({n, recipe_.model.context, recipe_.model.width}, compute_dtype(recipe_.train));
        mesh_.bare_along->receive(x, mesh_.stage - 1, comm::Kind::control)->wait();
      }
      x = stage_->body().forward(x);
      if (stage_->last())
        loss += stage_->body().loss(x, held_out.targets.narrow(0, row, n)).item<double>() * static_cast<double>(n);
      else
        sent.push_back({x, mesh_.bare_along->send(x, mesh_.stage + 1, comm::Kind::control)});
    }
  });
  for (const Sent& s : sent) s.work->wait();
  return loss;
}

at::Tensor Staged::agreed_tie() {
  if (!stage_->tie()) return {};
  at::Tensor matrix = stage_->tie()->strategy().consensus(stage_->tie()->newest());
  // The last stage's copy is some updates behind the first's.
  if (stage_->first()) {
    mesh_.bare_along->send(matrix, mesh_.stages - 1, comm::Kind::control)->wait();
  } else {
    matrix = at::empty_like(matrix);
    mesh_.bare_along->receive(matrix, 0, comm::Kind::control)->wait();
  }
  return matrix;
}

at::Tensor Staged::agreed() {
  at::Tensor own = strategy().consensus(newest());
  const at::Tensor tied = agreed_tie();
  if (mesh_.replica > 0) return {};
  if (!stage_->first()) {
    mesh_.bare_along->send(own, 0, comm::Kind::control)->wait();
    return {};
  }
  return assembled(recipe_, *model_, tied, [&](int stage, int64_t numel) {
    if (stage == 0) return own;
    at::Tensor part = at::empty({numel}, at::kFloat);
    mesh_.bare_along->receive(part, stage, comm::Kind::control)->wait();
    return part;
  });
}

}  // namespace thinwire::train
