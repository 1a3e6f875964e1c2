// Your model, your data, your loop; Thinwire moves the weights. Three replicas fit a line over an emulated 10 Mbit/s
// link with CO2, are interrupted, go on from a checkpoint, and end on the weights of a run that was not. Then one of
// them fails, and the others say so.
//
// Random numbers come from thinwire::generator(seed, name, index), never from torch's default generator: that one is
// shared by all threads, so what a replica draws would depend on timing.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "thinwire/base/random.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/thinwire.h"

using namespace thinwire;
namespace fs = std::filesystem;

constexpr int kReplicas = 3;
constexpr int64_t kSteps = 400, kSaveEvery = 100;

struct Trial {
  fs::path dir;            // of checkpoints
  int64_t until = kSteps;  // stop there, as if it was killed
  int fails = -1;          // the replica that fails at step 50, -1: none
};

// What every replica does; returns the hash of its weights.
std::string train_replica(const Trial& trial, comm::World& world) {
  // Who talks to whom, and over what.
  auto wire = world.group->with_transport(
      std::make_shared<net::EmulatedTransport>(world.group->transport(), net::Link{.rate = 10e6, .latency = 5e-3}));

  // Any parameters will do; they become views of one flat vector.
  at::Tensor weight = at::zeros({1, 4}).set_requires_grad(true), bias = at::zeros({1}).set_requires_grad(true);
  optim::Flat weights({{weight, bias}});

  dp::StrategyOptions options = dp::preset("co2");
  options.periodic.period = 8;
  auto strategy =
      dp::make_strategy(options, weights, {.sync = wire}, optim::OptimOptions{.name = "adamw", .weight_decay = 0});

  // Everything a run is: its weights, and what the strategy remembers, with what is still on its way.
  int64_t t = 0;
  if (const int64_t step = checkpoint::newest(trial.dir); step >= 0) {
    const State state = checkpoint::load(checkpoint::folder_of(trial.dir, step), world.rank()).state;
    get(state, "weights", weights.x);
    strategy->load(with_prefix(state, "strategy."));
    t = step;
  }
  world.group->barrier();  // no rank writes before all have read

  const at::Tensor truth = at::empty({1, 4}).normal_(0, 1, generator(1, "truth"));
  double loss_value = 0;
  while (t < trial.until) {
    ++t;
    // Each replica draws data of its own, by step: a resumed run draws the same.
    const at::Tensor x = at::empty({32, 4}).normal_(0, 1, generator(t, "data", world.rank()));
    const at::Tensor y = at::linear(x, truth) + 3;
    weights.grad.zero_();
    const at::Tensor loss = at::mse_loss(at::linear(x, weight, bias), y);
    loss.backward();
    loss_value = loss.item<double>();
    const std::vector<double> lr = {0.03, 0.03};
    strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = lr, .t = t});
    if (t == 50 && world.rank() == trial.fails) throw std::runtime_error("out of luck");
    if (t % kSaveEvery == 0) {
      strategy->drain();
      State state = {{"weights", {weights.x, Scope::per_replica}}};
      add_prefixed(state, "strategy.", strategy->state());
      checkpoint::save(trial.dir, t, state, /*facts=*/{}, /*keep=*/1, world, {.replicas = kReplicas});
    }
  }
  if (trial.until < kSteps) return "";
  strategy->finish(weights.x);
  const std::string hash = optim::weights_hash(weights.layout(), weights.x);
  fmt::print("replica {}: loss {:.4f}, bias {:.3f}, weights {}, {} bytes sent\n", world.rank(), loss_value,
             bias.item<double>(), hash, wire->ledger().sent());
  return hash;
}

// The hash that all replicas ended on.
std::string run(const Trial& trial) {
  std::vector<std::string> hashes(kReplicas);
  comm::run_threads(kReplicas, [&](comm::World& world) {
    try {
      hashes[world.rank()] = train_replica(trial, world);
    } catch (const comm::PeerLost& lost) {  // the newest checkpoint is whole: a place to go on from
      fmt::print("replica {} noticed: {}\n", world.rank(), lost.what());
      throw;
    }
  });
  for (const auto& hash : hashes)
    if (hash != hashes[0]) throw std::runtime_error("replicas ended on different weights");
  return hashes[0];
}

int main() {
  const fs::path home = fs::temp_directory_path() / fmt::format("thinwire_own_loop_{}", ::getpid());
  fmt::print("without a break:\n");
  const std::string whole = run({.dir = home / "whole"});
  run({.dir = home / "broken", .until = 250});
  fmt::print("stopped at step 250, and resumed from step {}:\n", checkpoint::newest(home / "broken"));
  const bool same = run({.dir = home / "broken"}) == whole;
  fmt::print("{}\n", same ? "the same weights" : "OTHER WEIGHTS");
  try {
    run({.dir = home / "failed", .fails = 1});
  } catch (const std::exception& error) {
    fmt::print("the run ended: {}\n", error.what());
  }
  fs::remove_all(home);
  return same ? 0 : 1;
}
