#include "thinwire/train/settle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace thinwire::train {
namespace {

constexpr int64_t kFirst = 4, kLaunches = 8;  // steps that get memory and threads going; launches that are measured
constexpr double kMargin = 1.25;

// What the steps after kFirst cost.
struct Stopwatch final : Observer {
  void progressed(const Progress& p) override {
    if (p.step == kFirst) first = p;
    last = p;
  }
  Progress first, last;
};

int64_t longest(const dp::SlicesOptions& o) {
  return o.redraw ? std::numeric_limits<int64_t>::max() : o.every * o.slices.least();
}

}  // namespace

Settled settle(const Recipe& recipe, const RunOptions& options) {
  Settled settled{recipe, {}};
  if (dp::family_of(recipe.strategy.name) != dp::Family::slices || !recipe.strategy.slices.delay.automatic)
    return settled;
  dp::SlicesOptions& slices = settled.recipe.strategy.slices;
  const auto stored = options.dir / "recipe.toml";
  if (options.resume && std::filesystem::exists(stored)) {
    slices.delay = make_recipe(read_recipe(stored)).strategy.slices.delay;
    return settled;
  }
  if (recipe.workers.replicas == 1) {
    slices.delay = 1;
    return settled;
  }
  Recipe probe = recipe;
  probe.strategy.slices.slices = slices.slices.changes.front().count;
  probe.strategy.slices.delay = 0;
  probe.train.tokens = 0, probe.train.seconds = 0;
  probe.train.steps = kFirst + kLaunches * slices.every;
  probe.train.eval_every = 0, probe.train.eval_windows = 1;
  Stopwatch watch;
  run(probe, {}, watch);
  const double step_s =
      (watch.last.compute_s - watch.first.compute_s) / static_cast<double>(watch.last.step - watch.first.step);
  const double journey_s = (watch.last.exposed_s - watch.first.exposed_s) / kLaunches;
  const auto wanted = static_cast<int64_t>(std::ceil(kMargin * journey_s / step_s));
  slices.delay = std::clamp<int64_t>(wanted, 1, longest(slices));
  settled.notes.push_back(fmt::format("delay {}: a slice is under way for {:.0f} ms, a step computes for {:.0f} ms",
                                      slices.delay.steps, journey_s * 1e3, step_s * 1e3));
  if (wanted > slices.delay.steps)
    settled.notes.push_back(
        fmt::format("{} steps would be needed, but a slice leaves again after {}: more slices would help", wanted,
                    slices.delay.steps));
  return settled;
}

}  // namespace thinwire::train
