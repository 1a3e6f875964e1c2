#include "thinwire/train/settle.h"

#include <ATen/ops/linspace.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "thinwire/base/clock.h"
#include "thinwire/comm/world.h"
#include "thinwire/compress/codec.h"
#include "thinwire/pipeline/border.h"
#include "thinwire/pipeline/chart.h"
#include "thinwire/pipeline/cut.h"
#include "thinwire/train/cutting.h"
#include "thinwire/train/mesh.h"

namespace thinwire::train {
namespace {

constexpr int64_t kFirst = 4, kLaunches = 8;  // steps that get memory and threads going; launches that are measured
constexpr double kMargin = 1.25;
constexpr double kTolerated = 0.1;  // waiting, as a share of computing
constexpr double kEnough = 0.98;    // utilisation that another hop need not better
constexpr int64_t kMostHops = 16;   // an update that is so many minibatches late teaches nothing
constexpr int kTimes = 5;           // that something short is measured

// What the steps after kFirst cost.
struct Stopwatch final : Observer {
  void progressed(const Progress& p) override {
    if (p.step == kFirst) first = p;
    last = p;
  }
  Progress first, last;
};

// A few steps that are thrown away; nothing if they were stopped from outside.
std::optional<Stopwatch> probe(Recipe recipe, int64_t steps, const RunOptions& options) {
  recipe.train.tokens = 0, recipe.train.seconds = 0;
  recipe.train.steps = kFirst + steps;
  recipe.train.eval_every = 0, recipe.train.eval_windows = 1;
  Stopwatch watch;
  if (!run(recipe, {.dir = {}, .stop = options.stop}, watch).finished) return {};
  return watch;
}

double compute_s(const Stopwatch& watch) {
  return (watch.last.compute_s - watch.first.compute_s) / static_cast<double>(watch.last.step - watch.first.step);
}

template <class F>
double median_s(F&& f) {
  std::vector<double> times;
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = Clock::now();
    f();
    times.push_back(seconds_since(begin));
  }
  std::ranges::nth_element(times, times.begin() + kTimes / 2);
  return times[kTimes / 2];
}

// --- strategy.delay

int64_t longest(const dp::SlicesOptions& o) {
  return o.redraw ? std::numeric_limits<int64_t>::max() : o.every * o.slices.least();
}

struct Figures {
  double step_s, waited_s;  // computing a step; waiting for a slice
};

// A few steps over the recipe's link with its largest slices.
std::optional<Figures> measure_slices(const Recipe& recipe, int64_t delay, const RunOptions& options) {
  Recipe with = recipe;
  dp::SlicesOptions& slices = with.strategy.slices;
  slices.slices = slices.slices.least();
  slices.delay = delay;
  const int64_t launches = std::max(kLaunches, 2 * delay);
  const auto watch = probe(with, launches * slices.every, options);
  if (!watch) return {};
  return Figures{compute_s(*watch), (watch->last.exposed_s - watch->first.exposed_s) / static_cast<double>(launches)};
}

void settle_delay(Settled& settled, const RunOptions& options) {
  dp::SlicesOptions& slices = settled.recipe.strategy.slices;
  slices.delay.automatic = false, slices.delay.steps = 1;
  if (settled.recipe.workers.replicas == 1) return;
  const auto first = measure_slices(settled.recipe, 0, options);
  if (!first) return;  // stopped meanwhile
  const auto wanted = static_cast<int64_t>(std::ceil(kMargin * first->waited_s / first->step_s));
  slices.delay = std::clamp<int64_t>(wanted, 1, longest(slices));
  settled.notes.push_back(fmt::format("delay {}: a slice is under way for {:.0f} ms, a step computes for {:.0f} ms",
                                      slices.delay.steps, first->waited_s * 1e3, first->step_s * 1e3));
  if (slices.delay.steps == 1) return;  // what is under way for less than a step cannot queue up
  const auto then = measure_slices(settled.recipe, slices.delay.steps, options);
  if (then && then->waited_s > kTolerated * then->step_s * static_cast<double>(slices.every))
    settled.notes.push_back(
        fmt::format("the link cannot keep up even so ({:.0f} ms of waiting a slice): more slices, or "
                    "fewer bits, would help",
                    then->waited_s * 1e3));
}

// --- pipeline.cut

// Of one microbatch, on this machine as it is now.
std::vector<pipeline::UnitCost> measure_units(const Recipe& recipe) {
  const auto model = models::make_model(recipe.model, data::kVocabulary, recipe.train.seed);
  std::vector<pipeline::UnitCost> costs;
  at::Tensor x = at::zeros({recipe.train.batch / schedule_of(recipe).microbatches, recipe.model.context}, at::kLong);
  for (auto& unit : model->units) {
    at::Tensor y;
    pipeline::UnitCost cost;
    cost.forward = median_s([&] { y = unit->forward(x); });
    cost.backward = median_s([&] { unit->forward(x).backward(at::ones_like(y)); }) - cost.forward;
    costs.push_back({cost.forward, std::max(cost.backward, 0.0)});
    x = y.detach().requires_grad_();
  }
  return costs;
}

void settle_cut(Settled& settled) {
  Recipe& recipe = settled.recipe;
  const auto costs = measure_units(recipe);
  const auto stages = static_cast<int>(recipe.workers.stages);
  const auto cut = pipeline::cut(costs, stages);
  recipe.pipeline.cut = pipeline::to_text(cut);
  double least = INFINITY, most = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const auto [first, end] = units_of(cut, stage);
    const double cost = pipeline::stage_cost(std::span(costs).subspan(first, end - first), stage == stages - 1);
    least = std::min(least, cost), most = std::max(most, cost);
  }
  settled.notes.push_back(fmt::format("cut {}: the fastest stage computes {:.1f} ms, the slowest {:.1f} ms",
                                      recipe.pipeline.cut, least * 1e3, most * 1e3));
}

// --- pipeline.hop

// How long what one stage hands to the next is under way, where nothing else is.
double measure_transfer(const Recipe& recipe) {
  Recipe two = recipe;
  two.workers.stages = 2, two.workers.replicas = 1;
  double seconds = 0;
  comm::run_world(2, [&](const std::shared_ptr<comm::MailGroup>& bare) {
    const Mesh mesh = make_mesh(two, bare, nullptr);
    const pipeline::Parcel parcel = parcel_of(recipe);
    pipeline::Border border(mesh.along, 1 - mesh.stage, parcel);
    const at::Tensor x = at::linspace(-1, 1, c10::multiply_integers(parcel.shape)).view(parcel.shape).to(parcel.dtype);
    const double round_trip = median_s([&] {
      if (mesh.stage == 0) border.send(x);
      border.receive();
      if (mesh.stage == 1) border.send(x);
    });
    if (mesh.stage == 0) seconds = round_trip / 2;
  });
  return seconds;
}

void settle_hop(Settled& settled, const RunOptions& options) {
  pipeline::PipelineOptions& pipeline = settled.recipe.pipeline;
  pipeline.hop = {.count = 1, .automatic = false};
  const auto watch = probe(settled.recipe, kLaunches, options);
  if (!watch) return;  // stopped meanwhile
  const double stage_s = compute_s(*watch), transfer_s = measure_transfer(settled.recipe);
  const auto reached = [&](int64_t hop, double transfer) {
    pipeline.hop.count = hop;
    return pipeline::steady_utilisation(schedule_of(settled.recipe), stage_s, transfer);
  };
  const double by_one = reached(1, transfer_s);
  for (int64_t hop = 1; hop <= kMostHops && reached(hop, kMargin * transfer_s) < kEnough;) ++hop;
  pipeline.hop.count = std::min(pipeline.hop.count, kMostHops);
  settled.notes.push_back(fmt::format(
      "hop {}: what a stage hands on is under way for {:.1f} ms, a stage computes {:.1f} ms a minibatch; hop "
      "1 would reach {:.0f} % of utilisation",
      pipeline.hop.count, transfer_s * 1e3, stage_s * 1e3, 100 * by_one));
}

}  // namespace

Settled settle(const Recipe& recipe, const RunOptions& options) {
  Settled settled{recipe, {}};
  const bool staged = recipe.workers.stages > 1;
  const bool delay =
      dp::family_of(recipe.strategy.name) == dp::Family::slices && recipe.strategy.slices.delay.automatic;
  const bool hop = staged && recipe.pipeline.asynchronous() && recipe.pipeline.hop.automatic;
  const bool cut = staged && recipe.pipeline.cut == "measured";
  if (!delay && !hop && !cut) return settled;
  const auto stored = options.dir / "recipe.toml";
  if (options.resume && std::filesystem::exists(stored)) {
    const Recipe before = make_recipe(read_recipe(stored));
    if (delay) settled.recipe.strategy.slices.delay = before.strategy.slices.delay;
    if (hop) settled.recipe.pipeline.hop = before.pipeline.hop;
    if (cut) settled.recipe.pipeline.cut = before.pipeline.cut;
    return settled;
  }
  if (cut) settle_cut(settled);
  // The others are measured by runs of their own, which must find nothing to measure.
  if (hop) {
    const auto asked = settled.recipe.strategy.slices.delay;
    if (delay) settled.recipe.strategy.slices.delay = 1;
    settle_hop(settled, options);
    settled.recipe.strategy.slices.delay = asked;
  }
  if (delay) settle_delay(settled, options);
  return settled;
}

}  // namespace thinwire::train
