// Two workers whose compute is played: a step is a wait of known length, so that the ratio of transfer to compute is
// what a benchmark says it is, on any machine. Everything else is real: strategy, collectives, emulated link.
#pragma once

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <thread>

#include "thinwire/base/clock.h"
#include "thinwire/comm/world.h"
#include "thinwire/dp/catalog.h"
#include "thinwire/net/emulated_transport.h"

namespace thinwire::benchmarks {

struct Played {
  double seconds = 0, exposed_s = 0;  // means over the ranks
  double utilisation() const { return 1 - exposed_s / seconds; }
};

inline const optim::OptimOptions kPlainSgd{.name = "sgd", .momentum = 0, .clip = INFINITY};

// The first `unmeasured` steps (a warm-up) come before those that count.
inline Played play(const dp::StrategyOptions& options, int workers, int64_t steps, double step_s, int64_t numel,
                   const net::Link& link, const optim::OptimOptions& optim = kPlainSgd, int64_t unmeasured = 0) {
  Played result;
  std::mutex mutex;
  comm::run_world(workers, [&](std::shared_ptr<comm::TransportGroup> world) {
    auto linked = world->with_transport(std::make_shared<net::EmulatedTransport>(world->transport(), link));
    optim::Flat weights({{at::zeros({numel})}});
    auto meter = std::make_shared<dp::Meter>();
    auto strategy = dp::make_strategy(options, weights, {.sync = linked, .meter = meter}, optim);
    const std::vector<double> lr = {1e-3, 1e-3};
    auto run = [&](int64_t from, int64_t to) {
      world->barrier();
      const auto begin = Clock::now();
      for (int64_t t = from; t <= to; ++t) {
        std::this_thread::sleep_for(to_duration(step_s));
        strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = lr, .t = t});
      }
      return seconds_since(begin);
    };
    run(1, unmeasured);
    const double exposed_before = meter->exposed_s();
    const double seconds = run(unmeasured + 1, unmeasured + steps);
    const double exposed = meter->exposed_s() - exposed_before;
    strategy->finish(weights.x);
    std::lock_guard lock(mutex);
    result.seconds += seconds / workers;
    result.exposed_s += exposed / workers;
  });
  return result;
}

// The link over which an all-reduce of so many fp32 numbers takes `transfer_s` among `workers`.
inline net::Link link_for(double transfer_s, int64_t numel, int workers, double latency_s) {
  const double bits = 2.0 * (workers - 1) / workers * static_cast<double>(numel) * 32;
  return {.rate = bits / (transfer_s - 2 * latency_s), .latency = latency_s};
}

}  // namespace thinwire::benchmarks
