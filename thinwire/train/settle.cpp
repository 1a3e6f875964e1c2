#include "thinwire/train/settle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace thinwire::train {
namespace {

constexpr int64_t kFirst = 4, kLaunches = 8;  // steps that get memory and threads going; launches that are measured
constexpr double kMargin = 1.25;
constexpr double kTolerated = 0.1;  // waiting, as a share of computing

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

struct Figures {
  double step_s, waited_s;  // computing a step; waiting for a slice
};

// A few steps over the recipe's link with its largest slices; nothing if they were stopped from outside.
std::optional<Figures> measure(const Recipe& recipe, int64_t delay, const RunOptions& options) {
  Recipe probe = recipe;
  dp::SlicesOptions& slices = probe.strategy.slices;
  slices.slices = slices.slices.least();
  slices.delay = delay;
  const int64_t launches = std::max(kLaunches, 2 * delay);
  probe.train.tokens = 0, probe.train.seconds = 0;
  probe.train.steps = kFirst + launches * slices.every;
  probe.train.eval_every = 0, probe.train.eval_windows = 1;
  Stopwatch watch;
  if (!run(probe, {.dir = {}, .stop = options.stop}, watch).finished) return {};
  return Figures{
      (watch.last.compute_s - watch.first.compute_s) / static_cast<double>(watch.last.step - watch.first.step),
      (watch.last.exposed_s - watch.first.exposed_s) / static_cast<double>(launches)};
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
  const auto first = measure(recipe, 0, options);
  if (!first) {  // stopped meanwhile
    slices.delay = 1;
    return settled;
  }
  const auto wanted = static_cast<int64_t>(std::ceil(kMargin * first->waited_s / first->step_s));
  slices.delay = std::clamp<int64_t>(wanted, 1, longest(slices));
  settled.notes.push_back(fmt::format("delay {}: a slice is under way for {:.0f} ms, a step computes for {:.0f} ms",
                                      slices.delay.steps, first->waited_s * 1e3, first->step_s * 1e3));
  if (slices.delay.steps == 1) return settled;  // what is under way for less than a step cannot queue up
  const auto then = measure(recipe, slices.delay.steps, options);
  if (then && then->waited_s > kTolerated * then->step_s * static_cast<double>(slices.every))
    settled.notes.push_back(
        fmt::format("the link cannot keep up even so ({:.0f} ms of waiting a slice): more slices, or "
                    "fewer bits, would help",
                    then->waited_s * 1e3));
  return settled;
}

}  // namespace thinwire::train
