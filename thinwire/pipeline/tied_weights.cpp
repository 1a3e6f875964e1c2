#include "thinwire/pipeline/tied_weights.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>

namespace thinwire::pipeline {

TiedWeights::TiedWeights(const at::Tensor& matrix, at::ScalarType compute, comm::GroupPtr stages, int64_t warmup,
                         bool stash, double predict, const MakeStrategy& make_strategy, const dp::MeterPtr& meter)
    : first_(stages->rank() == 0),
      keeps_versions_(first_ && stash),
      warmup_(warmup),
      weights_({{matrix}}, {.names = {"the tied matrix"}}, compute),
      strategy_(make_strategy(weights_)),
      stash_(weights_.x, keeps_versions_ ? warmup + 1 : 1, warmup > 0 ? predict : 0),
      channel_(stages, first_ ? stages->size() - 1 : 0, {.shape = {weights_.layout().numel}}, meter),
      rates_(weights_.layout().groups.size()) {
  weights_.refresh();
}

void TiedWeights::bind_for(int64_t minibatch, int64_t version) {
  if (!keeps_versions_) version = stash_.done();
  if (bound_ == std::pair(minibatch, version)) return;
  weights_.bind(stash_.of(minibatch, version));
  bound_ = {minibatch, version};
}

void TiedWeights::with(const at::Tensor& weights) {
  weights_.bind(weights);
  bound_ = {-1, -1};
}

void TiedWeights::computed() {
  weights_.grad_ready(0);
  own_.push_back({weights_.grad.clone()});
  channel_.send(own_.back().grad);
}

void TiedWeights::update(int64_t t, double lr, bool late) {
  own_.back().t = t, own_.back().lr = lr;
  if (first_ || !late || std::ssize(own_) > warmup_) apply_next();
}

void TiedWeights::apply_next() {
  const Own own = std::move(own_.front());
  own_.pop_front();
  at::add_out(weights_.grad, own.grad, channel_.recv());
  std::ranges::fill(rates_, own.lr);
  stash_.advance(*strategy_, weights_.grad, rates_, own.t);
}

void TiedWeights::finish() {
  while (!own_.empty()) apply_next();
  strategy_->finish(newest());
  bound_ = {-1, -1};
}

void TiedWeights::put(State& state, const std::string& prefix) {
  stash_.put(state, prefix);
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

void TiedWeights::get(const State& state, const std::string& prefix, int64_t steps, int64_t late, int64_t in_flight) {
  const int64_t left = first_ ? 0 : std::min(late, warmup_);  // with any other number an end would wait for ever
  stash_.get(state, prefix, steps - left, in_flight);
  get_int(state, prefix + "left", left, left);
  for (int64_t k = 0; k < left; ++k) {
    const std::string name = fmt::format("{}left.{}.", prefix, k);
    own_.push_back({at::empty_like(weights_.grad), get_int(state, name + "t", 1), get_double(state, name + "lr", 0)});
    thinwire::get(state, name + "own", own_.back().grad);
    const at::Tensor other = at::empty_like(weights_.grad);
    thinwire::get(state, name + "other", other);
    channel_.restore(other);
  }
  bound_ = {-1, -1};
  strategy_->load(with_prefix(state, prefix + "strategy."));
}

}  // namespace thinwire::pipeline
