// A problem small enough to reason about: replica i minimises h/2 |x - c_i|^2, so its gradient is h (x - c_i).
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/normal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <functional>
#include <memory>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/comm/world.h"
#include "thinwire/dp/catalog.h"
#include "thinwire/optim/adamw.h"
#include "thinwire/optim/layout.h"
#include "thinwire/optim/sgd.h"

namespace thinwire::dp {

inline at::Tensor random_vector(int64_t n, uint64_t seed) {
  return at::empty({n}, at::kFloat).normal_(0, 1, generator(seed, "test"));
}

// Two tensors, a matrix and a vector, so that both parameter groups exist.
inline optim::Layout two_piece_layout() { return optim::make_layout({{at::zeros({20, 20}), at::zeros({37})}}); }

// Copies a vector over the pieces of a layout; padding is left zero.
inline at::Tensor on_pieces(const optim::Layout& layout, uint64_t seed) {
  at::Tensor x = at::zeros({layout.numel}, at::kFloat);
  for (const auto& piece : layout.pieces)
    x.narrow(0, piece.at, piece.numel)
        .copy_(random_vector(piece.numel, hash64({seed, static_cast<uint64_t>(piece.at)})));
  return x;
}

inline optim::RulePtr plain_sgd(const optim::Layout& layout, double momentum = 0) {
  return std::make_unique<optim::Sgd>(layout, optim::SgdOptions{.momentum = momentum, .weight_decay = 0});
}
inline optim::RulePtr adamw(const optim::Layout& layout) {
  return std::make_unique<optim::Adamw>(layout, optim::AdamwOptions{});
}

// One replica: its weights, its target, its strategy.
struct Replica {
  optim::Layout layout = two_piece_layout();
  at::Tensor x, grad, target;
  StrategyPtr strategy;
  double curvature = 1;

  Replica(const StrategyOptions& options, comm::GroupPtr group, optim::RulePtr rule, uint64_t target_seed)
      : x(on_pieces(layout, 7)), grad(at::zeros_like(x)), target(on_pieces(layout, target_seed)) {
    Groups ranks{.sync = group};
    if (options.name == "all_reduce")
      strategy = std::make_unique<AllReduce>(layout, ranks, std::move(rule), options.all_reduce, x, grad);
    else
      strategy = std::make_unique<Periodic>(layout, ranks, std::move(rule), options.periodic, x);
  }

  void step(int64_t t, double lr, double lr_of_vectors) {
    grad.copy_(x).sub_(target).mul_(curvature);
    const std::vector<double> rates = {lr, lr_of_vectors};
    strategy->step({.x = x, .next = x, .grad = grad, .lr = rates, .t = t});
  }
  void step(int64_t t, double lr) { step(t, lr, lr); }
};

// Runs `steps` steps of `options` on `replicas` ranks and returns each rank's final weights, finished if asked.
// A learning rate that changes with t shows whether a rule uses the one it should.
struct Trial {
  StrategyOptions options;
  int replicas = 4;
  int64_t steps = 33;
  bool finish = false;
  bool same_data = false;
  std::function<optim::RulePtr(const optim::Layout&)> rule = [](const optim::Layout& l) { return plain_sgd(l); };
  std::function<double(int64_t)> lr = [](int64_t t) { return 0.1 / (1 + 0.05 * static_cast<double>(t)); };

  std::vector<at::Tensor> run() const {
    std::vector<at::Tensor> results(replicas);
    comm::run_world(replicas, [&](comm::GroupPtr group) {
      const uint64_t seed = same_data ? 100 : 100 + group->rank();
      Replica replica(options, group, rule(two_piece_layout()), seed);
      for (int64_t t = 1; t <= steps; ++t) replica.step(t, lr(t), 0.5 * lr(t));
      if (finish) replica.strategy->finish(replica.x);
      results[group->rank()] = replica.x.clone();
    });
    return results;
  }
};

inline double distance(const at::Tensor& a, const at::Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

}  // namespace thinwire::dp
