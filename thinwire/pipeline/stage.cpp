#include "thinwire/pipeline/stage.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/clock.h"
#include "thinwire/base/deferred_work.h"

namespace thinwire::pipeline {

double unstashed_beta1(int stage, int stages) { return 0.9 + 0.09 * (stages - 1 - stage) / stages; }

Stage::Stage(StageModule module, const StageOptions& options, comm::GroupPtr stages, Source source,
             const MakeStrategy& make_strategy, const MakeStrategy& make_tie_strategy, dp::MeterPtr meter)
    : module_(std::move(module)),
      options_(options),
      schedule_(continued(options.schedule, options.begin)),
      index_(stages->rank()),
      source_(std::move(source)),
      meter_(std::move(meter)),
      weights_(module_.parameters, module_.labels, options.activation.dtype),
      late_channels_(schedule_.late(0)),
      begin_(options.begin) {
  TORCH_CHECK(stages->size() == schedule_.stages, "[pipeline.stage] the schedule is for ", schedule_.stages,
              " stages, the group has ", stages->size());
  TORCH_CHECK(!last() || module_.loss, "[pipeline.stage] the last stage needs a loss");
  TORCH_CHECK(
      options_.stash || (options_.predict == 0 && options_.rate_power == 0 && options_.schedule.sync_steps == 0),
      "[pipeline.stage] predict, rate_power and sync_steps need the stash");
  rates_.resize(layout().groups.size());
  strategy_ = make_strategy(weights_);
  weights_.refresh();  // after replica 0's weights came
  const int64_t ahead = options_.stash ? schedule_.warmup[index_] : 0;
  stash_ = std::make_unique<WeightStash>(weights_.x, ahead + 1, ahead > 0 ? options_.predict : 0);
  const ActivationSpec spec = activation(late_channels_);
  if (!first()) up_ = std::make_unique<StageChannel>(stages, index_ - 1, spec, meter_);
  if (!last()) down_ = std::make_unique<StageChannel>(stages, index_ + 1, spec, meter_);
  make_tie(stages->split(0, index_), make_tie_strategy);
  for (size_t piece = 0; piece < layout().pieces.size(); ++piece) {
    const at::Tensor& parameter = weights_.parameters()[layout().pieces[piece].tensor];
    if (parameter.is_same(module_.tied)) continue;  // its gradient is not complete before the other end's came
    hooks_.push_back(dp::on_grad_ready(parameter, [this, piece = static_cast<int>(piece)] {
      if (!announces_) return;
      weights_.grad_ready(piece);
      strategy_->grad_ready(piece);
    }));
  }
}

void Stage::make_tie(const comm::GroupPtr& stages, const MakeStrategy& make_strategy) {
  if (!module_.tied.defined()) return;
  TORCH_CHECK(first() || last(), "[pipeline.stage] only the first and the last stage can share a matrix");
  for (int i = 0; i < std::ssize(layout().pieces); ++i)
    if (weights_.parameters()[layout().pieces[i].tensor].is_same(module_.tied)) tied_piece_ = i;
  const bool apart = tied_piece_ < 0;
  TORCH_CHECK(apart == schedule_.asynchronous(),
              "[pipeline.stage] a tied matrix is among the parameters if and only if the schedule is synchronous");
  if (apart) {
    tie_ = std::make_unique<TiedWeights>(module_.tied, options_.activation.dtype, stages, schedule_.warmup[0],
                                         options_.stash, options_.predict, make_strategy, meter_);
  } else {
    const optim::Piece& piece = layout().pieces[tied_piece_];
    tied_grad_ = weights_.grad.narrow(0, piece.at, piece.numel);
    const int other = first() ? schedule_.stages - 1 : 0;
    other_end_ = std::make_unique<StageChannel>(stages, other, ActivationSpec{.shape = {tied_grad_.numel()}}, meter_);
  }
}

ActivationSpec Stage::activation(bool late) const {
  ActivationSpec spec = options_.activation;
  if (schedule_.asynchronous() && !late) spec.shape[0] /= schedule_.sync_microbatches;
  return spec;
}

void Stage::reshape_channels(bool late) {
  if (late == late_channels_) return;
  late_channels_ = late;
  for (auto* channel : {up_.get(), down_.get()})
    if (channel) channel->restart(activation(late));
}

Batch Stage::batch_of(int64_t batch) {
  const int64_t step = schedule_.step_of(batch), t = begin_ + step + 1;
  const int64_t parts = schedule_.microbatches_of(step), part = batch - schedule_.first_batch(step);
  if (!drawn_ || drawn_->first != t) drawn_ = {t, source_(t)};
  const int64_t n = drawn_->second.tokens.size(0) / parts;
  return {drawn_->second.tokens.narrow(0, part * n, n), drawn_->second.targets.narrow(0, part * n, n)};
}

void Stage::bind(int64_t batch) {
  const Bound wanted{schedule_.step_of(batch), options_.stash ? schedule_.version(index_, batch) : done()};
  if (tie_) tie_->bind_for(wanted.minibatch, schedule_.version(0, batch));
  if (bound_ == wanted) return;
  weights_.bind(stash_->of(wanted.minibatch, wanted.version));
  bound_ = wanted;
}

void Stage::with(const at::Tensor& weights, const at::Tensor& tied, const std::function<void()>& f) {
  weights_.bind(weights);
  if (tie_) tie_->with(tied);
  bound_ = {};
  f();
}

std::optional<double> Stage::step(int64_t t, double lr) {
  TORCH_CHECK(t == begin_ + done() + 1, "[pipeline.stage] step ", t, " does not follow ", begin_ + done());
  reshape_channels(schedule_.late(done()));
  weights_.zero_grad();
  if (tie_) tie_->zero_grad();
  loss_ = 0;
  const int64_t parts = schedule_.microbatches_of(done());
  const auto ops = schedule_.ops(index_, done(), planned());
  const bool defers = std::ranges::any_of(ops, [](const Op& op) { return op.kind == OpKind::weights; });
  const auto final_backward = std::ranges::find(ops.rbegin(), ops.rend(), OpKind::backward, &Op::kind);
  for (const Op& op : ops) {
    announces_ = !defers && &op == &*final_backward;
    switch (op.kind) {
      case OpKind::forward:
        forward(op.batch);
        break;
      case OpKind::backward:
        if (defers) {
          DeferredWork later;
          backward(op.batch);
          deferred_[op.batch] = later.take();
        } else {
          backward(op.batch);
        }
        break;
      case OpKind::weights: {
        const auto begin = Clock::now();
        const auto jobs = deferred_.extract(op.batch);
        for (const auto& job : jobs.mapped()) job();
        if (trace_) trace_->add(TraceKind::weights, begin, Clock::now(), op.batch);
        break;
      }
      case OpKind::update:
        for (size_t piece = 0; defers && piece < layout().pieces.size(); ++piece)
          weights_.grad_ready(static_cast<int>(piece));
        update(t, lr);
    }
  }
  if (!last()) return {};
  return loss_ / static_cast<double>(parts);
}

void Stage::forward(int64_t batch) {
  at::Tensor& input = inputs_[batch] = first() ? batch_of(batch).tokens : up_->recv();
  peak_inputs_ = std::max<int64_t>(peak_inputs_, std::ssize(inputs_) + std::ssize(deferred_));
  if (last()) return;
  const auto begin = Clock::now();
  at::NoGradGuard no_grad;
  bind(batch);
  down_->send(module_.forward(input));
  if (trace_) trace_->add(TraceKind::forward, begin, Clock::now(), batch);
}

void Stage::backward(int64_t batch) {
  const at::Tensor input = inputs_.extract(batch).mapped().detach().requires_grad_(!first());
  at::Tensor gradient;
  if (!last()) gradient = down_->recv();
  const auto begin = Clock::now();
  bind(batch);
  const at::Tensor output = module_.forward(input);
  if (last()) {
    const at::Tensor loss = module_.loss(output, batch_of(batch).targets);
    const double value = loss.item<double>();
    TORCH_CHECK(std::isfinite(value), "[pipeline] the loss is not finite at step ", begin_ + done() + 1,
                ": try a smaller optim.lr, or optim.clip");
    loss_ += value;
    const int64_t parts = schedule_.microbatches_of(done());
    (parts == 1 ? loss : loss.div(parts)).backward();
  } else {
    output.backward(gradient);
  }
  if (!first()) up_->send(input.grad());
  stash_->release(schedule_.step_of(batch));
  if (tie_) tie_->release(schedule_.step_of(batch));
  if (trace_) trace_->add(TraceKind::backward, begin, Clock::now(), batch);
}

void Stage::update(int64_t t, double lr) {
  if (other_end_) {
    weights_.grad_ready(tied_piece_);
    other_end_->send(tied_grad_.clone());
    tied_grad_.add_(other_end_->recv());
  }
  if (tie_) tie_->computed();
  const auto begin = Clock::now();
  const bool late = schedule_.late(done());
  std::ranges::fill(rates_, rate(lr, t, index_));
  stash_->advance(*strategy_, weights_.grad, rates_, t);
  if (tie_) tie_->update(t, rate(lr, t, 0), late);
  if (trace_) trace_->add(TraceKind::update, begin, Clock::now(), t - 1);
}

double Stage::rate(double lr, int64_t t, int stage) const {
  const auto w = static_cast<double>(schedule_.warmup[stage]);
  if (options_.stash) return lr / std::pow(1 + w, options_.rate_power);
  const double rho = 1 - std::min(static_cast<double>(t) / static_cast<double>(options_.discount_steps), 1.0);
  return lr / std::pow(std::max(1.0, w), rho);
}

void Stage::drain() {
  strategy_->drain();
  if (tie_) tie_->strategy().drain();
}

void Stage::finish() {
  strategy_->finish(newest());
  if (tie_) tie_->finish();
  bound_ = {};
}

int64_t Stage::inputs_ahead(int stage, int64_t done) const {
  const int64_t ahead = done <= schedule_.sync_steps ? 0 : schedule_.warmup[stage];
  return planned() == 0 ? ahead : std::min(ahead, planned() - done);
}

State Stage::state() {
  State state;
  put(state, "begin", begin_, Scope::all_equal);
  stash_->put(state, "");
  if (!first()) {  // the first stage's are tokens, which can be drawn again
    for (const auto& [batch, input] : inputs_)
      state[fmt::format("input.{}", schedule_.step_of(batch) - done())] = {input, Scope::per_replica};
    up_->prefetch(inputs_ahead(index_ - 1) - inputs_ahead(index_));
    int64_t k = inputs_ahead(index_);
    for (const at::Tensor& input : up_->prefetched()) state[fmt::format("input.{}", k++)] = {input, Scope::per_replica};
  }
  if (up_) up_->put(state, "up.");
  if (down_) down_->put(state, "down.");
  add_prefixed(state, "strategy.", strategy_->state());
  if (tie_) tie_->put(state, "tie.");
  return state;
}

void Stage::load(const State& state) {
  TORCH_CHECK(done() == 0, "[pipeline.stage] a checkpoint is loaded before the first step");
  const int64_t most = options_.steps > 0 ? options_.steps : kMostSteps;
  begin_ = get_int(state, "begin", 0, most);
  schedule_ = continued(options_.schedule, begin_);
  const int64_t steps = get_int(state, "done", 0, most - begin_);
  stash_->get(state, "", steps, inputs_ahead(index_, steps));
  reshape_channels(schedule_.late(std::max<int64_t>(0, done() - 1)));  // they change at the beginning of a step
  const int64_t kept = inputs_ahead(index_), sent = first() ? kept : inputs_ahead(index_ - 1);
  for (int64_t k = 0; k < sent; ++k) {
    const int64_t batch = schedule_.first_batch(done() + k);
    if (first()) {
      inputs_[batch] = batch_of(batch).tokens;
      continue;
    }
    at::Tensor input = at::empty(options_.activation.shape, options_.activation.dtype);
    get(state, fmt::format("input.{}", k), input);
    if (k < kept)
      inputs_[batch] = input;
    else
      up_->restore(input);
  }
  if (up_) up_->get(state, "up.");
  if (down_) down_->get(state, "down.");
  bound_ = {};
  strategy_->load(with_prefix(state, "strategy."));
  if (tie_)
    tie_->get(state, "tie.", done(), done() - std::min(done(), schedule_.sync_steps), first() ? inputs_ahead(0) : 0);
}

}  // namespace thinwire::pipeline
