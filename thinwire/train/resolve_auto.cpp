#include "thinwire/train/resolve_auto.h"

#include <ATen/ops/full.h>
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
#include "thinwire/pipeline/chart.h"
#include "thinwire/pipeline/partition.h"
#include "thinwire/pipeline/stage_channel.h"
#include "thinwire/train/mesh.h"
#include "thinwire/train/stages.h"

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

// Rank 0's numbers, on all ranks.
at::Tensor decided(at::Tensor numbers, const comm::World& world) {
  world.group->broadcast_(numbers, 0, comm::TrafficKind::control)->wait();
  return numbers;
}
int64_t decided(int64_t number, const comm::World& world) {
  return decided(at::full({1}, number, at::kLong), world).item<int64_t>();
}

// What a few steps of all ranks cost, which are thrown away; nothing if they were stopped from outside. Means over the
// ranks, the same on all.
struct ProbeCosts {
  double step_s;     // computing a step
  double exposed_s;  // waiting, in all of them
};
std::optional<ProbeCosts> probe(Recipe recipe, int64_t steps, const RunOptions& options, comm::World& world) {
  recipe.train.tokens = 0, recipe.train.seconds = 0;
  recipe.train.steps = kFirst + steps;
  recipe.train.eval_every = 0, recipe.train.eval_windows = 1;
  recipe.pipeline.sync_steps = {};  // what comes after them is to be measured
  Stopwatch watch;                  // told on rank 0 only
  if (!run_rank(recipe, {.dir = {}, .stop = options.stop}, watch, world).finished) return {};
  const at::Tensor numbers = at::zeros({2}, at::kDouble);
  numbers[0] = (watch.last.compute_s - watch.first.compute_s) / static_cast<double>(steps);
  numbers[1] = watch.last.exposed_s - watch.first.exposed_s;
  decided(numbers, world);
  return ProbeCosts{numbers[0].item<double>(), numbers[1].item<double>()};
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
std::optional<Figures> measure_slices(const Recipe& recipe, int64_t delay, const RunOptions& options,
                                      comm::World& world) {
  Recipe with = recipe;
  dp::SlicesOptions& slices = with.strategy.slices;
  slices.slices = slices.slices.least();
  slices.delay = delay;
  const int64_t launches = std::max(kLaunches, 2 * delay);
  const auto costs = probe(with, launches * slices.every, options, world);
  if (!costs) return {};
  return Figures{costs->step_s, costs->exposed_s / static_cast<double>(launches)};
}

void resolve_delay(Resolved& resolved, const RunOptions& options, comm::World& world) {
  dp::SlicesOptions& slices = resolved.recipe.strategy.slices;
  slices.delay = 1;
  if (resolved.recipe.workers.replicas == 1) return;
  const auto first = measure_slices(resolved.recipe, 0, options, world);
  if (!first) return;  // stopped meanwhile
  const auto wanted = static_cast<int64_t>(std::ceil(kMargin * first->waited_s / first->step_s));
  slices.delay = std::clamp<int64_t>(wanted, 1, longest(slices));
  resolved.notes.push_back(fmt::format("delay {}: a slice is under way for {:.0f} ms, a step computes for {:.0f} ms",
                                       slices.delay.steps, first->waited_s * 1e3, first->step_s * 1e3));
  if (slices.delay.steps == 1) return;  // what is under way for less than a step cannot queue up
  const auto then = measure_slices(resolved.recipe, slices.delay.steps, options, world);
  if (then && then->waited_s > kTolerated * then->step_s * static_cast<double>(slices.every))
    resolved.notes.push_back(
        fmt::format("the link cannot keep up even so ({:.0f} ms of waiting a slice): more slices, or "
                    "fewer bits, would help",
                    then->waited_s * 1e3));
}

// --- pipeline.cut

// Of one microbatch, with the threads and in the type that the recipe has, while all ranks do the same; means over the
// ranks.
std::vector<pipeline::UnitCost> measure_units(const Recipe& recipe, const comm::World& world) {
  const auto model = models::make_model(recipe.model, data::kVocabulary, recipe.train.seed);
  const optim::Flat weights(models::parameters_by_unit(*model), {}, compute_dtype(recipe.train));
  const auto units = static_cast<int64_t>(model->units.size());
  const at::Tensor seconds = at::zeros({units, 2}, at::kDouble);
  at::Tensor x = at::zeros({recipe.train.batch / schedule_of(recipe).microbatches, recipe.model.context}, at::kLong);
  for (int64_t unit = 0; unit < units; ++unit) {
    at::Tensor y;
    auto forward = [&] { y = model->units[unit]->forward(x); };
    const double forward_s = median_s(forward);
    const double both_s = median_s([&] { forward(), y.backward(at::ones_like(y)); });
    seconds[unit][0] = forward_s;
    seconds[unit][1] = std::max(both_s - forward_s, 0.0);
    x = y.detach().requires_grad_();
  }
  world.group->all_reduce_(seconds, comm::Reduce::mean, comm::TrafficKind::control)->wait();
  std::vector<pipeline::UnitCost> costs;
  for (int64_t unit = 0; unit < units; ++unit)
    costs.push_back({seconds[unit][0].item<double>(), seconds[unit][1].item<double>()});
  return costs;
}

void resolve_cut(Resolved& resolved, const comm::World& world) {
  Recipe& recipe = resolved.recipe;
  const auto costs = measure_units(recipe, world);
  const auto stages = static_cast<int>(recipe.workers.stages);
  const auto cut = pipeline::partition(costs, stages);  // the same on all ranks, since the costs are
  recipe.pipeline.cut = pipeline::to_text(cut);
  double least = INFINITY, most = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const auto [first, end] = units_of(cut, stage);
    const double cost = pipeline::stage_cost(std::span(costs).subspan(first, end - first), stage == stages - 1);
    least = std::min(least, cost), most = std::max(most, cost);
  }
  resolved.notes.push_back(fmt::format("cut {}: the fastest stage computes {:.1f} ms, the slowest {:.1f} ms",
                                       recipe.pipeline.cut, least * 1e3, most * 1e3));
}

// --- pipeline.hop

// How long what one stage hands to the next is under way, where nothing else is: between the first two stages of
// replica 0.
double measure_transfer(const Recipe& recipe, const comm::World& world) {
  const Mesh mesh = make_mesh(recipe, world, nullptr);
  const at::Tensor seconds = at::zeros({1}, at::kDouble);
  if (mesh.at.replica == 0 && mesh.at.stage < 2) {
    const pipeline::ActivationSpec activation = activation_spec_of(recipe);
    pipeline::StageChannel channel(mesh.pipeline_group, 1 - mesh.at.stage, activation);
    const at::Tensor x =
        at::linspace(-1, 1, c10::multiply_integers(activation.shape)).view(activation.shape).to(activation.dtype);
    const double round_trip = median_s([&] {
      if (mesh.at.stage == 0) channel.send(x);
      channel.recv();
      if (mesh.at.stage == 1) channel.send(x);
    });
    seconds.fill_(round_trip / 2);
  }
  return decided(seconds, world).item<double>();
}

void resolve_hop(Resolved& resolved, const RunOptions& options, comm::World& world) {
  pipeline::PipelineOptions& pipeline = resolved.recipe.pipeline;
  pipeline.hop = {.count = 1, .automatic = false};
  const auto costs = probe(resolved.recipe, kLaunches, options, world);
  if (!costs) return;  // stopped meanwhile
  const double transfer_s = measure_transfer(resolved.recipe, world);
  const auto reached = [&](int64_t hop, double transfer) {
    pipeline.hop.count = hop;
    return pipeline::steady_utilisation(schedule_of(resolved.recipe), costs->step_s, transfer);
  };
  const double by_one = reached(1, transfer_s);
  for (int64_t hop = 1; hop <= kMostHops && reached(hop, kMargin * transfer_s) < kEnough;) ++hop;
  pipeline.hop.count = decided(std::min(pipeline.hop.count, kMostHops), world);
  resolved.notes.push_back(fmt::format(
      "hop {}: what a stage hands on is under way for {:.1f} ms, a stage computes {:.1f} ms a minibatch; hop "
      "1 would reach {:.0f} % of utilisation",
      pipeline.hop.count, transfer_s * 1e3, costs->step_s * 1e3, 100 * by_one));
}

}  // namespace

Resolved resolve_auto(const Recipe& recipe, const RunOptions& options, comm::World& world) {
  Resolved resolved{recipe, {}};
  const bool staged = recipe.workers.stages > 1;
  const auto* slices = dp::slices_of(recipe.strategy);
  const bool delay = slices && slices->delay.automatic;
  const bool hop = staged && recipe.pipeline.asynchronous() && recipe.pipeline.hop.automatic;
  if (staged && recipe.pipeline.cut == "measured") resolve_cut(resolved, world);
  // The others are measured by runs of their own, which must find nothing to measure.
  if (hop) {
    const auto asked = resolved.recipe.strategy.slices.delay;
    if (delay) resolved.recipe.strategy.slices.delay = 1;
    resolve_hop(resolved, options, world);
    resolved.recipe.strategy.slices.delay = asked;
  }
  if (delay) resolve_delay(resolved, options, world);
  resolved.recipe.pipeline.sync_steps = {.count = sync_steps_of(recipe)};
  return resolved;
}

void keep_resolved(Recipe& recipe, const Recipe& before) {
  if (auto* slices = dp::slices_of(recipe.strategy); slices && slices->delay.automatic)
    slices->delay = before.strategy.slices.delay;
  if (recipe.pipeline.hop.automatic) recipe.pipeline.hop = before.pipeline.hop;
  if (recipe.pipeline.cut == "measured") recipe.pipeline.cut = before.pipeline.cut;
  recipe.pipeline.sync_steps = {.count = sync_steps_of(recipe)};
}

}  // namespace thinwire::train
