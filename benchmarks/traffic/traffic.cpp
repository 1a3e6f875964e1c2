// How much faster is a run that averages weights every 48 steps, one round late, than one that averages gradients every
// step, where one exchange takes 12 steps or more?
#include <fmt/format.h>

#include "benchmarks/played.h"

using namespace thinwire;

int main() {
  constexpr int workers = 2;
  constexpr double step_s = 0.02;
  constexpr int64_t numel = 250'000, period = 48, rounds = 50;
  fmt::print("played compute: steps of 20 ms, {} workers, co2 with period {}, {} rounds; all_reduce {} steps\n",
             workers, period, rounds, rounds);
  fmt::print("{:>9}  {:>14}  {:>14}  {:>8}  {:>14}\n", "T_c / T_s", "all_reduce /s", "co2 steps/s", "ratio",
             "by arithmetic");
  for (double ratio : {12.0, 16.0}) {
    const auto link = benchmarks::link_for(ratio * step_s, numel, workers, 0.002);
    auto co2 = dp::preset("co2");
    co2.periodic.period = period;
    const auto slow = benchmarks::play(dp::preset("all_reduce"), workers, rounds, step_s, numel, link);
    const auto fast = benchmarks::play(co2, workers, rounds * period, step_s, numel, link);
    const double slow_rate = rounds / slow.seconds, fast_rate = static_cast<double>(rounds * period) / fast.seconds;
    fmt::print("{:>9}  {:>14.2f}  {:>14.2f}  {:>7.1f}x  {:>13.1f}x\n", ratio, slow_rate, fast_rate,
               fast_rate / slow_rate, 1 + ratio);
    std::fflush(stdout);
  }
}
