// What a pipeline must compute, computed without one: every replica is one thread that holds all stages, and minibatch
// b goes through a model whose stage j has the version of its weights that the schedule names.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include "thinwire/base/random.h"
#include "thinwire/comm/world.h"
#include "thinwire/dp/catalog.h"
#include "thinwire/net/emulated_transport.h"
#include "thinwire/pipeline/stage.h"
#include "thinwire/train/stage_module.h"

namespace thinwire::pipeline {

inline constexpr int64_t kVocabulary = 96, kRows = 4, kContext = 6, kWidth = 16;

struct Case {
  int stages = 2, replicas = 1;
  std::string schedule = "async_1f1b";
  int64_t hop = 1, microbatches = 1, steps = 12;
  bool stash = true, tied = false;
  double predict = 0, rate_power = 0;
  int64_t sync_steps = 0;  // of an asynchronous schedule, with `microbatches`
  std::string sync_schedule = "1f1b";
  dp::StrategyOptions strategy = {};
  optim::OptimOptions optim = {};
  at::ScalarType dtype = at::kFloat;
  std::string codec = "none";
  net::Link link = {};  // between stages, and between replicas
};

inline std::shared_ptr<models::Model> make_model(bool tied = false) {
  return models::make_model(
      {.name = "gpt", .layers = 3, .width = kWidth, .heads = 2, .context = kContext, .tied = tied}, kVocabulary, 7);
}

inline Batch batch_of(int64_t t, int replica) {
  const auto draw = [&](const char* what) {
    return at::randint(kVocabulary, {kRows, kContext}, generator(5, what, static_cast<uint64_t>(100 * t + replica)),
                       at::TensorOptions(at::kLong));
  };
  return {draw("tokens"), draw("targets")};
}

// The five units (embedding, three blocks, head), as evenly as they go.
inline train::Units units_of(int stage, int stages) {
  return {static_cast<size_t>(5 * stage / stages), static_cast<size_t>(5 * (stage + 1) / stages)};
}

inline Schedule schedule_of(const Case& c) {
  const int64_t microbatches = c.sync_steps > 0 ? 1 : c.microbatches;
  return starting_with(make_schedule(c.schedule, c.stages, microbatches, c.hop), c.sync_steps, c.sync_schedule,
                       c.microbatches);
}

inline optim::OptimOptions optim_of(const Case& c, int stage, bool has_matrices = false) {
  optim::OptimOptions optim = c.optim;
  if (!c.stash) optim.betas[0] = unstashed_beta1(stage, c.stages);
  if (optim.name == "muon" && !has_matrices) optim.name = optim.rest;
  return optim;
}

inline double rate_at(int64_t t) { return 1e-2 / (1 + 0.1 * static_cast<double>(t)); }

// The newest weights, by replica and stage, after all steps and before finish(), and each step's loss of replica 0.
struct Outcome {
  std::vector<std::vector<at::Tensor>> weights;
  std::vector<at::Tensor> tied;  // by replica: the matrix that both ends share in an asynchronous schedule
  std::vector<std::vector<at::Tensor>> finished_tied;  // by replica: of the first and of the last stage, after finish()
  std::vector<double> losses;
};

struct Mesh {
  int replica, stage;
  comm::GroupPtr pipeline_group, replica_group;
};
inline Mesh mesh_of(const std::shared_ptr<comm::TransportGroup>& world, const Case& c) {
  const int stage = world->rank() % c.stages, replica = world->rank() / c.stages;
  auto with_link = [&] {
    return world->with_transport(std::make_shared<net::EmulatedTransport>(world->transport(), c.link));
  };
  auto pipeline_group = with_link()->split(replica, stage);
  return {replica, stage, pipeline_group, with_link()->split(stage, replica)};
}

inline std::unique_ptr<Stage> make_stage(const Case& c, const Mesh& mesh) {
  const auto make_strategy = [&](int stage) {
    return [&, stage](const optim::Flat& weights) {
      const auto sync = mesh.replica_group->split(0, mesh.replica);
      return dp::make_strategy(c.strategy, weights, {.sync = sync},
                               optim_of(c, stage, !weights.layout().matrices.empty()), c.steps);
    };
  };
  return std::make_unique<Stage>(
      train::stage_module_of(make_model(c.tied), units_of(mesh.stage, c.stages), schedule_of(c).asynchronous()),
      StageOptions{.schedule = schedule_of(c),
                   .steps = c.steps,
                   .stash = c.stash,
                   .predict = c.predict,
                   .rate_power = c.rate_power,
                   .activation = {{kRows / schedule_of(c).microbatches, kContext, kWidth}, c.dtype, {c.codec}}},
      mesh.pipeline_group, [replica = mesh.replica](int64_t t) { return batch_of(t, replica); },
      make_strategy(mesh.stage), make_strategy(0));
}

inline Outcome pipeline(const Case& c) {
  Outcome out;
  out.weights.assign(c.replicas, std::vector<at::Tensor>(c.stages));
  out.tied.resize(c.replicas);
  out.finished_tied.assign(c.replicas, std::vector<at::Tensor>(2));
  comm::run_world(c.replicas * c.stages, [&](std::shared_ptr<comm::TransportGroup> world) {
    const Mesh mesh = mesh_of(world, c);
    auto stage = make_stage(c, mesh);
    for (int64_t t = 1; t <= c.steps; ++t) {
      const auto loss = stage->step(t, rate_at(t));
      if (loss && mesh.replica == 0) out.losses.push_back(*loss);
    }
    out.weights[mesh.replica][mesh.stage] = stage->newest().clone();
    if (!stage->tie()) return;
    if (stage->first()) out.tied[mesh.replica] = stage->tie()->newest().clone();
    stage->finish();
    out.finished_tied[mesh.replica][stage->first() ? 0 : 1] = stage->tie()->newest().clone();
  });
  return out;
}

inline Outcome oracle(const Case& c) {
  Outcome out;
  out.weights.assign(c.replicas, std::vector<at::Tensor>(c.stages));
  out.tied.resize(c.replicas);
  const Schedule schedule = schedule_of(c);
  comm::run_world(c.replicas, [&](std::shared_ptr<comm::TransportGroup> world) {
    const auto model = make_model(c.tied);
    struct Part {
      StageModule body;
      std::unique_ptr<optim::Flat> weights;
      dp::StrategyPtr strategy;
      std::vector<at::Tensor> versions, changes;  // D
    };
    auto part_of = [&](StageModule body, int stage) {
      Part part;
      part.body = std::move(body);
      part.weights = std::make_unique<optim::Flat>(part.body.parameters, part.body.labels, c.dtype);
      part.strategy = dp::make_strategy(c.strategy, *part.weights, {.sync = world->split(0, world->rank())},
                                        optim_of(c, stage, !part.weights->layout().matrices.empty()), c.steps);
      part.versions.push_back(part.weights->x.clone());
      part.changes.push_back(at::zeros_like(part.weights->x));
      return part;
    };
    std::vector<Part> parts;  // the stages, and after them a tied matrix
    for (int j = 0; j < c.stages; ++j)
      parts.push_back(part_of(train::stage_module_of(model, units_of(j, c.stages), true), j));
    const bool tied = parts[0].body.tied.defined();
    if (tied) parts.push_back(part_of({.parameters = {{model->tied}}, .forward = {}}, 0));
    // What minibatch b, which finds version v of a part, is computed with.
    auto weights_of = [&](const Part& part, int64_t b, int64_t v) {
      return c.predict > 0 ? at::add(part.versions[v], part.changes[v], c.predict * static_cast<double>(b - v))
                           : part.versions[v];
    };
    // Minibatch b finds the tied matrix as the first stage's weights are, at both ends.
    auto bind_tied = [&](int64_t b, int64_t version) {
      if (tied) parts.back().weights->bind(weights_of(parts.back(), b, version));
    };
    for (int64_t t = 1; t <= c.steps; ++t) {
      const Batch all = batch_of(t, world->rank());
      double step_loss = 0;
      for (auto& part : parts) part.weights->zero_grad();
      const int64_t microbatches = schedule.microbatches_of(t - 1);
      for (int64_t m = 0; m < microbatches; ++m) {
        const int64_t b = schedule.first_batch(t - 1) + m, n = kRows / microbatches;
        const at::Tensor tokens = all.tokens.narrow(0, m * n, n), targets = all.targets.narrow(0, m * n, n);
        at::Tensor x = tokens;
        std::vector<at::Tensor> inputs;
        if (!c.stash) {  // forwards on the old version, stage by stage; backwards on the newest
          at::NoGradGuard no_grad;
          bind_tied(t - 1, schedule.version(0, b));
          for (int j = 0; j < c.stages; ++j) {
            parts[j].weights->bind(parts[j].versions[schedule.version(j, b)]);
            inputs.push_back(x);
            x = parts[j].body.forward(x);
          }
          x = at::Tensor();
        }
        for (int j = 0; j < c.stages; ++j)
          parts[j].weights->bind(c.stash ? weights_of(parts[j], t - 1, schedule.version(j, b))
                                         : parts[j].versions.back());
        bind_tied(t - 1, schedule.version(0, b));
        const auto scaled = [&](const at::Tensor& logits) {
          const at::Tensor loss = models::cross_entropy(logits, targets);
          step_loss += loss.item<double>();
          return microbatches == 1 ? loss : loss.div(microbatches);
        };
        if (c.stash) {
          x = tokens;
          for (int j = 0; j < c.stages; ++j) x = parts[j].body.forward(x);
          scaled(x).backward();
          continue;
        }
        at::Tensor gradient;
        for (int j = c.stages - 1; j >= 0; --j) {
          if (j == 0 && c.stages > 1) bind_tied(t - 1, std::ssize(parts[0].versions) - 1);
          const at::Tensor input = inputs[j].detach().requires_grad_(j > 0);
          const at::Tensor output = parts[j].body.forward(input);
          if (j == c.stages - 1)
            scaled(output).backward();
          else
            output.backward(gradient);
          gradient = input.grad();
        }
      }
      for (int j = 0; j < std::ssize(parts); ++j) {
        auto& [body, weights, strategy, versions, changes] = parts[j];
        double lr = rate_at(t);
        lr /= std::pow(1 + static_cast<double>(schedule.warmup[j % c.stages]), c.rate_power);
        if (!c.stash)
          lr /= std::pow(std::max<double>(1, static_cast<double>(schedule.warmup[j % c.stages])),
                         1 - static_cast<double>(t) / 7000);
        const std::vector<double> rates = {lr, lr};
        for (size_t p = 0; p < weights->layout().pieces.size(); ++p) weights->grad_ready(static_cast<int>(p));
        const at::Tensor before = versions.back(), next = before.clone();
        at::Tensor change = at::zeros_like(next);
        strategy->step({.x = next, .next = next, .grad = weights->grad, .lr = rates, .t = t, .rule_wrote = [&] {
                          change = at::sub(next, before);
                        }});
        versions.push_back(next);
        changes.push_back(change);
      }
      if (world->rank() == 0) out.losses.push_back(step_loss / static_cast<double>(microbatches));
    }
    for (int j = 0; j < c.stages; ++j) out.weights[world->rank()][j] = parts[j].versions.back().clone();
    if (tied) out.tied[world->rank()] = parts.back().versions.back().clone();
  });
  return out;
}

}  // namespace thinwire::pipeline
