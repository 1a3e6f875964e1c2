// How much of the time do the stages of a pipeline compute over a slow link, how many batches a second go through it,
// and what does a stage keep?
//
// Compute is played: T a batch on every stage, in three equal parts: forward; the input's gradient, recompute included;
// the weights' gradient. The last stage does its forward inside B. Everything else is real.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>

#include "benchmarks/played.h"
#include "thinwire/base/deferred_work.h"
#include "thinwire/models/linear.h"
#include "thinwire/pipeline/chart.h"
#include "thinwire/pipeline/stage.h"

using namespace thinwire;

namespace {

constexpr int kStages = 4;
constexpr int64_t kMicrobatches = 4, kRows = 4, kContext = 64, kWidth = 64;
constexpr double kStage_s = 0.12, kTransfer_s = kStage_s / 2;  // of a batch
constexpr int64_t kMeasured = 84;  // steps; whole loops of hop 1 and of hop 2, which are 4 and 7

struct Run {
  std::string label, schedule;
  int64_t hop = 1;
  double bits = 0.5;  // share of a transfer's time that is bits at the link's rate; the rest is latency
};

pipeline::Schedule schedule_of(const Run& run) {
  return pipeline::make_schedule(run.schedule, kStages, run.schedule == "async_1f1b" ? 1 : kMicrobatches, run.hop);
}

// A batch takes kTransfer_s from stage to stage, and a microbatch its share of it: of the latency too.
net::Link link_of(const Run& run, const pipeline::Schedule& schedule) {
  return {.rate = 32.0 * kRows * kContext * kWidth / (run.bits * kTransfer_s),
          .latency = (1 - run.bits) * kTransfer_s / static_cast<double>(schedule.microbatches)};
}

// Which steps count: after two loops of the longest dependency (F down all stages and B up again), before the drain.
struct Window {
  explicit Window(const pipeline::Schedule& s) : loop(s.warmup[0] + 1), from(2 * loop), to(from + kMeasured) {}
  int64_t loop, from, to;
  int64_t steps() const { return to + loop; }
};

void play(double seconds) { std::this_thread::sleep_until(Clock::now() + to_duration(seconds)); }

// The identity, whose backward takes as long as that of a stage.
struct PlayedBackward : torch::autograd::Function<PlayedBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double part_s) {
    context->saved_data["part_s"] = part_s;
    return x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const double part_s = context->saved_data["part_s"].toDouble();
    play(part_s);
    defer([part_s] { play(part_s); });
    return {grads[0], at::Tensor()};
  }
};

pipeline::StageModule played_body(bool last, double part_s) {
  const at::Tensor weight = at::eye(kWidth).requires_grad_();
  pipeline::StageModule body;
  body.parameters = {{weight}};
  body.forward = [=](const at::Tensor& input) {
    if (last || !at::GradMode::is_enabled()) play(part_s);  // elsewhere B's recompute is counted in its backward
    return PlayedBackward::apply(models::linear(input, weight), part_s);
  };
  if (last)
    body.loss = [](const at::Tensor& output, const at::Tensor& targets) { return at::mse_loss(output, targets); };
  return body;
}

struct Measured {
  std::vector<double> utilisation = std::vector<double>(kStages);  // by stage, after the fill
  std::vector<pipeline::PeakStash> peak_stash = std::vector<pipeline::PeakStash>(kStages);

  double mean() const { return std::accumulate(utilisation.begin(), utilisation.end(), 0.0) / kStages; }
  double batches_per_s() const { return mean() / kStage_s; }
};

Measured measure(const Run& run) {
  const auto schedule = schedule_of(run);
  const Window window(schedule);
  const auto M = schedule.microbatches;
  Measured result;
  comm::run_world(kStages, [&](std::shared_ptr<comm::TransportGroup> world) {
    const int j = world->rank();
    auto wire =
        world->with_transport(std::make_shared<net::EmulatedTransport>(world->transport(), link_of(run, schedule)));
    pipeline::Stage stage(
        played_body(j == kStages - 1, kStage_s / 3 / static_cast<double>(M)),
        {.schedule = schedule, .steps = window.steps(), .activation = {.shape = {kRows / M, kContext, kWidth}}}, wire,
        [rows = at::ones({kRows, kContext, kWidth})](int64_t) {
          return pipeline::Batch{.tokens = rows, .targets = rows};
        },
        [alone = world->split(j, 0)](const optim::Flat& weights) {
          return dp::make_strategy({}, weights, {.sync = alone}, benchmarks::kPlainSgd);
        });
    world->barrier();
    Clock::time_point begin, end;
    for (int64_t t = 1; t <= window.steps(); ++t) {
      stage.step(t, 1e-3);
      if (t == window.from) begin = Clock::now();
      if (t == window.to) end = Clock::now();
    }
    result.utilisation[j] = static_cast<double>(kMeasured) * kStage_s / seconds_between(begin, end);
    result.peak_stash[j] = stage.peak_stash();
  });
  return result;
}

// The same window in a simulation of what is played; no two messages share a link there.
double planned(const Run& run) {
  const auto schedule = schedule_of(run);
  const Window window(schedule);
  const bool split = schedule.name == "zero_bubble_h1";
  const auto M = static_cast<double>(schedule.microbatches);
  const auto cost = [&](int stage, const pipeline::Op& op) {
    const bool last = stage == kStages - 1;
    const double part_s = kStage_s / 3 / M;
    switch (op.kind) {
      case pipeline::OpKind::forward:
        return last ? 0 : part_s;
      case pipeline::OpKind::backward:
        return (1 + (last ? 1 : 0) + (split ? 0 : 1)) * part_s;
      case pipeline::OpKind::weights:
        return part_s;
      case pipeline::OpKind::update:
        return 0.0;
    }
    return 0.0;
  };
  const auto chart = pipeline::simulate(schedule, window.steps(), cost, kTransfer_s / M);
  std::vector<double> updated;
  for (const auto& block : chart.stages[0])
    if (block.kind == pipeline::OpKind::update) updated.push_back(block.end);
  return static_cast<double>(kMeasured) * kStage_s / (updated[window.to - 1] - updated[window.from - 1]);
}

// False if a stage kept something else than the schedule says.
bool memory_table(const std::vector<Run>& runs, const std::vector<Measured>& measured) {
  bool equal = true;
  fmt::print(
      "\nwhat a stage keeps at most, versions of its weights + inputs: counted in the runs above (by the schedule)\n");
  fmt::print("{:<26}", "");
  for (int j = 0; j < kStages; ++j) fmt::print("  {:>17}", fmt::format("stage {}", j));
  fmt::print("\n");
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto schedule = schedule_of(runs[i]);
    fmt::print("{:<26}", runs[i].label);
    for (int j = 0; j < kStages; ++j) {
      const auto kept = measured[i].peak_stash[j],
                 formula = pipeline::peak_stash(schedule, j, Window(schedule).steps());
      equal = equal && kept.versions == formula.versions && kept.inputs == formula.inputs;
      fmt::print("  {:>17}",
                 fmt::format("{} + {} ({} + {})", kept.versions, kept.inputs, formula.versions, formula.inputs));
    }
    fmt::print("\n");
  }
  fmt::print("{}\n", equal ? "all equal" : "NOT EQUAL");
  return equal;
}

}  // namespace

int main() {
  const std::vector<Run> runs = {{"async_1f1b, hop 2", "async_1f1b", 2},
                                 {"async_1f1b, hop 1", "async_1f1b", 1},
                                 {"gpipe", "gpipe"},
                                 {"1f1b", "1f1b"},
                                 {"zero_bubble_h1", "zero_bubble_h1"},
                                 {"async_1f1b, hop 2, bits", "async_1f1b", 2, 1.0},
                                 {"async_1f1b, hop 3, bits", "async_1f1b", 3, 1.0}};
  fmt::print("compute is played by waits: {} stages, T = {:.0f} ms a batch on each; {} microbatches (async_1f1b: 1)\n",
             kStages, 1e3 * kStage_s, kMicrobatches);
  fmt::print(
      "a batch takes T/2 from stage to stage, half of it latency (\"bits\": none of it), a microbatch a quarter\n");
  fmt::print("{} steps after the fill; batches and ratios are of whole batches\n\n", kMeasured);
  fmt::print("{:<26}  {:>9}  {:>7}  {:>9}  {:>9}  {:>10}  {:>16}\n", "", "computing", "(worst)", "(planned)",
             "(ceiling)", "batches/s", "hop 2 / this one");
  std::vector<Measured> measured;
  for (const Run& run : runs) {
    measured.push_back(measure(run));
    const auto schedule = schedule_of(run);
    const auto M = static_cast<double>(schedule.microbatches);
    const Measured& m = measured.back();
    fmt::print("{:<26}  {:>9.3f}  {:>7.3f}  {:>9.3f}  {:>9.3f}  {:>10.2f}  {:>15.2f}x\n", run.label, m.mean(),
               std::ranges::min(m.utilisation), planned(run),
               pipeline::steady_utilisation(schedule, kStage_s / M, kTransfer_s / M), m.batches_per_s(),
               measured[0].batches_per_s() / m.batches_per_s());
    std::fflush(stdout);
  }
  return memory_table(runs, measured) ? 0 : 1;
}
