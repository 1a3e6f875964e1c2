// How much of the time do workers compute, when averaging takes r times as long as a round of steps?
// Arithmetic says 1 / (1 + r) for a strategy that waits, 1 / max(1, r) for one that goes on computing.
#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/played.h"
#include "thinwire/train/run.h"

using namespace thinwire;

namespace {

constexpr int kWorkers = 2;
constexpr int64_t kRounds = 60, kPeriod = 4;          // played compute
constexpr int64_t kRealRounds = 75, kRealPeriod = 8;  // real compute

dp::StrategyOptions named(const std::string& name, int64_t period) {
  auto options = dp::preset(name);
  options.periodic.period = period;
  return options;
}

void played_compute() {
  constexpr double step_s = 0.02;
  constexpr int64_t numel = 250'000;
  fmt::print("played compute: steps of 20 ms, period {}, {} rounds, {} workers, 2 ms latency\n", kPeriod, kRounds,
             kWorkers);
  fmt::print("{:>5}  {:>10}  {:>16}  {:>10}  {:>16}  {:>12}\n", "r", "co2", "(arithmetic)", "slowmo", "(arithmetic)",
             "co2 / slowmo");
  for (double r : {0.25, 0.5, 0.9, 1.0, 2.0}) {
    const auto link = benchmarks::link_for(r * kPeriod * step_s, numel, kWorkers, 0.002);
    const auto co2 = benchmarks::play(named("co2", kPeriod), kWorkers, kRounds * kPeriod, step_s, numel, link);
    const auto slowmo = benchmarks::play(named("slowmo", kPeriod), kWorkers, kRounds * kPeriod, step_s, numel, link);
    fmt::print("{:>5}  {:>10.3f}  {:>16.3f}  {:>10.3f}  {:>16.3f}  {:>11.2f}x\n", r, co2.utilisation(),
               1 / std::max(1.0, r), slowmo.utilisation(), 1 / (1 + r), slowmo.seconds / co2.seconds);
    std::fflush(stdout);
  }
}

train::Result real(const std::string& strategy, const net::Link& link) {
  train::Recipe recipe;
  recipe.model = {.size = "micro", .layers = 4, .width = 128, .heads = 4, .context = 64};
  data::resolve(recipe.data);
  recipe.strategy = named(strategy, kRealPeriod);
  recipe.workers.replicas = kWorkers;
  recipe.link.replicas = link;
  recipe.train.steps = kRealRounds * kRealPeriod;
  recipe.train.batch = 8;
  recipe.train.eval_every = 0;
  train::Observer silent;
  return train::run(recipe, {}, silent);
}

// The link is set from a run just before, but a step does not take the same time in every run: so the r that was
// obtained, with co2's own compute, is printed beside the one that was asked for.
void real_compute() {
  const int64_t numel = 861'312;
  fmt::print("\nreal compute: gpt micro (0.86M parameters), period {}, {} rounds\n", kRealPeriod, kRealRounds);
  fmt::print("{:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>12}\n", "r", "obtained", "step", "co2", "slowmo",
             "co2 / slowmo");
  auto step_s = [](const train::Result& r) { return r.compute_s / static_cast<double>(r.steps); };
  for (double r : {0.5, 0.9}) {
    const double transfer_s = r * kRealPeriod * step_s(real("co2", {}));
    const auto link = benchmarks::link_for(transfer_s, numel, kWorkers, 0.002);
    const auto co2 = real("co2", link), slowmo = real("slowmo", link);
    fmt::print("{:>5}  {:>10.2f}  {:>7.1f} ms  {:>10.3f}  {:>10.3f}  {:>11.2f}x\n", r,
               transfer_s / (kRealPeriod * step_s(co2)), 1e3 * step_s(co2), co2.utilisation, slowmo.utilisation,
               slowmo.seconds / co2.seconds);
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  played_compute();
  real_compute();
}
