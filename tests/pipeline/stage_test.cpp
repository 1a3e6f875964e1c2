#include "thinwire/pipeline/stage.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include <array>

#include "tests/pipeline/oracle.h"
#include "thinwire/comm/errors.h"

namespace thinwire::pipeline {
namespace {

void expect_same(const Outcome& a, const Outcome& b, const std::string& where = "") {
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (size_t i = 0; i < a.weights.size(); ++i)
    for (size_t j = 0; j < a.weights[i].size(); ++j)
      EXPECT_TRUE(a.weights[i][j].equal(b.weights[i][j])) << where << ": replica " << i << ", stage " << j;
  for (size_t i = 0; i < a.tied.size(); ++i) {
    if (!a.tied[i].defined()) continue;
    EXPECT_TRUE(a.tied[i].equal(b.tied[i])) << where << ": the tied matrix of replica " << i;
  }
  EXPECT_EQ(a.losses, b.losses) << where;
}

std::string name_of(const Case& c) {
  return fmt::format("P = {}, hop {}, {}, {}, {} steps, {} replicas", c.stages, c.hop, c.stash ? "stash" : "no stash",
                     c.tied ? "tied" : "not tied", c.steps, c.replicas);
}

TEST(Stage, IsTheOracleBitForBit) {
  for (int stages : {1, 2, 3, 4})
    for (int64_t hop : {1, 2})
      for (bool stash : {true, false})
        for (bool tied : {true, false}) {
          const Case c{.stages = stages, .hop = hop, .steps = 50, .stash = stash, .tied = tied};
          expect_same(pipeline(c), oracle(c), name_of(c));
        }
}

TEST(Stage, IsTheOracleWhereARunIsShorterThanThePipeline) {
  for (int64_t steps : {1, 2, 3}) {
    const Case c{.stages = 4, .hop = 2, .steps = steps};
    expect_same(pipeline(c), oracle(c), name_of(c));
  }
}

TEST(Stage, OfAMeshIsTheOracleWithATiedMatrixToo) {
  Case c{.stages = 3, .replicas = 2, .hop = 2, .steps = 20, .tied = true, .strategy = dp::preset("drip")};
  c.strategy.slices.slices = 1;
  const auto got = pipeline(c);
  expect_same(got, oracle(c), name_of(c));
  for (const auto& ends : got.finished_tied) EXPECT_TRUE(ends[0].equal(ends[1])) << "the ends have parted";
}

TEST(Stage, EndsWithEqualCopiesOfATiedMatrix) {
  for (int stages : {2, 4})
    for (int64_t steps : {1, 3, 20}) {
      const auto got = pipeline({.stages = stages, .hop = 2, .steps = steps, .tied = true});
      EXPECT_TRUE(got.finished_tied[0][0].equal(got.finished_tied[0][1])) << stages << ", " << steps;
    }
}

TEST(Stage, OfASynchronousScheduleAddsUpTheGradientsOfATiedMatrix) {
  Case c{.stages = 1, .schedule = "gpipe", .microbatches = 1, .tied = true, .optim = {.clip = INFINITY}};
  const auto alone = oracle(c);
  for (int stages : {2, 3}) {
    c.stages = stages;
    const auto got = pipeline(c);
    EXPECT_EQ(got.losses, alone.losses) << stages;
  }
}

TEST(Stage, ReallyUsesOldWeights) {  // or the tests above would compare one thing with itself
  Case c{.stages = 3, .steps = 6};
  const auto fresh = pipeline({.stages = 3, .schedule = "gpipe", .steps = 6});
  EXPECT_FALSE(pipeline(c).weights[0][0].equal(fresh.weights[0][0]));
  EXPECT_EQ(pipeline(c).losses[0], fresh.losses[0]);
  EXPECT_NE(pipeline(c).losses[2], fresh.losses[2]);
}

TEST(Stage, OfAMeshIsTheOracleUnderEveryFamilyOfStrategies) {
  for (const char* name :
       {"all_reduce", "local_sgd", "co2", "asyncmesh", "drip", "one_bit_adam", "one_bit_lamb", "zero_one_adam"}) {
    Case c{.stages = 3, .replicas = 2, .steps = 14, .strategy = dp::preset(name)};
    c.strategy.periodic.period = 3;
    if (c.strategy.name == "asyncmesh") c.strategy.slices.slices = 2, c.strategy.slices.delay = 2;
    if (c.strategy.name == "drip") c.strategy.slices.slices = 2;
    c.strategy.one_bit.freeze = {.automatic = false, .step = 5};
    expect_same(pipeline(c), oracle(c), fmt::format("{}, {}", name, name_of(c)));
  }
}

// Of all units in a row, padding left out: what is the same however the model is cut.
at::Tensor whole(const Outcome& outcome, int stages) {
  const auto model = make_model();
  std::vector<at::Tensor> parts;
  for (int j = 0; j < stages; ++j) {
    const auto layout = optim::make_layout(train::stage_module_of(model, units_of(j, stages)).parameters);
    for (const auto& piece : layout.pieces) parts.push_back(outcome.weights[0][j].narrow(0, piece.at, piece.numel));
  }
  return at::cat(parts);
}

TEST(Stage, OfASynchronousScheduleIsNoPipelineAtAll) {
  for (int64_t microbatches : {1, 2, 4}) {
    // clipped stage by stage it would be something else
    Case c{.stages = 1, .schedule = "gpipe", .microbatches = microbatches, .optim = {.clip = INFINITY}};
    const auto alone = oracle(c);
    for (const char* schedule : {"gpipe", "1f1b", "zero_bubble_h1"})
      for (int stages : {1, 2, 3, 4}) {
        c.schedule = schedule, c.stages = stages;
        const auto got = pipeline(c);
        EXPECT_TRUE(whole(got, stages).equal(whole(alone, 1))) << schedule << ", P = " << stages;
        EXPECT_EQ(got.losses, alone.losses) << schedule << ", P = " << stages;
      }
  }
}

TEST(Stage, OverMicrobatchesIsTheUnsplitBatchToRounding) {
  Case c{.stages = 3, .schedule = "1f1b", .microbatches = 4, .optim = {.name = "sgd", .momentum = 0, .clip = INFINITY}};
  const auto split = pipeline(c);
  c.microbatches = 1;
  EXPECT_LT((whole(split, 3) - whole(pipeline(c), 3)).abs().max().item<double>(), 1e-6);
}

TEST(Stage, InBfloat16IsTheOracleToo) {
  const Case c{.stages = 3, .hop = 2, .steps = 20, .dtype = at::kBFloat16};
  expect_same(pipeline(c), oracle(c), "bf16");
}

// Muon inside, all of preset = "steady".
Case steady(Case c) {
  c.predict = 1, c.rate_power = 0.5;
  c.optim.name = "muon", c.optim.rest = "nadamw", c.optim.betas = {0.99, 0.999};
  return c;
}

TEST(Stage, ThatPredictsIsTheOracleBitForBit) {
  for (int stages : {1, 2, 3, 4})
    for (int64_t hop : {1, 2})
      for (bool tied : {true, false})
        for (const Case& c : {Case{.stages = stages, .hop = hop, .steps = 24, .tied = tied, .predict = 1},
                              Case{.stages = stages, .hop = hop, .steps = 24, .tied = tied, .rate_power = 0.5},
                              steady({.stages = stages, .hop = hop, .steps = 24, .tied = tied, .sync_steps = 5})})
          expect_same(pipeline(c), oracle(c), name_of(c) + fmt::format(", predict {}, S {}", c.predict, c.sync_steps));
}

TEST(Stage, WithASynchronousBeginningIsTheOracleByEverySchedule) {
  for (const char* name : {"gpipe", "1f1b", "zero_bubble_h1"})
    for (int64_t microbatches : {1, 2, 4})
      for (int64_t sync_steps : {1, 6, 11, 12, 20}) {
        const Case c = steady(
            {.stages = 4, .hop = 2, .microbatches = microbatches, .sync_steps = sync_steps, .sync_schedule = name});
        expect_same(pipeline(c), oracle(c), fmt::format("{}, {} microbatches, S {}", name, microbatches, sync_steps));
      }
}

TEST(Stage, WithASynchronousBeginningThatNeverEndsIsThatSchedule) {
  for (const char* name : {"gpipe", "1f1b", "zero_bubble_h1"}) {
    Case c{.stages = 3, .schedule = name, .microbatches = 2, .optim = {.clip = INFINITY}};
    const auto wanted = pipeline(c);
    c.schedule = "async_1f1b", c.sync_schedule = name, c.sync_steps = 12;
    for (const double predict : {0.0, 1.0}) {
      c.predict = predict;
      expect_same(pipeline(c), wanted, fmt::format("{}, predict {}", name, predict));
    }
  }
}

TEST(Stage, ThatPredictsNothingIsThePlainOne) {
  const Case plain{.stages = 3, .hop = 2, .steps = 20};
  Case c = plain;
  c.rate_power = 0, c.predict = 0;
  expect_same(pipeline(c), pipeline(plain), "all of it off");
  c.predict = 1;
  EXPECT_FALSE(pipeline(c).weights[0][0].equal(pipeline(plain).weights[0][0])) << "it does something";
  c.stages = 1;
  expect_same(pipeline(c), pipeline({.stages = 1, .steps = 20}), "nothing is late in one stage");
}

TEST(Stage, OfASteadyMeshIsTheOracleUnderEveryStrategyThatTakesARule) {
  for (const auto& name : dp::strategy_names()) {
    Case c = steady({.stages = 3, .replicas = 2, .microbatches = 2, .steps = 14, .sync_steps = 4});
    c.strategy = dp::preset(name);
    if (dp::traits_of(c.strategy).owns_rule) continue;
    c.strategy.periodic.period = 3;
    if (dp::slices_of(c.strategy)) c.strategy.slices.slices = 2, c.strategy.slices.delay = name == "sparta" ? 0 : 2;
    expect_same(pipeline(c), oracle(c), name);
  }
}

TEST(Stage, OfASteadyMeshWithATiedMatrixIsTheOracleToo) {
  Case c = steady({.stages = 3, .replicas = 2, .hop = 2, .steps = 20, .tied = true, .sync_steps = 4});
  c.strategy = dp::preset("drip");
  c.strategy.slices.slices = 1;
  const auto got = pipeline(c);
  expect_same(got, oracle(c), name_of(c));
  for (const auto& ends : got.finished_tied) EXPECT_TRUE(ends[0].equal(ends[1])) << "the ends have parted";
}

TEST(Stage, KeepsCopiesOfATiedMatrixEqualOverMicrobatches) {
  for (const char* name : {"gpipe", "zero_bubble_h1"}) {
    const Case c = steady(
        {.stages = 3, .hop = 2, .microbatches = 2, .steps = 16, .tied = true, .sync_steps = 5, .sync_schedule = name});
    const auto got = pipeline(c);
    EXPECT_TRUE(got.finished_tied[0][0].equal(got.finished_tied[0][1])) << name;
    Case whole = c;
    whole.microbatches = 1;  // the ends add up their microbatches' gradients, each for itself
    EXPECT_NEAR(got.losses[4], pipeline(whole).losses[4], 1e-3) << name;
  }
}

TEST(Stage, ThatIsSteadyInBfloat16IsTheOracleToo) {
  const Case c =
      steady({.stages = 3, .hop = 2, .microbatches = 2, .steps = 20, .sync_steps = 6, .dtype = at::kBFloat16});
  expect_same(pipeline(c), oracle(c), "bf16");
}

TEST(Stage, ThatIsSteadyDoesNotDependOnTheLinks) {
  for (const char* codec : {"none", "int8", "threshold:0.3"}) {
    Case c = steady({.stages = 3, .hop = 2, .microbatches = 2, .steps = 12, .sync_steps = 4, .codec = codec});
    const auto at_once = pipeline(c);
    c.link = {.rate = 2e6, .latency = 3e-3};
    expect_same(pipeline(c), at_once, codec);
  }
}

TEST(Stage, ThatPredictsKeepsTwoBuffersMore) {
  const Case c = steady({.stages = 4, .hop = 2, .steps = 20, .sync_steps = 4});
  comm::run_world(4, [&](std::shared_ptr<comm::TransportGroup> world) {
    auto stage = make_stage(c, mesh_of(world, c));
    for (int64_t t = 1; t <= c.steps; ++t) stage->step(t, rate_at(t));
    const int64_t w = schedule_of(c).warmup[world->rank()];
    EXPECT_EQ(stage->peak_stash().versions, w > 0 ? w + 3 : 1) << "stage " << world->rank();
    EXPECT_EQ(stage->peak_stash().inputs, w + 1) << "stage " << world->rank();
  });
}

TEST(Stage, DoesNotDependOnTheLinks) {
  Case c{.stages = 3, .replicas = 2, .hop = 2, .steps = 8, .strategy = dp::preset("drip")};
  c.strategy.slices.slices = 2;
  const auto at_once = pipeline(c);
  c.link = {.rate = 2e6, .latency = 3e-3};
  expect_same(pipeline(c), at_once, "over 2 Mbit/s and 3 ms");
}

TEST(Stage, ThatDiesIsReportedByItsRankAndNobodyHangs) {
  const Case c{.stages = 4, .hop = 2, .steps = 30};
  std::array<std::string, 4> heard;
  EXPECT_THROW(comm::run_world(4,
                               [&](std::shared_ptr<comm::TransportGroup> world) {
                                 const Mesh mesh = mesh_of(world, c);
                                 auto stage = make_stage(c, mesh);
                                 try {
                                   for (int64_t t = 1; t <= c.steps; ++t) {
                                     if (mesh.stage == 2 && t == 5) throw std::runtime_error("the lights went out");
                                     stage->step(t, rate_at(t));
                                   }
                                 } catch (const comm::PeerLost& lost) {
                                   heard[mesh.stage] = lost.what();
                                   throw;
                                 }
                               }),
               std::runtime_error);
  for (int stage : {0, 1, 3}) {
    EXPECT_NE(heard[stage].find("rank 2"), std::string::npos) << "stage " << stage << ": " << heard[stage];
    EXPECT_NE(heard[stage].find("the lights went out"), std::string::npos) << heard[stage];
  }
}

TEST(Stage, KeepsAsMuchAsTheScheduleSays) {
  for (const char* name : {"gpipe", "1f1b", "zero_bubble_h1", "async_1f1b"})
    for (bool stash : {true, false}) {
      const Case c{.stages = 4,
                   .schedule = name,
                   .hop = 2,
                   .microbatches = std::string(name) == "async_1f1b" ? 1 : 4,
                   .steps = 20,
                   .stash = stash};
      comm::run_world(4, [&](std::shared_ptr<comm::TransportGroup> world) {
        auto stage = make_stage(c, mesh_of(world, c));
        for (int64_t t = 1; t <= c.steps; ++t) stage->step(t, rate_at(t));
        const PeakStash planned = peak_stash(schedule_of(c), world->rank(), c.steps), got = stage->peak_stash();
        EXPECT_EQ(got.inputs, planned.inputs) << name << ", stage " << world->rank();
        EXPECT_EQ(got.versions, stash ? planned.versions : 1) << name << ", stage " << world->rank();
      });
    }
}

static_assert(!std::is_move_constructible_v<Stage> && !std::is_copy_constructible_v<Stage>, "its hooks hold its place");

TEST(Stage, LeavesNoHooksBehind) {
  const Case c{.stages = 1, .steps = 2};
  comm::run_world(1, [&](std::shared_ptr<comm::TransportGroup> world) {
    auto stage = make_stage(c, mesh_of(world, c));
    stage->step(1, 1e-3);
    const auto parameters = stage->module().parameters;
    stage.reset();
    for (const auto& unit : parameters)
      for (const auto& parameter : unit) EXPECT_EQ(torch::autograd::impl::post_acc_grad_hooks(parameter), nullptr);
  });
}

}  // namespace
}  // namespace thinwire::pipeline
