#include "thinwire/pipeline/weight_stash.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>

namespace thinwire::pipeline {

WeightStash::WeightStash(const at::Tensor& x, int64_t versions, double predict) : predict_(predict) {
  ring_.push_back(x);
  while (std::ssize(ring_) < (predicts() ? 2 : versions)) ring_.push_back(at::zeros_like(x));
  peak_ = std::ssize(ring_);
}

at::Tensor& WeightStash::add(int64_t minibatch) {
  if (free_.empty()) free_.push_back(at::empty_like(newest()));
  at::Tensor& buffer = predicted_[minibatch] = std::move(free_.back());
  free_.pop_back();
  peak_ = std::max(peak_, std::ssize(ring_) + std::ssize(predicted_));
  return buffer;
}

at::Tensor WeightStash::of(int64_t minibatch, int64_t version) {
  // On time: no update comes between this minibatch's F and its B.
  if (!predicts() || minibatch == version) return ring_[version % std::ssize(ring_)];
  if (const auto it = predicted_.find(minibatch); it != predicted_.end()) return it->second;
  TORCH_CHECK(version == done_, "[pipeline.stash] minibatch ", minibatch, " wants version ", version, ", there is ",
              done_);
  at::Tensor& weights = add(minibatch);
  at::add_out(weights, newest(), change(), predict_ * static_cast<double>(minibatch - version));
  return weights;
}

void WeightStash::release(int64_t minibatch) {
  if (auto node = predicted_.extract(minibatch)) free_.push_back(std::move(node.mapped()));
}

void WeightStash::advance(dp::Strategy& strategy, const at::Tensor& grad, std::span<const double> lr, int64_t t) {
  const auto size = std::ssize(ring_);
  at::Tensor x = ring_[done_ % size], next = ring_[(done_ + 1) % size];
  optim::Update update{.x = x, .next = next, .grad = grad, .lr = lr, .t = t};
  bool seen = !predicts();
  if (predicts())
    update.rule_wrote = [&] {
      at::sub_out(x, next, x);  // D of the next version; nothing reads the old weights any more
      seen = true;
    };
  strategy.step(update);
  TORCH_CHECK(seen, "[pipeline.stash] a strategy that is its own update rule does not say what the rule did");
  ++done_;
}

void WeightStash::put(State& state, const std::string& prefix) const {
  const auto size = std::ssize(ring_);
  thinwire::put(state, prefix + "done", done_, Scope::all_equal);
  state[prefix + "x"] = {newest(), Scope::per_replica};
  if (predicts()) state[prefix + "change"] = {ring_[(done_ + 1) % size], Scope::per_replica};
  for (const auto& [minibatch, weights] : predicted_)
    state[fmt::format("{}predicted.{}", prefix, minibatch - done_)] = {weights, Scope::per_replica};
  for (int64_t age = 1; !predicts() && age < std::min<int64_t>(size, done_ + 1); ++age)
    state[fmt::format("{}stash.{}", prefix, age)] = {ring_[(done_ - age) % size], Scope::per_replica};
}

void WeightStash::get(const State& state, const std::string& prefix, int64_t done, int64_t in_flight) {
  const auto size = std::ssize(ring_);
  done_ = get_int(state, prefix + "done", done, done);
  thinwire::get(state, prefix + "x", newest());
  if (predicts()) thinwire::get(state, prefix + "change", change());
  for (int64_t k = 0; predicts() && k < in_flight; ++k)
    thinwire::get(state, fmt::format("{}predicted.{}", prefix, k), add(done_ + k));
  for (int64_t age = 1; !predicts() && age < std::min<int64_t>(size, done_ + 1); ++age)
    thinwire::get(state, fmt::format("{}stash.{}", prefix, age), ring_[(done_ - age) % size]);
}

}  // namespace thinwire::pipeline
