#include "thinwire/report/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "thinwire/base/errors.h"
#include "thinwire/report/chart.h"
#include "thinwire/report/curves.h"
#include "thinwire/report/pipeline.h"
#include "thinwire/report/prose.h"
#include "thinwire/report/text.h"
#include "thinwire/report/timeline.h"
#include "thinwire/train/pipeline_record.h"
#include "thinwire/train/run_record.h"
#include "thinwire/train/stages.h"

namespace thinwire::report {
namespace {

namespace fs = std::filesystem;
using namespace train;  // its records

// A folder for runs, gone at the end.
class Report : public testing::Test {
 protected:
  Report()
      : home_(fs::temp_directory_path() / ("thinwire_" + std::to_string(::getpid()) + "_" +
                                           testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(home_);
  }
  ~Report() override { fs::remove_all(home_); }

  void write(const fs::path& name, const std::string& text) const {
    fs::create_directories((home_ / name).parent_path());
    std::ofstream(home_ / name) << text;
  }

  fs::path unfinished(const std::string& name, const std::string& strategy, int steps = 20) const {
    write(name + "/recipe.toml", "[model]\nname = \"gpt\"\ncontext = 16\n[strategy]\nname = \"" + strategy +
                                     "\"\nperiod = 5\n[workers]\nreplicas = 2\n[link]\nreplicas = \"100mbit/20ms\"\n"
                                     "[train]\nsteps = 20\nbatch = 4\n");
    std::string lines;
    for (int s = 1; s <= steps; ++s) {
      lines +=
          fmt::format(
              R"({{"event":"step","step":{},"loss":{},"seconds":{},"compute_s":{},"exposed_s":{},"wire_bytes":{}}})", s,
              5.0 / s, 0.1 * s, 0.07 * s, 0.02 * s, 1000 * s) +
          "\n";
      if (s % 5 == 0)
        lines +=
            fmt::format(R"({{"event":"eval","step":{},"val_loss":{},"consensus_distance":0.001}})", s, 5.5 / s) + "\n";
    }
    write(name + "/metrics.jsonl", lines);
    return home_ / name;
  }

  fs::path run(const std::string& name, const std::string& strategy, const std::string& more = "") const {
    unfinished(name, strategy);
    write(name + "/result.json",
          R"({"event":"done","strategy":")" + strategy +
              R"(","steps":20,"tokens":2560,"val_loss":1.25,"seconds":2,"compute_s":1.4,"exposed_s":0.4,)"
              R"("utilisation":0.78,"tokens_per_s":1280,"wire_bytes":20000,"weights_hash":"abc")" +
              more + "}");
    return home_ / name;
  }

  std::string complaint(const std::vector<fs::path>& dirs) const {
    try {
      html(dirs);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "none";
  }

  const fs::path home_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ReportChart, TicksAreRoundAndWithin) {
  EXPECT_EQ((std::vector<double>{0, 5, 10, 15, 20}), ticks(0, 20, 5));
  EXPECT_EQ((std::vector<double>{2.5, 3, 3.5, 4}), ticks(2.3, 4.2, 5));
  EXPECT_EQ((std::vector<double>{0}), ticks(0, 0, 5));
}

TEST(ReportChart, LogTicksAreFineOrPowersOfTen) {
  EXPECT_EQ((std::vector<double>{1, 2, 5, 10}), log_ticks(1, 10, 6));
  EXPECT_EQ((std::vector<double>{1, 10, 100, 1000, 10000}), log_ticks(1, 10000, 6));
}

TEST(ReportChart, ThinnedKeepsBothEnds) {
  std::vector<Point> line;
  for (int i = 0; i < 100000; ++i) line.push_back({double(i), 0});
  const auto thin = thinned(line);
  EXPECT_EQ(kCurvePoints, thin.size());
  EXPECT_EQ(0, thin.front().x);
  EXPECT_EQ(99999, thin.back().x);
}

TEST(ReportChart, SmoothedIsTheMeanOfNeighbours) {
  EXPECT_EQ((std::vector<double>{4, 3, 2, 1.5}), smoothed({4, 3, 2, 1}, 3));
  EXPECT_EQ((std::vector<double>{4, 3}), smoothed({4, 3}, 1));
  EXPECT_EQ((std::vector<double>{4, 3, 2, 2}), smoothed({4, NAN, 2, 2}, 3));
  EXPECT_TRUE(smoothed({}, 5).empty());
}

TEST(ReportChart, LeavesOutWhatIsNotFinite) {
  Chart chart{.id = "c"};
  chart.series.push_back({"a", 0, {{1, 1}, {2, NAN}, {NAN, 2}, {3, INFINITY}, {4, 2}}, {}});
  const std::string svg = chart_svg(chart, {600, 300});
  EXPECT_FALSE(has(svg, "nan"));
  EXPECT_FALSE(has(svg, "inf"));
  EXPECT_FALSE(has(chart_svg(Chart{.id = "empty"}, {600, 300}), "nan"));
}

TEST(ReportText, EscapesWhatHtmlWouldRead) {
  EXPECT_EQ("&lt;b a=&quot;1&quot;&gt;&amp;&#39;", escaped("<b a=\"1\">&'\x01"));
}

TEST(ReportText, NumbersHaveUnits) {
  EXPECT_EQ("640\u00a0B", bytes_text(640));
  EXPECT_EQ("5.17\u00a0MB", bytes_text(5167104));
  EXPECT_EQ("12.0\u00a0ms", time_text(0.012));
  EXPECT_EQ("4\u00a0min 5\u00a0s", time_text(245));
  EXPECT_EQ("0.3\u00a0%", percent_text(0.003));
  EXPECT_EQ("861k", short_count(861312));
  EXPECT_EQ("−0.12", signed_text(-0.123, 2));
  EXPECT_EQ("100\u00a0Mbit/s, 20\u00a0ms", link_text("100mbit/20ms"));
  EXPECT_EQ("100mbit/20ms, at 5s 10mbit", link_text("100mbit/20ms, at 5s 10mbit"));
  EXPECT_EQ("–", bytes_text(NAN));
}

TEST(ReportTimeline, JoinsAndOverlaps) {
  const Spans spans = joined({{2, 3, 5}, {0, 1, 1}, {0.5, 2, 2}, {8, 9, 1}}, 8.5, 0);
  ASSERT_EQ(2u, spans.size());
  EXPECT_EQ(3, spans[0].end);
  EXPECT_EQ(8, spans[0].bytes);
  EXPECT_EQ(8.5, spans[1].end);
  EXPECT_DOUBLE_EQ(1.5, overlap({{0, 1}, {2, 3}}, {{0.5, 3}}));
}

TEST(ReportTimeline, SummaryTellsWhatIsHidden) {
  TimelineRecord timeline;
  timeline.ranks.push_back({{{0, 1}, {1, 2}}, {{1.5, 2}}, {{1, 2, 100}}});
  const auto sum = summary(timeline, 2);
  EXPECT_DOUBLE_EQ(2, sum.steps);
  EXPECT_DOUBLE_EQ(0.25, sum.waiting);
  EXPECT_DOUBLE_EQ(0.5, sum.wire);
  EXPECT_DOUBLE_EQ(0.5, sum.hidden);
}

TEST(ReportTimeline, LanesAreReplicasOrStages) {
  TimelineRecord timeline;
  for (int rank = 0; rank < 4; ++rank) timeline.ranks.push_back({{{0, 1}}, {}, {}});
  const auto lanes = [&](int64_t stages, double width) {
    timeline.stages = stages;
    return timeline_svg(timeline, "", 1, {width, 150});
  };
  EXPECT_TRUE(has(lanes(1, 1000), ">replica 3</text>"));
  EXPECT_TRUE(has(lanes(4, 1000), ">stage 3</text>"));
  EXPECT_FALSE(has(lanes(4, 1000), "replica"));
  EXPECT_TRUE(has(lanes(2, 1000), ">replica 1</text>"));
  EXPECT_TRUE(has(lanes(2, 1000), ">stage 1</text>"));
  EXPECT_TRUE(has(lanes(2, 343), ">1.1</text>"));
}

Recipe staged_recipe(const std::string& pipeline) {
  return make_recipe(
      parse_recipe("[model]\ncontext = 16\nwidth = 64\n[workers]\nreplicas = 1\nstages = 4\n[pipeline]\n" + pipeline +
                       "\n[link]\nstages = \"1mbit/2ms\"\n[train]\nsteps = 60\nbatch = 4\n" + "eval_every = 20\n",
                   "recipe.toml"));
}
constexpr double kTransfer = 0.002 + 4 * 16 * 64 * 4 * 8 / 1e6;  // a minibatch over that link
constexpr double kStage = 0.3;                                   // seconds of a stage for it

// What the stages' traces hold if all goes by the plan.
std::vector<TracePtr> traces_of(const pipeline::Schedule& schedule, int64_t steps, double transfer) {
  using pipeline::OpKind;
  const auto chart = pipeline::simulate(
      schedule, steps,
      [&](int stage, const pipeline::Op& op) {
        const bool last = stage == schedule.stages - 1;
        return op.kind == OpKind::forward && !last ? kStage / 3
               : op.kind == OpKind::backward       ? (last ? 1 : 2. / 3) * kStage
                                                   : 0;
      },
      transfer);
  const auto zero = Clock::now();
  const auto at = [&](double s) {
    return zero + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  };
  std::vector<TracePtr> traces;
  for (const auto& blocks : chart.stages) {
    traces.push_back(std::make_shared<Trace>(4096));
    for (const auto& block : blocks) {
      if (block.kind == OpKind::forward && traces.size() == 4) continue;  // the last stage's is in its backward
      const TraceKind trace_kind = block.kind == OpKind::forward    ? TraceKind::forward
                                   : block.kind == OpKind::backward ? TraceKind::backward
                                                                    : TraceKind::update;
      traces.back()->add(trace_kind, at(block.begin), at(block.end), block.batch);
    }
  }
  return traces;
}

TEST(PipelineRecord, HasThePlanThatARunWithoutDisturbanceFollowed) {
  for (const int64_t hop : {1, 2, 3}) {
    const Recipe recipe = staged_recipe(fmt::format("hop = {}", hop));
    const auto schedule = schedule_of(recipe);
    const auto record = pipeline_record(recipe, traces_of(schedule, 60, kTransfer), 60);
    ASSERT_TRUE(record);
    EXPECT_EQ("async_1f1b", record->schedule);
    EXPECT_EQ(hop, record->hop);
    EXPECT_EQ(4 * 16 * 64 * 4, record->transfer_bytes);
    EXPECT_DOUBLE_EQ(kTransfer, record->transfer_s);
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_NEAR(stage == 3 ? 0 : kStage / 3, record->costs[stage].forward_s, 1e-7);
      EXPECT_NEAR(stage == 3 ? kStage : kStage * 2 / 3, record->costs[stage].backward_s, 1e-7);
      EXPECT_EQ(hop * (3 - stage) + 1, record->peak_stash[stage].versions);
      EXPECT_EQ(hop * (3 - stage) + 1, record->peak_stash[stage].inputs);
    }
    EXPECT_NEAR(pipeline::steady_utilisation(schedule, kStage, kTransfer), record->utilisation, 1e-6) << hop;
    EXPECT_NEAR(1 - record->utilisation, record->planned.idle(), 1e-6) << hop;
    EXPECT_NEAR(record->planned.idle(), record->recorded.idle(), 1e-6) << hop;
    EXPECT_NEAR(record->planned.seconds, record->recorded.seconds, 1e-6) << hop;
    const auto hop_1 = pipeline::make_schedule("async_1f1b", 4, 1, 1);
    EXPECT_NEAR(pipeline::steady_utilisation(hop_1, kStage, kTransfer), *record->utilisation_hop_1, 1e-6);
    EXPECT_EQ(60 - 3 * hop, record->to_step);  // before the pipeline drains
    EXPECT_GT(record->from_step, 40);          // and after the evaluation
    std::vector<int64_t> planned, recorded;    // the same minibatches
    for (const auto& block : record->planned.chart.stages[0]) planned.push_back(block.batch);
    for (const auto& block : record->recorded.chart.stages[0]) recorded.push_back(block.batch);
    EXPECT_EQ(planned, recorded);
  }
}

TEST(PipelineRecord, OfASynchronousScheduleHasWholeSteps) {
  const Recipe recipe = staged_recipe("schedule = \"1f1b\"\nmicrobatches = 4");
  const auto record = pipeline_record(recipe, traces_of(schedule_of(recipe), 60, 0), 60);
  ASSERT_TRUE(record);
  EXPECT_FALSE(record->hop);
  EXPECT_FALSE(record->utilisation_hop_1);
  EXPECT_EQ(59, record->from_step);
  EXPECT_EQ(60, record->to_step);
  EXPECT_NEAR(3. / 7, record->recorded.idle(), 1e-6);  // (P - 1) / (M + P - 1)
  EXPECT_EQ(16 * 64 * 4, record->transfer_bytes);
  EXPECT_EQ(1, record->peak_stash[0].versions);
  EXPECT_EQ(4, record->peak_stash[0].inputs);
}

TEST(PipelineRecord, HasTheChangeFromASynchronousBeginning) {
  const Recipe recipe = staged_recipe("hop = 2\npredict = 1.0\nsync_steps = 20\nmicrobatches = 4");
  const auto schedule = schedule_of(recipe);
  const auto traces = traces_of(schedule, 60, 0);
  const auto record = pipeline_record(recipe, traces, 60, traces);
  ASSERT_TRUE(record && record->sync);
  EXPECT_EQ("1f1b", record->sync->schedule);
  EXPECT_EQ(20, record->sync->steps);
  EXPECT_EQ(20, record->sync->from_step);
  EXPECT_EQ(20 + 6 + 2, record->sync->to_step);
  EXPECT_NEAR(pipeline::steady_utilisation(pipeline::make_schedule("1f1b", 4, 4, 1), kStage, record->sync->transfer_s),
              record->sync->utilisation, 0.02);
  EXPECT_DOUBLE_EQ(0.002 + 16 * 64 * 4 * 8 / 1e6, record->sync->transfer_s) << "a microbatch, over that link";
  EXPECT_GT(record->from_step, 40);
  EXPECT_EQ(6 + 3, record->peak_stash[0].versions);
  EXPECT_EQ(1, record->peak_stash[3].versions);
  std::vector<int64_t> planned, recorded;  // the same microbatches and minibatches
  for (const auto& block : record->sync->planned.chart.stages[0]) planned.push_back(block.batch);
  for (const auto& block : record->sync->recorded.chart.stages[0]) recorded.push_back(block.batch);
  EXPECT_EQ(planned, recorded);
  EXPECT_EQ(19, record->place_of(79).step);
  EXPECT_EQ(3, record->place_of(79).part);
  EXPECT_TRUE(record->place_of(79).synchronous);
  EXPECT_EQ(20, record->place_of(80).step);
  EXPECT_FALSE(record->place_of(80).synchronous);
  EXPECT_FALSE(pipeline_record(recipe, traces, 60)->sync) << "without its traces";
  const auto text = to_json(*record).dump();
  EXPECT_TRUE(text == to_json(pipeline_of_json(nlohmann::json::parse(text), "pipeline.json")).dump());
}

TEST(PipelineRecord, OfARunThatStayedInItsBeginningIsOfThatSchedule) {
  const Recipe recipe = staged_recipe("sync_steps = 80\nmicrobatches = 4");
  const auto record = pipeline_record(recipe, traces_of(schedule_of(recipe), 60, 0), 60);
  ASSERT_TRUE(record);
  EXPECT_EQ("1f1b", record->schedule);
  EXPECT_FALSE(record->sync);
  EXPECT_NEAR(3. / 7, record->recorded.idle(), 1e-6);
}

TEST(PipelineRecord, WaitingInsideAnOperationIsIdle) {
  const Recipe recipe = staged_recipe("hop = 1");
  const auto traces = traces_of(schedule_of(recipe), 60, kTransfer);
  const auto before = pipeline_record(recipe, traces, 60);
  for (const auto& trace : traces)
    for (const Interval& s : trace->of(TraceKind::backward))  // its second half
      trace->add(TraceKind::wait, s.begin + (s.end - s.begin) / 2, s.end);
  const auto after = pipeline_record(recipe, traces, 60);
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_NEAR(before->costs[stage].backward_s / 2, after->costs[stage].backward_s, 1e-7);
  EXPECT_NEAR(1 - (1 - before->recorded.idle(3)) / 2, after->recorded.idle(3), 1e-6);
}

TEST(PipelineRecord, IsNothingWithoutAStep) {
  const std::vector<TracePtr> traces(4, std::make_shared<Trace>(8));
  EXPECT_FALSE(pipeline_record(staged_recipe("hop = 1"), traces, 60));
}

TEST(PipelineRecord, GoesThroughJson) {
  for (const char* pipeline : {"hop = 2\nstash = false", "schedule = \"gpipe\""}) {
    const Recipe recipe = staged_recipe(pipeline);
    const auto text = to_json(*pipeline_record(recipe, traces_of(schedule_of(recipe), 60, 0), 60)).dump();
    const auto back = pipeline_of_json(nlohmann::json::parse(text), "pipeline.json");
    EXPECT_TRUE(text == to_json(back).dump()) << pipeline;
    EXPECT_EQ(1, back.peak_stash[0].versions);
  }
}

TEST(PipelineRecord, AScheduleIsALineAStage) {
  const std::string text = schedule_text(staged_recipe("hop = 2"), 78);
  EXPECT_EQ(6, std::ranges::count(text, '\n')) << text;
  EXPECT_TRUE(text.starts_with("async_1f1b with hop 2, if F takes 1, B 2 and transfers nothing:\n")) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 78u);
}

TEST_F(Report, DrawsThePipelineOfRunsThatHaveOne) {
  const auto dir = run("a", "co2", R"(,"stage_bytes":3000000,"machine":{"cores":2,"cpu":"X"})");
  EXPECT_FALSE(has(html({dir}), "id=\"pipeline\""));
  EXPECT_FALSE(has(html({dir}), "between stages"));
  const Recipe recipe = staged_recipe("hop = 3");
  const auto record = pipeline_record(recipe, traces_of(schedule_of(recipe), 60, kTransfer), 60);
  write("a/pipeline.json", to_json(*record).dump());
  write("a/recipe.toml", to_toml(recipe));
  const std::string page = html({dir});
  EXPECT_TRUE(has(page, "<section id=\"pipeline\">"));
  for (const auto& words :
       {fmt::format("idle for <strong>{}</strong> of the time", percent_text(1 - record->utilisation)),
        fmt::format("and they were for <strong>{}</strong>", percent_text(record->recorded.idle())),
        fmt::format("With hop 1 instead of 3 the plan would be idle for {}.",
                    percent_text(1 - *record->utilisation_hop_1)),
        std::string("10, 7, 4 and 1 versions of the weights and as many inputs"), std::string("All 4 shared 2 cores"),
        std::string("4 in a replica, async_1f1b with hop 3"), std::string("<td data-name=\"stages, MB\">3.0</td>"),
        std::string("on one replica of 4 stages joined by links of 1\u00a0Mbit/s and 2\u00a0ms"),
        fmt::format("stage 3, backward, minibatch 50: {}", time_text(kStage))})
    EXPECT_TRUE(has(page, words)) << words;
}

TEST_F(Report, ComplaintsAboutAPipelineNameTheFile) {
  const auto dir = run("a", "co2");
  const Recipe recipe = staged_recipe("hop = 1\nsync_steps = 20\nmicrobatches = 4");
  const auto traces = traces_of(schedule_of(recipe), 60, 0);
  const auto good = to_json(*pipeline_record(recipe, traces, 60, traces));
  const auto wrong = [&](const std::string& where, const nlohmann::ordered_json& value) {
    auto json = good;
    json[nlohmann::ordered_json::json_pointer(where)] = value;
    write("a/pipeline.json", json.dump());
    return complaint({dir});
  };
  EXPECT_TRUE(has(wrong("/schedule", 1), "a/pipeline.json: schedule is not a text"));
  EXPECT_TRUE(has(wrong("/stages", "4"), "stages is not a number"));
  EXPECT_TRUE(has(wrong("/stages", 3), "costs is not a list of 3 stages"));
  EXPECT_TRUE(has(wrong("/stash", 1), "stash is neither true nor false"));
  EXPECT_TRUE(has(wrong("/costs/1", 5), "costs holds something that is not an object"));
  EXPECT_TRUE(has(wrong("/costs/1/forward_s", -1), "forward_s is not a time"));
  EXPECT_TRUE(has(wrong("/held/2/inputs", "3"), "inputs is not a number"));
  EXPECT_TRUE(has(wrong("/planned", 1), "planned is not an object"));
  EXPECT_TRUE(has(wrong("/planned/stages/0", 1), "planned: a stage is not a list of blocks"));
  EXPECT_TRUE(has(wrong("/recorded/stages/0/0", {"X", 1, 0, 1}), "recorded: holds something that is not [\"F\""));
  EXPECT_TRUE(has(wrong("/recorded/stages/0/0/3", -1), "recorded: a block is from"));
  EXPECT_TRUE(has(wrong("/recorded/stages/0/0/1", -1), "recorded: a block is of batch -1, wanted 0 to"));
  EXPECT_TRUE(has(wrong("/recorded/stages/0/0/1", UINT64_MAX), "recorded: a block is of batch"));
  EXPECT_TRUE(has(wrong("/sync", 1), "sync is not an object"));
  for (const int64_t steps : {int64_t{0}, int64_t{500'000'000'000'000}})
    EXPECT_TRUE(has(wrong("/sync/steps", steps), "sync: steps and microbatches must be at least 1"));
  EXPECT_TRUE(has(wrong("/sync/costs", 1), "sync: costs is not a list of 4 stages"));
  write("a/pipeline.json", "[]");
  EXPECT_TRUE(has(complaint({dir}), "a/pipeline.json: not a JSON object"));
}

TEST_F(Report, ReadsARun) {
  const auto runs =
      read_runs({run("a", "co2", R"(,"parameters":857216,"entropy":1.5,"machine":{"cores":2,"cpu":"X"})")});
  ASSERT_EQ(1u, runs.size());
  EXPECT_EQ("co2", runs[0].label);
  EXPECT_EQ(20u, runs[0].steps.size());
  EXPECT_EQ(857216, runs[0].parameters);
  EXPECT_EQ(1.5, runs[0].entropy);
  EXPECT_EQ(2, runs[0].cores);
  EXPECT_DOUBLE_EQ(0.5, runs[0].evals[0].seconds);  // of its step, for the line does not say
  EXPECT_DOUBLE_EQ(5000, runs[0].evals[0].wire_bytes);
}

TEST_F(Report, AnUnfinishedRunIsShownAsFarAsItGot) {
  unfinished("a", "co2", 7);
  std::ofstream(home_ / "a/metrics.jsonl", std::ios::app) << R"({"event":"step","st)";  // killed while it wrote
  const auto runs = read_runs({home_ / "a"});
  EXPECT_FALSE(runs[0].result.finished);
  EXPECT_EQ(7, runs[0].result.steps);
  EXPECT_EQ(7 * 2 * 4 * 16, runs[0].result.tokens);
  EXPECT_DOUBLE_EQ(5.5 / 5, runs[0].result.val_loss);
  EXPECT_TRUE(has(html({home_ / "a"}), "unfinished"));
}

TEST_F(Report, ARunWithoutASingleStepHasAPageToo) {
  unfinished("a", "co2", 0);
  EXPECT_TRUE(has(html({home_ / "a"}), "</html>"));
}

TEST_F(Report, AComparisonGivesItsRunsInTheirOrder) {
  for (const char* name : {"all_reduce", "co2", "diloco"}) run(std::string("c/") + name, name);
  write("c/results.jsonl", "{\"strategy\":\"diloco\"}\n{\"strategy\":\"all_reduce\"}\n");
  std::vector<std::string> labels;
  for (const auto& each : read_runs({home_ / "c"})) labels.push_back(each.label);
  EXPECT_EQ((std::vector<std::string>{"diloco", "all_reduce", "co2"}), labels);
}

TEST_F(Report, LabelsAreDirectoriesWhereStrategiesRepeat) {
  const auto runs = read_runs({run("x", "co2"), run("y", "co2"), run("z", "diloco"), run("deep/z", "co2")});
  EXPECT_EQ("x", runs[0].label);
  EXPECT_EQ("y", runs[1].label);
  EXPECT_EQ("diloco", runs[2].label);
  EXPECT_EQ("z", runs[3].label);
}

TEST_F(Report, ComplaintsNameTheFile) {
  EXPECT_EQ("there is no " + (home_ / "none").string(), complaint({home_ / "none"}));
  fs::create_directories(home_ / "empty");
  EXPECT_TRUE(has(complaint({home_ / "empty"}), "empty holds no run"));
  run("a", "co2");
  write("a/metrics.jsonl", "{\"event\":\"step\"}\n{\"event\":\n{\"event\":\"step\"}\n");
  EXPECT_TRUE(has(complaint({home_ / "a"}), "a/metrics.jsonl:2: not a JSON object"));
  write("a/metrics.jsonl", "{\"event\":\"step\",\"step\":1,\"loss\":\"low\"}\n");
  EXPECT_TRUE(has(complaint({home_ / "a"}), "a/metrics.jsonl:1: loss is not a number"));
  fs::remove(home_ / "a/metrics.jsonl");
  EXPECT_TRUE(has(complaint({home_ / "a"}), "a/metrics.jsonl cannot be read"));
  run("b", "co2");
  write("b/result.json", "{");
  EXPECT_TRUE(has(complaint({home_ / "b"}), "b/result.json: not a JSON object"));
  run("d", "co2");
  write("d/timeline.json", R"({"ranks":[{"steps":[[1,0]]}]})");
  EXPECT_TRUE(has(complaint({home_ / "d"}), "d/timeline.json: steps ends before it begins"));
  write("d/timeline.json", R"({"ranks":[{"steps":[["x",0]]}]})");
  EXPECT_TRUE(has(complaint({home_ / "d"}), "d/timeline.json: steps holds something"));
}

TEST_F(Report, NothingFromAFileGetsThroughAsHtml) {
  run("a<i>", "<script>alert(1)</script>", R"(,"command":"<b>&","machine":{"cores":2,"cpu":"<u>"})");
  write("a<i>/timeline.json", R"({"ranks":[{"steps":[[0,1]],"waits":[],"transfers":[[0,1,5]]}]})");
  const std::string page = html({home_ / "a<i>"});
  for (const char* bad : {"<script>alert", "<b>&", "<u>", "<i>"}) EXPECT_FALSE(has(page, bad)) << bad;
  EXPECT_TRUE(has(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
}

TEST_F(Report, DrawsTheFloorOnlyWhereItIsKnown) {
  EXPECT_TRUE(has(html({run("a", "co2", R"(,"entropy":1.1)")}), "class=\"floor\""));
  EXPECT_FALSE(has(html({run("b", "co2")}), "class=\"floor\""));
}

TEST_F(Report, LeavesTheTimelineOutWhereThereIsNone) {
  const auto dir = run("a", "co2");
  EXPECT_FALSE(has(html({dir}), "id=\"timeline\""));
  write("a/timeline.json",
        R"({"from_step":1,"to_step":2,"ranks":[{"steps":[[0,1]],"waits":[[0.5,1]],"transfers":[[0.4,1,5]]}]})");
  EXPECT_TRUE(has(html({dir}), "id=\"timeline\""));
}

TEST_F(Report, TheHeadlineSaysWhoIsBestAndWhoWaited) {
  run("all_reduce", "all_reduce");
  run("co2", "co2");
  write("co2/result.json", R"({"event":"done","steps":20,"val_loss":1.125,"utilisation":1.0,"seconds":1})");
  const auto headline = headline_html(read_runs({home_}));
  EXPECT_TRUE(has(headline.title, "After the same 20 steps")) << headline.title;
  EXPECT_TRUE(has(headline.title,
                  "<strong>co2</strong> reached the lowest held-out loss: <strong>1.125</strong>, against 1.250"));
  EXPECT_TRUE(has(headline.lede, "22\u00a0% of all_reduce’s time and 0\u00a0% of co2’s")) << headline.lede;
}

TEST_F(Report, BytesAreOnALogAxisOnlyWhereRunsAreFarApart) {
  auto runs = read_runs({run("a", "co2"), run("b", "all_reduce")});
  EXPECT_FALSE(loss_chart(runs, Over::bytes).x_log);
  runs[1].result.wire_bytes *= 100;
  EXPECT_TRUE(loss_chart(runs, Over::bytes).x_log);
}

TEST_F(Report, ReplacesTheOldPageWhole) {
  const auto dir = run("a", "co2");
  write("a/report.html", "old");
  report::write(dir / "report.html", {dir});
  std::stringstream text;
  text << std::ifstream(dir / "report.html").rdbuf();
  EXPECT_EQ(html({dir}), text.str());
  for (const auto& entry : fs::directory_iterator(dir)) EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

}  // namespace
}  // namespace thinwire::report
