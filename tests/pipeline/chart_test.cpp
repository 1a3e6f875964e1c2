#include "thinwire/pipeline/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace thinwire::pipeline {
namespace {

Schedule any(const std::string& name, int P, int64_t M, int64_t hop = 1) {
  return make_schedule(name, P, name == "async_1f1b" ? 1 : M, hop);
}

// The same on every stage; W as long as F.
Cost costs(double forward, double backward, double update = 0) {
  return [=](int, const Op& op) {
    return op.kind == OpKind::update ? update : op.kind == OpKind::backward ? backward : forward;
  };
}

Chart whole_run(const std::string& name, int P, int64_t M_or_N, double backward = 1) {
  const bool async = name == "async_1f1b";
  return simulate(any(name, P, M_or_N), async ? M_or_N : 1, costs(1, backward), 0);
}

const Block& block_of(const Chart& chart, int stage, OpKind kind, int64_t batch) {
  return *std::ranges::find_if(chart.stages.at(stage),
                               [&](const Block& block) { return block.kind == kind && block.batch == batch; });
}

TEST(Chart, WithoutBlocksIsEmpty) {
  EXPECT_EQ(Chart{}.begin(), 0);
  EXPECT_EQ(Chart{}.end(), 0);
  EXPECT_EQ(Chart{}.bubbles(), 0);
  EXPECT_EQ((Chart{{{}, {}}}).bubbles(), 0);
}

TEST(Chart, CountsAsBubblesWhatNoStageFilled) {
  const Chart chart{{{{OpKind::forward, 0, 10, 12}}, {{OpKind::forward, 0, 12, 13}, {OpKind::backward, 0, 13, 14}}}};
  EXPECT_EQ(chart.begin(), 10);
  EXPECT_EQ(chart.end(), 14);
  EXPECT_DOUBLE_EQ(chart.bubbles(), 0.5);
}

TEST(Chart, APartOfItCutsBlocksOff) {
  const Chart chart{
      {{{OpKind::forward, 0, 0, 2}, {OpKind::update, 0, 2, 2}, {OpKind::forward, 1, 2, 4}, {OpKind::forward, 2, 4, 6}},
       {{OpKind::forward, 0, 6, 8}}}};
  const Chart part = chart.between(1, 3);
  ASSERT_EQ(part.stages.size(), 2u);
  ASSERT_EQ(part.stages[0].size(), 3u) << "what takes no time is still in it";
  EXPECT_EQ(part.begin(), 1);
  EXPECT_EQ(part.end(), 3);
  EXPECT_TRUE(part.stages[1].empty());
  EXPECT_DOUBLE_EQ(part.bubbles(), 0.5);
  EXPECT_EQ(chart.between(4, 6).stages[0].size(), 1u) << "a block that only touches is outside";
}

TEST(Simulate, AStageWaitsForItsNeighboursAndForTheWire) {
  const Chart chart = simulate(make_schedule("gpipe", 2, 2, 1), 1, costs(1, 2, 0.5), 10);
  EXPECT_EQ(block_of(chart, 0, OpKind::forward, 1).begin, 1);
  EXPECT_EQ(block_of(chart, 1, OpKind::forward, 0).begin, 11) << "one second and the wire";
  EXPECT_EQ(block_of(chart, 1, OpKind::forward, 1).begin, 12) << "its own wire time passed meanwhile";
  EXPECT_EQ(block_of(chart, 1, OpKind::backward, 0).begin, 13) << "the last stage needs only its own forward";
  EXPECT_EQ(block_of(chart, 0, OpKind::backward, 0).begin, 25);
  EXPECT_EQ(block_of(chart, 0, OpKind::backward, 1).begin, 27);
  EXPECT_EQ(block_of(chart, 0, OpKind::update, 0).begin, 29);
  EXPECT_EQ(block_of(chart, 1, OpKind::update, 0).end, 17.5) << "an update waits for nobody";
  EXPECT_EQ(chart.end(), 29.5);
}

TEST(Simulate, EveryScheduleComesToItsEnd) {
  for (const auto& name : schedule_names())
    for (int P : {1, 2, 3, 7})
      for (int64_t M : {1, 2, 5, 16})
        for (int64_t steps : {1, 2, 20})
          for (double transfer : {0.0, 2.5}) {
            const auto s = any(name, P, M, 2);
            const Chart chart = simulate(s, steps, costs(1, 2, 0.1), transfer);
            const size_t kinds = name == "zero_bubble_h1" ? 3 : 2;
            for (const auto& blocks : chart.stages) {
              EXPECT_EQ(blocks.size(), steps * (kinds * s.microbatches + 1));
              for (size_t i = 1; i < blocks.size(); ++i) EXPECT_GE(blocks[i].begin, blocks[i - 1].end);
            }
          }
}

TEST(Simulate, NoStageStartsBeforeWhatItNeedsIsThere) {
  const double transfer = 0.7;
  for (const auto& name : schedule_names()) {
    const auto s = any(name, 4, 6, 2);
    const Chart chart = simulate(
        s, 3, [](int stage, const Op& op) { return op.kind == OpKind::backward ? 2.0 : 1 + stage; }, transfer);
    for (int j = 1; j < s.stages; ++j)
      for (int64_t b = 0; b < 3 * s.microbatches; ++b) {
        EXPECT_GE(block_of(chart, j, OpKind::forward, b).begin,
                  block_of(chart, j - 1, OpKind::forward, b).end + transfer);
        EXPECT_GE(block_of(chart, j - 1, OpKind::backward, b).begin,
                  block_of(chart, j, OpKind::backward, b).end + transfer);
      }
  }
}

TEST(Simulate, ARunWithoutEndOrWithoutStepsIsAWrongCall) {
  EXPECT_THROW(simulate(make_schedule("gpipe", 2, 2, 1), 0, costs(1, 1), 0), std::invalid_argument);
}

TEST(Bubbles, OfGpipeAnd1f1bArePMinus1OverMPlusPMinus1) {
  for (const std::string name : {"gpipe", "1f1b"})
    for (int P : {1, 2, 3, 4, 8})
      for (int64_t M : {1, 2, 4, 7, 32})
        for (double backward : {1.0, 2.0}) {
          EXPECT_NEAR(whole_run(name, P, M, backward).bubbles(), (P - 1.0) / (M + P - 1), 1e-12);
          EXPECT_NEAR(simulate(any(name, P, M), 5, costs(1, backward), 0).bubbles(), (P - 1.0) / (M + P - 1), 1e-12)
              << "the pipeline is empty between steps";
        }
}

TEST(Bubbles, OfZeroBubbleH1AreAThirdFromAsManyMicrobatchesAsStages) {
  for (int P : {1, 2, 3, 4, 8})
    for (int64_t M = P; M < 3 * P; ++M)
      EXPECT_NEAR(whole_run("zero_bubble_h1", P, M).bubbles(), (P - 1.0) / (3 * M + P - 1), 1e-12);
  EXPECT_GT(whole_run("zero_bubble_h1", 4, 3).bubbles(), 3.0 / (3 * 3 + 3)) << "fewer cannot fill the gap";
}

TEST(Bubbles, OfAnAsynchronousRunAreOneFillAndOneDrain) {
  for (int P : {1, 2, 3, 4, 8})
    for (int64_t N : {1, 2, 5, 50})
      EXPECT_NEAR(whole_run("async_1f1b", P, N).bubbles(), (P - 1.0) / (N + P - 1), 1e-12);
}

TEST(Bubbles, OfAnAsynchronousRunAreNoneBetweenFillAndDrain) {
  for (int P : {1, 2, 4, 8}) {
    const int64_t N = 50;
    const Chart run = whole_run("async_1f1b", P, N);
    const double filled = block_of(run, 0, OpKind::backward, 0).begin;
    const double draining = block_of(run, 0, OpKind::backward, N - P).end;  // with F(N-1) before it
    EXPECT_EQ(filled, 2 * P - 1);
    EXPECT_EQ(draining, 2 * N);
    const Chart middle = run.between(filled, draining);
    EXPECT_EQ(middle.end() - middle.begin(), draining - filled);
    EXPECT_NEAR(middle.bubbles(), 0, 1e-12);
  }
}

TEST(Bubbles, AreTheSameWithTheLastForwardInsideItsBackward) {
  const Cost inside = [](int stage, const Op& op) {
    if (op.kind == OpKind::update) return 0.0;
    if (stage == 3) return op.kind == OpKind::backward ? 3.0 : 0.0;
    return op.kind == OpKind::backward ? 2.0 : 1.0;
  };
  for (const std::string name : {"1f1b", "async_1f1b"})
    EXPECT_NEAR(simulate(any(name, 4, 6), 4, inside, 0).bubbles(),
                simulate(any(name, 4, 6), 4, costs(1, 2), 0).bubbles(), 1e-12);
}

TEST(SteadyUtilisation, HopTwoHidesHalfAStagesTimeOfTransferAndHopOneDoesNot) {
  EXPECT_NEAR(steady_utilisation(make_schedule("async_1f1b", 4, 1, 1), 1, 0.5), 4.0 / 7, 1e-9);
  EXPECT_GE(steady_utilisation(make_schedule("async_1f1b", 4, 1, 2), 1, 0.5), 0.99);
}

TEST(SteadyUtilisation, IsWhatTheLongestLoopAllows) {
  for (int P : {1, 2, 3, 4, 8})
    for (int64_t hop : {1, 2, 3})
      for (double transfer : {0.0, 0.01, 0.1, 0.3, 0.5, 1.0, 3.0}) {
        const auto s = make_schedule("async_1f1b", P, 1, hop);
        const auto loop = static_cast<double>(s.warmup[0] + 1);
        EXPECT_NEAR(steady_utilisation(s, 1, transfer), std::min(1.0, loop / (P + 2 * (P - 1) * transfer)), 1e-9)
            << P << " stages, hop " << hop << ", transfer " << transfer;
      }
}

TEST(SteadyUtilisation, OneHopAndTwoTransfersAStageTimeHideIt) {
  for (double transfer : {0.0, 0.2, 0.5, 0.9, 2.3}) {
    const auto hop = 1 + static_cast<int64_t>(std::ceil(2 * transfer));
    EXPECT_NEAR(steady_utilisation(make_schedule("async_1f1b", 5, 1, hop), 1, transfer), 1, 1e-9);
  }
}

TEST(SteadyUtilisation, DoesNotDependOnTheUnit) {
  const auto s = make_schedule("async_1f1b", 4, 1, 1);
  EXPECT_NEAR(steady_utilisation(s, 3e-3, 1e-3), steady_utilisation(s, 3, 1), 1e-9);
}

TEST(SteadyUtilisation, OfAStageThatTakesNoTimeIsAWrongCall) {
  EXPECT_THROW(steady_utilisation(make_schedule("async_1f1b", 4, 1, 1), 0, 1), std::invalid_argument);
}

TEST(SteadyUtilisation, OfSynchronousSchedulesIsWithoutTheBubblesOfAStep) {
  EXPECT_NEAR(steady_utilisation(make_schedule("gpipe", 4, 8, 1), 1, 0), 8.0 / 11, 1e-9);
  EXPECT_NEAR(steady_utilisation(make_schedule("1f1b", 4, 8, 1), 1, 0), 8.0 / 11, 1e-9);
  EXPECT_NEAR(steady_utilisation(make_schedule("zero_bubble_h1", 4, 8, 1), 1, 0), 24.0 / 27, 1e-9);
}

TEST(Text, OfGpipe) {
  EXPECT_EQ(to_text(whole_run("gpipe", 4, 4)),
            "0-9 forward (last digit)  a-j its backward  . idle 42.9 %  1 column = 1\n"
            "stage 0  0123......abcd   57 %\n"
            "stage 1  .0123....abcd.   57 %\n"
            "stage 2  ..0123..abcd..   57 %\n"
            "stage 3  ...0123abcd...   57 %\n");
}

TEST(Text, Of1f1bWithABackwardTwiceAsLong) {
  EXPECT_EQ(to_text(whole_run("1f1b", 4, 4, 2)),
            "0-9 forward (last digit)  a-j its backward  . idle 42.9 %  1 column = 1\n"
            "stage 0  0123......aa.bb.cc.dd   57 %\n"
            "stage 1  .012....aa3bb.cc.dd..   57 %\n"
            "stage 2  ..01..aa2bb3cc.dd....   57 %\n"
            "stage 3  ...0aa1bb2cc3dd......   57 %\n");
}

TEST(Text, OfZeroBubbleH1) {
  EXPECT_EQ(to_text(whole_run("zero_bubble_h1", 4, 4)),
            "0-9 forward (last digit)  a-j its backward  w weights  . idle 20.0 %  1 column = 1\n"
            "stage 0  0123...awbwcwdw   80 %\n"
            "stage 1  .012..a3bwcwdww   80 %\n"
            "stage 2  ..01.a2b3cwdwww   80 %\n"
            "stage 3  ...0a1b2c3dwwww   80 %\n");
}

TEST(Text, OfAnAsynchronousRun) {
  EXPECT_EQ(to_text(whole_run("async_1f1b", 4, 8)),
            "0-9 forward (last digit)  a-j its backward  . idle 27.3 %  1 column = 1\n"
            "stage 0  0123...a4b5c6d7e.f.g.h   73 %\n"
            "stage 1  .012..a3b4c5d6e7f.g.h.   73 %\n"
            "stage 2  ..01.a2b3c4d5e6f7g.h..   73 %\n"
            "stage 3  ...0a1b2c3d4e5f6g7h...   73 %\n");
}

TEST(Text, DrawsUpdatesThatTakeTimeAndStartsWhereTheChartStarts) {
  const Chart chart{
      {{{OpKind::forward, 9, 100, 101}, {OpKind::backward, 19, 101, 103}, {OpKind::update, 0, 103, 104}}}};
  EXPECT_EQ(to_text(chart),
            "0-9 forward (last digit)  a-j its backward  | update  . idle 0.0 %  1 column = 1\n"
            "stage 0  9jj|  100 %\n");
}

TEST(Text, DividesTheShortestBlockIfAllBlocksThenFallOnColumns) {
  const Chart chart{{{{OpKind::forward, 0, 0, 0.02}, {OpKind::backward, 0, 0.02, 0.05}}}};
  EXPECT_EQ(to_text(chart),
            "0-9 forward (last digit)  a-j its backward  . idle 0.0 %  1 column = 0.01\n"
            "stage 0  00aaa  100 %\n");
}

TEST(Text, ShowsWhatTakesMostOfAColumnWhereColumnsAreFew) {
  const Chart chart = simulate(make_schedule("async_1f1b", 1, 1, 1), 4, costs(3.99, 3.99, 0.02), 0);
  EXPECT_EQ(to_text(chart, 40).substr(to_text(chart, 40).find("stage")), "stage 0  000aaa111bbb222ccc333ddd  100 %\n")
      << "short updates in between leave no trace, neither as | nor as idle";
}

TEST(Text, LosesNoBlockWhereTheShortestFitsAColumn) {
  const Chart chart{{{{OpKind::forward, 0, 0, 1},
                      {OpKind::forward, 1, 1.37, 2.37},
                      {OpKind::forward, 2, 2.9, 4.23},
                      {OpKind::forward, 3, 4.23, 5.23},
                      {OpKind::forward, 4, 5.73, 6.73}}}};
  const std::string row = to_text(chart).substr(to_text(chart).find("stage 0  ") + 9);
  for (char mark : std::string("01234")) EXPECT_NE(row.find(mark), std::string::npos) << row;
}

TEST(Text, KeepsToTheWidth) {
  for (const auto& name : schedule_names())
    for (int P : {1, 4, 12})
      for (int width : {40, 80, 100})
        for (int64_t steps : {1, 3, 100}) {
          const std::string text = to_text(simulate(any(name, P, 6, 2), steps, costs(1, 1.7, 0.3), 0.4), width);
          size_t longest = 0, lines = 0;
          for (size_t from = 0; from < text.size(); ++lines) {
            const size_t to = text.find('\n', from);
            longest = std::max(longest, to - from);
            from = to + 1;
          }
          EXPECT_LE(longest, static_cast<size_t>(width)) << text;
          EXPECT_GT(lines, static_cast<size_t>(P));
          EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
        }
}

TEST(Text, OfNothingSaysSo) {
  EXPECT_EQ(to_text(Chart{}), "nothing that took time\n");
  EXPECT_EQ(to_text(Chart{{{}, {}}}), "nothing that took time\n");
}

}  // namespace
}  // namespace thinwire::pipeline
