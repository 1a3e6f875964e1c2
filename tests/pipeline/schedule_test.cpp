#include "thinwire/pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "thinwire/base/errors.h"

namespace thinwire::pipeline {
namespace {

// Of one step: "F0 F1 B0 U0".
std::string text(const Schedule& schedule, int stage, int64_t step, int64_t steps) {
  std::string line;
  for (const Op& op : schedule.ops(stage, step, steps))
    line += (line.empty() ? "" : " ") + std::string(1, "FBWU"[static_cast<int>(op.kind)]) + std::to_string(op.batch);
  return line;
}

// `M` microbatches where the schedule has such.
Schedule any(const std::string& name, int P, int64_t M, int64_t hop = 1) {
  return make_schedule(name, P, name == "async_1f1b" ? 1 : M, hop);
}

std::string error_of(const std::string& name, int stages, int64_t microbatches, int64_t hop) {
  try {
    make_schedule(name, stages, microbatches, hop);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(Schedule, GpipeDoesAllForwardsThenAllBackwards) {
  const auto s = make_schedule("gpipe", 2, 3, 1);
  EXPECT_EQ(text(s, 0, 0, 2), "F0 F1 F2 B0 B1 B2 U0");
  EXPECT_EQ(text(s, 1, 0, 2), text(s, 0, 0, 2)) << "every stage the same";
  EXPECT_EQ(text(s, 1, 1, 2), "F3 F4 F5 B3 B4 B5 U1") << "microbatches are numbered through the run";
}

TEST(Schedule, OneForwardOneBackwardTakesTurnsAfterAWarmUp) {
  const auto s = make_schedule("1f1b", 3, 4, 1);
  EXPECT_EQ(text(s, 0, 0, 1), "F0 F1 F2 B0 F3 B1 B2 B3 U0");
  EXPECT_EQ(text(s, 1, 0, 1), "F0 F1 B0 F2 B1 F3 B2 B3 U0");
  EXPECT_EQ(text(s, 2, 0, 1), "F0 B0 F1 B1 F2 B2 F3 B3 U0");
  EXPECT_EQ(text(s, 2, 1, 2), "F4 B4 F5 B5 F6 B6 F7 B7 U1");
}

TEST(Schedule, OneForwardOneBackwardWithFewMicrobatchesIsGpipeAtTheFirstStage) {
  EXPECT_EQ(text(make_schedule("1f1b", 4, 2, 1), 0, 0, 1), "F0 F1 B0 B1 U0");
}

TEST(Schedule, ZeroBubbleLeavesTheWeightsForLaterTheMoreTheLaterTheStage) {
  const auto s = make_schedule("zero_bubble_h1", 3, 4, 1);
  EXPECT_EQ(text(s, 0, 0, 1), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3 U0");
  EXPECT_EQ(text(s, 1, 0, 1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3 U0");
  EXPECT_EQ(text(s, 2, 0, 1), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3 U0");
  EXPECT_EQ(text(make_schedule("zero_bubble_h1", 4, 2, 1), 3, 1, 2), "F2 B2 F3 B3 W2 W3 U1")
      << "all of them at the end";
}

TEST(Schedule, ZeroBubbleWithoutItsWeightsIsOneForwardOneBackward) {
  for (int P = 1; P <= 5; ++P)
    for (int64_t M = 1; M <= 7; ++M)
      for (int j = 0; j < P; ++j) {
        auto ops = make_schedule("zero_bubble_h1", P, M, 1).ops(j, 2, 3);
        std::erase_if(ops, [](const Op& op) { return op.kind == OpKind::weights; });
        EXPECT_EQ(ops, make_schedule("1f1b", P, M, 1).ops(j, 2, 3));
      }
}

TEST(Schedule, AsynchronousFillsOnceThenUpdatesAfterEveryBackward) {
  const auto s = make_schedule("async_1f1b", 3, 1, 1);
  EXPECT_EQ(s.warmup, (std::vector<int64_t>{2, 1, 0}));
  EXPECT_EQ(text(s, 0, 0, 4), "F0 F1 F2 B0 U0");
  EXPECT_EQ(text(s, 0, 1, 4), "F3 B1 U1");
  EXPECT_EQ(text(s, 0, 2, 4), "B2 U2") << "the drain";
  EXPECT_EQ(text(s, 0, 3, 4), "B3 U3");
  EXPECT_EQ(text(s, 2, 0, 4), "F0 B0 U0");
  EXPECT_EQ(text(s, 2, 3, 4), "F3 B3 U3") << "the last stage neither fills nor drains";
  EXPECT_EQ(text(s, 0, 100, 0), "F102 B100 U100") << "without end there is no drain";
}

TEST(Schedule, AsynchronousRunsMayBeShorterThanTheirWarmUp) {
  const auto s = make_schedule("async_1f1b", 4, 1, 2);
  EXPECT_EQ(s.warmup, (std::vector<int64_t>{6, 4, 2, 0}));
  EXPECT_EQ(text(s, 0, 0, 2), "F0 F1 B0 U0");
  EXPECT_EQ(text(s, 0, 1, 2), "B1 U1");
  EXPECT_EQ(text(s, 0, 0, 0), "F0 F1 F2 F3 F4 F5 F6 B0 U0");
}

TEST(Schedule, EveryMicrobatchGoesForwardThenBackwardOnceAndEveryStepEndsWithItsUpdate) {
  for (const auto& name : schedule_names())
    for (int P : {1, 2, 4})
      for (int64_t M : {1, 3, 8})
        for (int64_t steps : {1, 2, 9}) {
          const auto s = any(name, P, M, 2);
          for (int j = 0; j < P; ++j) {
            std::map<OpKind, std::vector<int64_t>> seen;
            for (int64_t step = 0; step < steps; ++step) {
              for (const Op& op : s.ops(j, step, steps)) {
                seen[op.kind].push_back(op.batch);
                EXPECT_LE(seen[OpKind::backward].size(), seen[OpKind::forward].size());
                EXPECT_LE(seen[OpKind::weights].size(), seen[OpKind::backward].size());
              }
              EXPECT_EQ(s.ops(j, step, steps).back(), (Op{OpKind::update, step}));
            }
            std::vector<int64_t> all(steps * s.microbatches);
            for (size_t b = 0; b < all.size(); ++b) all[b] = static_cast<int64_t>(b);
            EXPECT_EQ(seen[OpKind::forward], all) << "in increasing order";
            EXPECT_EQ(seen[OpKind::backward], all) << "in increasing order";
            EXPECT_EQ(seen[OpKind::weights], name == "zero_bubble_h1" ? all : std::vector<int64_t>{});
            EXPECT_EQ(static_cast<int64_t>(seen[OpKind::update].size()), steps);
          }
        }
}

TEST(Schedule, SynchronousVersionsAreSteps) {
  const auto s = make_schedule("1f1b", 2, 4, 1);
  for (int j : {0, 1}) {
    EXPECT_EQ(s.version(j, 3), 0);
    EXPECT_EQ(s.version(j, 4), 1);
    EXPECT_EQ(s.version(j, 11), 2);
  }
}

TEST(Schedule, AsynchronousVersionsAreAsOldAsTheWarmUpIsLong) {
  const auto s = make_schedule("async_1f1b", 3, 1, 2);
  EXPECT_EQ(s.version(2, 5), 5) << "the last stage is never late";
  EXPECT_EQ(s.version(1, 5), 3);
  EXPECT_EQ(s.version(0, 5), 1);
  EXPECT_EQ(s.version(0, 3), 0) << "before the first update there is nothing newer";
}

TEST(Schedule, AForwardUsesTheNewestVersionThereIs) {
  for (const auto& name : schedule_names())
    for (int64_t hop : {1, 2, 3}) {
      const auto s = any(name, 4, 5, hop);
      for (int j = 0; j < s.stages; ++j) {
        int64_t updates = 0;
        for (int64_t step = 0; step < 30; ++step)
          for (const Op& op : s.ops(j, step, 30)) {
            if (op.kind == OpKind::update) ++updates;
            if (op.kind != OpKind::forward) continue;
            EXPECT_EQ(s.version(j, op.batch), updates);
          }
      }
    }
}

TEST(Schedule, ErrorsNameTheOption) {
  EXPECT_EQ(error_of("dualpipe", 2, 2, 1),
            "pipeline.schedule must be one of gpipe, 1f1b, zero_bubble_h1, async_1f1b, got \"dualpipe\"");
  EXPECT_EQ(error_of("gpipe", 0, 2, 1), "pipeline.stages must be at least 1, got 0");
  EXPECT_EQ(error_of("gpipe", 2, -1, 1), "pipeline.microbatches must be at least 1, got -1");
  EXPECT_EQ(error_of("async_1f1b", 2, 1, 0), "pipeline.hop must be at least 1, got 0");
  EXPECT_EQ(error_of("async_1f1b", 2, 4, 1),
            "pipeline.microbatches must be 1 in async_1f1b, which updates after every one, got 4");
  for (const auto& name : schedule_names()) EXPECT_EQ(error_of(name, 1, 1, 1), "no error");
}

TEST(Schedule, AStageOrAStepThatDoesNotExistIsAWrongCall) {
  const auto s = make_schedule("1f1b", 2, 2, 1);
  EXPECT_THROW(s.ops(2, 0, 1), std::invalid_argument);
  EXPECT_THROW(s.ops(-1, 0, 1), std::invalid_argument);
  EXPECT_THROW(s.ops(0, 1, 1), std::invalid_argument);
  EXPECT_THROW(s.ops(0, -1, 0), std::invalid_argument);
  EXPECT_THROW(s.version(2, 0), std::invalid_argument);
  EXPECT_THROW(peak_stash(s, 2, 1), std::invalid_argument);
  EXPECT_THROW(Schedule{}.ops(0, 0, 1), std::invalid_argument) << "make_schedule() was not asked";
}

TEST(PeakStash, InputsAreAllOfAStepOrAsManyAsAreUnderWay) {
  for (int P : {1, 2, 4, 6})
    for (int64_t M : {1, 2, 3, 4, 8})
      for (int j = 0; j < P; ++j) {
        EXPECT_EQ(peak_stash(make_schedule("gpipe", P, M, 1), j, 3).inputs, M);
        EXPECT_EQ(peak_stash(make_schedule("1f1b", P, M, 1), j, 3).inputs, std::min<int64_t>(P - j, M));
        EXPECT_EQ(peak_stash(make_schedule("zero_bubble_h1", P, M, 1), j, 3).inputs, std::min<int64_t>(P, M));
        for (int64_t hop : {1, 2}) {
          const auto s = make_schedule("async_1f1b", P, 1, hop);
          EXPECT_EQ(s.warmup[j], hop * (P - 1 - j));
          EXPECT_EQ(peak_stash(s, j, 40).inputs, s.warmup[j] + 1);
          EXPECT_EQ(peak_stash(s, j, M).inputs, std::min(s.warmup[j] + 1, M)) << "a short run never has as many";
        }
      }
}

TEST(PeakStash, SynchronousStagesKeepOneVersion) {
  for (const std::string name : {"gpipe", "1f1b", "zero_bubble_h1"})
    for (int j = 0; j < 4; ++j) EXPECT_EQ(peak_stash(make_schedule(name, 4, 8, 1), j, 5).versions, 1);
}

TEST(PeakStash, AsynchronousStagesKeepOneVersionMoreThanTheirWarmUp) {
  for (int P : {1, 2, 4})
    for (int64_t hop : {1, 2, 3}) {
      const auto s = make_schedule("async_1f1b", P, 1, hop);
      for (int j = 0; j < P; ++j) EXPECT_EQ(peak_stash(s, j, 40).versions, s.warmup[j] + 1);
    }
}

TEST(PeakStash, AnUpdateFindsTheSlotItsBackwardHasLeft) {
  const auto s = make_schedule("async_1f1b", 4, 1, 2);
  for (int j = 0; j < s.stages; ++j) {
    const int64_t slots = peak_stash(s, j, 0).versions;
    std::map<int64_t, int64_t> ring = {{0, 0}};  // slot -> version; U(b) writes version b+1 into its slot
    for (int64_t b = 0; b < 50; ++b)
      for (const Op& op : s.ops(j, b, 50)) {
        if (op.kind == OpKind::update) {
          ring[(b + 1) % slots] = b + 1;
        } else {
          const int64_t v = s.version(j, op.batch);
          EXPECT_EQ(ring[v % slots], v) << "stage " << j << " has lost what minibatch " << op.batch << " needs";
        }
      }
  }
}

TEST(PeakStash, ARunWithoutEndIsALongOne) {
  for (const auto& name : schedule_names()) {
    const auto s = any(name, 5, 3, 2);
    for (int j = 0; j < s.stages; ++j) {
      EXPECT_EQ(peak_stash(s, j, 0).versions, peak_stash(s, j, 100).versions);
      EXPECT_EQ(peak_stash(s, j, 0).inputs, peak_stash(s, j, 100).inputs);
    }
  }
}

}  // namespace
}  // namespace thinwire::pipeline
