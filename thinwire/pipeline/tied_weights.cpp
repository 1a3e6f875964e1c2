#include "thinwire/pipeline/tied_weights.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>

namespace thinwire::pipeline {

TiedWeights::TiedWeights(const at::Tensor& matrix, at::ScalarType compute, comm::GroupPtr stages, int64_t warmup,
                         bool stash, const MakeStrategy& make_strategy, const dp::MeterPtr& meter)
    : first_(stages->rank() == 0),
      stash_(stash),
      warmup_(warmup),
      weights_({{matrix}}, {.names = {"the tied matrix"}}, compute),
      strategy_(make_strategy(weights_)),
      channel_(stages, first_ ? stages->size() - 1 : 0, {.shape = {weights_.layout().numel}}, meter),
      rates_(weights_.layout().groups.size()) {
  weights_.refresh();
  ring_.push_back(weights_.x);
  for (int64_t i = 0; first_ && stash_ && i < warmup_; ++i) ring_.push_back(at::zeros_like(weights_.x));
}

void TiedWeights::bind_for(int64_t batch) {
  const int64_t version = first_ && stash_ ? std::max<int64_t>(0, batch - warmup_) : done_;
  if (bound_ == version) return;
  weights_.bind(ring_[version % std::ssize(ring_)]);
  bound_ = version;
}

void TiedWeights::with(const at::Tensor& weights) {
  weights_.bind(weights);
  bound_ = -1;
}

void TiedWeights::computed() {
  weights_.grad_ready(0);
  own_.push_back({weights_.grad.clone()});
  channel_.send(own_.back().grad);
}

void TiedWeights::update(int64_t t, double lr) {
  own_.back().t = t, own_.back().lr = lr;
  if (first_ || std::ssize(own_) > warmup_) apply_next();
}

void TiedWeights::apply_next() {
  const Own own = std::move(own_.front());
  own_.pop_front();
  at::add_out(weights_.grad, own.grad, channel_.recv());
  std::ranges::fill(rates_, own.lr);
  const auto size = std::ssize(ring_);
  strategy_->step(
      {.x = ring_[done_ % size], .next = ring_[(done_ + 1) % size], .grad = weights_.grad, .lr = rates_, .t = own.t});
  ++done_;
}

void TiedWeights::finish() {
  while (!own_.empty()) apply_next();
  strategy_->finish(newest());
  bound_ = -1;
}

void TiedWeights::put(State& state, const std::string& prefix) {
  thinwire::put(state, prefix + "done", done_, Scope::all_equal);
  state[prefix + "x"] = {newest(), Scope::per_replica};
  for (int64_t age = 1; age < std::min<int64_t>(std::ssize(ring_), done_ + 1); ++age)
    state[fmt::format("{}stash.{}", prefix, age)] = {ring_[(done_ - age) % std::ssize(ring_)], Scope::per_replica};
  thinwire::put(state, prefix + "left", std::ssize(own_), Scope::all_equal);
  channel_.prefetch(std::ssize(own_));  // the first end has none left, and what the last needs was sent
  const auto others = channel_.prefetched();
  for (size_t k = 0; k < own_.size(); ++k) {
    const std::string name = fmt::format("{}left.{}.", prefix, k);
    state[name + "own"] = {own_[k].grad, Scope::per_replica};
    state[name + "other"] = {others[k], Scope::per_replica};
    thinwire::put(state, name + "t", own_[k].t, Scope::all_equal);
    thinwire::put(state, name + "lr", own_[k].lr, Scope::all_equal);
  }
  add_prefixed(state, prefix + "strategy.", strategy_->state());
}

void TiedWeights::get(const State& state, const std::string& prefix, int64_t steps) {
  const int64_t left = first_ ? 0 : std::min(steps, warmup_);  // with any other number an end would wait for ever
  done_ = get_int(state, prefix + "done", steps - left, steps - left);
  get_int(state, prefix + "left", left, left);
  thinwire::get(state, prefix + "x", newest());
  for (int64_t age = 1; age < std::min<int64_t>(std::ssize(ring_), done_ + 1); ++age)
    thinwire::get(state, fmt::format("{}stash.{}", prefix, age), ring_[(done_ - age) % std::ssize(ring_)]);
  for (int64_t k = 0; k < left; ++k) {
    const std::string name = fmt::format("{}left.{}.", prefix, k);
    own_.push_back({at::empty_like(weights_.grad), get_int(state, name + "t", 1), get_double(state, name + "lr", 0)});
    thinwire::get(state, name + "own", own_.back().grad);
    const at::Tensor other = at::empty_like(weights_.grad);
    thinwire::get(state, name + "other", other);
    channel_.restore(other);
  }
  bound_ = -1;
  strategy_->load(with_prefix(state, prefix + "strategy."));
}

}  // namespace thinwire::pipeline
