#include "thinwire/train/stage_worker.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "thinwire/train/stage_module.h"
#include "thinwire/train/stages.h"

namespace thinwire::train {

StageWorker::StageWorker(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh,
                         const WarmStart* warm_start)
    : Worker(recipe, std::move(text), mesh, warm_start), order_(schedule_of(recipe)) {
  stage_ = std::make_unique<pipeline::Stage>(
      stage_module_of(model_, units_of(partition_of(recipe, *model_), mesh.at.stage),
                      /*tie_apart=*/order_.asynchronous()),
      pipeline::StageOptions{.schedule = order_,
                             .steps = recipe.planned_steps(),
                             .begin = warm_start ? warm_start->step : 0,
                             .stash = recipe.pipeline.stash || !order_.asynchronous(),
                             .discount_steps = recipe.pipeline.discount_steps,
                             .predict = order_.asynchronous() ? recipe.pipeline.predict : 0,
                             .rate_power = order_.asynchronous() ? recipe.pipeline.rate_power : 0,
                             .activation = activation_spec_of(recipe)},
      mesh.pipeline_group,
      [this](int64_t t) {
        auto batch = batch_of(t);
        return pipeline::Batch{std::move(batch.tokens), std::move(batch.targets)};
      },
      [this](const optim::Flat& weights) { return make_strategy(weights, mesh_.replica_group, mesh_.at.stage); },
      [this](const optim::Flat& weights) {  // at both ends as at the first
        return make_strategy(weights, mesh_.replica_group->split(0, mesh_.at.replica), 0);
      },
      meter_);
  forget_others(units_of(partition_of(recipe, *model_), mesh.at.stage));
  if (warm_start) {
    strategy().load(with_moments(strategy().state(), *warm_start, [&](const at::Tensor& all) {
      return slice_stage(recipe_, *model_, all, mesh_.at.stage);
    }));
    if (auto* tie = stage_->tie())
      tie->strategy().load(with_moments(tie->strategy().state(), *warm_start,
                                        [&](const at::Tensor& all) { return tied_part(*model_, all); }));
  }
  made();
}

void StageWorker::forget_others(Units own) {
  for (size_t unit = 0; unit < model_->units.size(); ++unit) {
    if (own.first <= unit && unit < own.end) continue;
    for (auto& parameter : model_->units[unit]->parameters)
      if (!parameter.tensor.is_same(stage_->module().tied))
        parameter.tensor.set_data(at::zeros({1}, parameter.tensor.options()).expand(parameter.tensor.sizes()));
  }
}

dp::StrategyPtr StageWorker::make_strategy(const optim::Flat& weights, const comm::GroupPtr& group, int stage) {
  // A synchronous pipeline is one replica cut up: norms are of all of it.
  const bool over_stages = !order_.asynchronous() && dp::traits_of(recipe_.strategy).needs_global_norms;
  dp::Groups with = groups(group, over_stages);
  if (group != mesh_.replica_group) with.probe = nullptr;  // a tied matrix: the probe is the stage's
  optim::OptimOptions optim = recipe_.optim;
  if (optim.name == "muon" && weights.layout().matrices.empty())
    optim.name = optim.rest;  // as muon does with all others
  if (order_.asynchronous() && !recipe_.pipeline.stash)
    optim.betas[0] = pipeline::unstashed_beta1(stage, mesh_.shape.stages);
  return dp::make_strategy(recipe_.strategy, weights, with, optim, recipe_.planned_steps());
}

int StageWorker::lead() const { return static_cast<int>(order_.warmup[0]); }

void StageWorker::finish() { stage_->finish(); }

void StageWorker::record(const TracePtr& trace) {
  Worker::record(trace);
  stage_->record(trace);
}

double StageWorker::sum_of_losses(const data::Batch& held_out) {
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
        mesh_.pipeline_control->recv(x, mesh_.at.stage - 1, comm::TrafficKind::control)->wait();
      }
      x = stage_->module().forward(x);
      if (stage_->last())
        loss += stage_->module().loss(x, held_out.targets.narrow(0, row, n)).item<double>() * static_cast<double>(n);
      else
        sent.push_back({x, mesh_.pipeline_control->send(x, mesh_.at.stage + 1, comm::TrafficKind::control)});
    }
  });
  for (const Sent& s : sent) s.work->wait();
  return loss;
}

at::Tensor StageWorker::agreed_tie() {
  if (!stage_->tie()) return {};
  at::Tensor matrix = stage_->tie()->strategy().consensus(stage_->tie()->newest());
  // The last stage's copy is some updates behind the first's.
  if (stage_->first()) {
    mesh_.pipeline_control->send(matrix, mesh_.shape.stages - 1, comm::TrafficKind::control)->wait();
  } else {
    matrix = at::empty_like(matrix);
    mesh_.pipeline_control->recv(matrix, 0, comm::TrafficKind::control)->wait();
  }
  return matrix;
}

at::Tensor StageWorker::agreed() {
  at::Tensor own = strategy().consensus(newest());
  const at::Tensor tied = agreed_tie();
  if (mesh_.at.replica > 0) return {};
  if (!stage_->first()) {
    mesh_.pipeline_control->send(own, 0, comm::TrafficKind::control)->wait();
    return {};
  }
  return gather_stages(recipe_, *model_, tied, [&](int stage, int64_t numel) {
    if (stage == 0) return own;
    at::Tensor part = at::empty({numel}, at::kFloat);
    mesh_.pipeline_control->recv(part, stage, comm::TrafficKind::control)->wait();
    return part;
  });
}

std::map<std::string, at::Tensor> StageWorker::agreed_parts() {
  auto parts = Worker::agreed_parts();
  if (auto* tie = stage_->tie()) parts["tie."] = tie->strategy().consensus(tie->newest());
  return parts;
}

}  // namespace thinwire::train
