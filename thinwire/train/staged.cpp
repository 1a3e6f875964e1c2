#include "thinwire/train/staged.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "thinwire/base/errors.h"
#include "thinwire/pipeline/cut.h"
#include "thinwire/train/body.h"

namespace thinwire::train {

pipeline::Schedule schedule_of(const Recipe& recipe) {
  const auto& o = recipe.pipeline;
  if (!o.asynchronous() && recipe.train.batch % o.microbatches != 0)
    throw BadInput("pipeline.microbatches must divide train.batch, got {} and {}", o.microbatches, recipe.train.batch);
  return pipeline::make_schedule(o.schedule, static_cast<int>(recipe.workers.stages),
                                 o.asynchronous() ? 1 : o.microbatches, o.asynchronous() ? o.hop.count : 1);
}

void check_stages(const Recipe& recipe) {
  schedule_of(recipe);
  cut_of(recipe, *models::make_model(recipe.model, data::kVocabulary, recipe.train.seed));
  if (recipe.model.tied)
    throw BadInput("model.tied = true needs workers.stages = 1 in this version: embedding and head are apart");
}

std::vector<int64_t> cut_of(const Recipe& recipe, const models::Model& model) {
  const auto stages = static_cast<int>(recipe.workers.stages);
  std::vector<pipeline::UnitCost> costs;
  for (const auto& unit : model.units) {
    const auto forward = static_cast<double>(unit->work(recipe.model.context));
    costs.push_back({forward, 2 * forward});
  }
  const auto balanced = pipeline::cut(costs, stages);
  if (recipe.pipeline.cut == "estimated") return balanced;
  return pipeline::cut_from_text(recipe.pipeline.cut, stages, std::ssize(model.units));
}

std::pair<size_t, size_t> units_of(const std::vector<int64_t>& cut, int stage) {
  size_t first = 0;
  for (int j = 0; j < stage; ++j) first += static_cast<size_t>(cut[j]);
  return {first, first + static_cast<size_t>(cut[stage])};
}

Staged::Staged(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh)
    : Worker(recipe, std::move(text), mesh), order_(schedule_of(recipe)) {
  const auto [first, end] = units_of(cut_of(recipe, *model_), mesh.stage);
  stage_ = std::make_unique<pipeline::Stage>(
      body_of(model_, first, end),
      pipeline::StageOptions{
          .schedule = order_,
          .steps = recipe.planned_steps(),
          .stash = recipe.pipeline.stash || !order_.asynchronous(),
          .discount_steps = recipe.pipeline.discount_steps,
          .parcel = {{recipe.train.batch / order_.microbatches, recipe.model.context, recipe.model.width},
                     compute_dtype(recipe.train),
                     recipe.pipeline.codec}},
      mesh.along,
      [this](int64_t t) {
        auto batch = batch_of(t);
        return pipeline::Rows{std::move(batch.tokens), std::move(batch.targets)};
      },
      [this](const optim::Flat& weights) { return make_strategy(weights); });
  made();
}

dp::StrategyPtr Staged::make_strategy(const optim::Flat& weights) const {
  dp::Ranks ranks{.sync = mesh_.wire, .sum_over_shards = {}, .aside = mesh_.across};
  // A synchronous pipeline is one replica cut up: norms are of all of it. 1-bit strategies clip by estimates of their
  // own.
  if (!order_.asynchronous() && dp::family_of(recipe_.strategy.name) != dp::Family::one_bit)
    ranks.sum_over_shards = [along = mesh_.along](double own) {
      const at::Tensor sum = at::empty({1}, at::kDouble).fill_(own);
      along->all_reduce_(sum, comm::Reduce::sum, comm::Kind::control)->wait();
      return sum.item<double>();
    };
  optim::OptimOptions optim = recipe_.optim;
  if (order_.asynchronous() && !recipe_.pipeline.stash)
    optim.betas[0] = pipeline::unstashed_beta1(mesh_.stage, mesh_.stages);
  return dp::make_strategy(recipe_.strategy, weights, ranks, optim, recipe_.planned_steps());
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
  stage_->with(strategy().consensus(newest()), [&] {
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

at::Tensor Staged::agreed() {
  const at::Tensor own = strategy().consensus(newest());
  if (mesh_.replica > 0) return {};
  if (!stage_->first()) {
    mesh_.bare_along->send(own, 0, comm::Kind::control)->wait();
    return {};
  }
  // Units begin on block boundaries everywhere, so stages one after another are the whole.
  at::Tensor whole = at::zeros({layout_.numel}, at::kFloat);
  whole.narrow(0, 0, own.numel()).copy_(own);
  int64_t at = own.numel();
  const auto all = models::parameters_by_unit(*model_);
  const auto cut = cut_of(recipe_, *model_);
  for (int stage = 1; stage < mesh_.stages; ++stage) {
    const auto [first, end] = units_of(cut, stage);
    const int64_t n =
        optim::make_layout({all.begin() + static_cast<int64_t>(first), all.begin() + static_cast<int64_t>(end)}).numel;
    mesh_.bare_along->receive(whole.narrow(0, at, n), stage, comm::Kind::control)->wait();
    at += n;
  }
  return whole;
}

}  // namespace thinwire::train
