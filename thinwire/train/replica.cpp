#include "thinwire/train/replica.h"

#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "thinwire/kernels/threshold.h"
#include "thinwire/train/stage_module.h"

namespace thinwire::train {

Replica::Replica(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh,
                 const WarmStart* warm_start)
    : Worker(recipe, std::move(text), mesh, warm_start),
      weights_(models::parameters_by_unit(*model_), labels_of(parameters_of(*model_, {0, model_->units.size()})),
               compute_dtype(recipe.train)),
      may_skip_(recipe.train.on_divergence == "skip") {
  strategy_ = dp::make_strategy(recipe.strategy, weights_, groups(mesh.replica_group, /*over_stages=*/false),
                                recipe.optim, recipe.planned_steps());
  rates_.resize(weights_.layout().groups.size());
  if (warm_start)
    strategy_->load(with_moments(strategy_->state(), *warm_start, [](const at::Tensor& all) { return all; }));
  weights_.refresh();  // after replica 0's weights came
  for (size_t piece = 0; piece < layout_.pieces.size(); ++piece)
    hooks_.push_back(
        dp::on_grad_ready(weights_.parameters()[layout_.pieces[piece].tensor], [this, piece = static_cast<int>(piece)] {
          weights_.grad_ready(piece);
          if (!may_skip_) strategy_->grad_ready(piece);
        }));
  made();
}

std::optional<double> Replica::do_step(int64_t t) {
  const auto batch = batch_of(t);
  weights_.zero_grad();
  const at::Tensor loss = model_->loss(batch.tokens, batch.targets);
  const double value = loss.item<double>();
  const bool known = std::isfinite(value);
  TORCH_CHECK(known || may_skip_, "[train] the loss of replica ", mesh_.at.replica, " is not finite at step ", t,
              ": try a smaller optim.lr, optim.clip, or train.on_divergence = \"skip\"");
  if (known) loss.backward();
  const bool skip =
      may_skip_ && leave_out(known && kernels::count_reaching(weights_.grad, kernels::kNotFinite) == 0, t);
  for (int piece = 0; may_skip_ && !skip && piece < std::ssize(layout_.pieces); ++piece) strategy_->grad_ready(piece);
  std::ranges::fill(rates_, schedule_.at(t));
  strategy_->step({.x = weights_.x, .next = weights_.x, .grad = weights_.grad, .lr = rates_, .t = t, .skip = skip});
  weights_.refresh();
  if (!known) return {};
  return value;
}

bool Replica::leave_out(bool finite, int64_t t) {
  constexpr int64_t kMostInARow = 10;
  bool skip = !finite;
  if (dp::traits_of(recipe_.strategy).averages_gradients) {
    const at::Tensor any = at::full({1}, skip ? 1.0 : 0.0, at::kDouble);
    meter_->wait(*mesh_.replica_control->all_reduce_(any, comm::Reduce::max, comm::TrafficKind::control));
    skip = any.item<double>() > 0;
  }
  in_a_row_ = skip ? in_a_row_ + 1 : 0;
  if (skip) ++costs_.skipped;
  TORCH_CHECK(in_a_row_ < kMostInARow, "[train] loss or gradients of replica ", mesh_.at.replica,
              " were not finite in ", kMostInARow, " steps in a row, up to step ", t,
              ": try a smaller optim.lr, or optim.clip");
  return skip;
}

void Replica::finish() {
  strategy_->finish(weights_.x);
  weights_.refresh();
}

double Replica::sum_of_losses(const data::Batch& held_out) {
  weights_.bind(strategy_->consensus(weights_.x));
  double loss = 0;
  const int64_t rows = held_out.tokens.size(0), batch = recipe_.train.batch;
  for (int64_t row = 0; row < rows; row += batch) {
    const int64_t n = std::min(batch, rows - row);
    const at::Tensor part = model_->loss(held_out.tokens.narrow(0, row, n), held_out.targets.narrow(0, row, n));
    loss += part.item<double>() * static_cast<double>(n);
  }
  weights_.bind(weights_.x);
  return loss;
}

State Replica::own_state() {
  State state;
  state["x"] = {weights_.x, Scope::per_replica};
  add_prefixed(state, "strategy.", strategy_->state());
  return state;
}

void Replica::load_own(const State& state) {
  get(state, "x", weights_.x);
  weights_.refresh();
  strategy_->load(with_prefix(state, "strategy."));
}

}  // namespace thinwire::train
