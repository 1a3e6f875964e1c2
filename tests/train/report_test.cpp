#include "thinwire/train/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "thinwire/base/errors.h"
#include "thinwire/train/report_chart.h"
#include "thinwire/train/report_curves.h"
#include "thinwire/train/report_text.h"
#include "thinwire/train/report_timeline.h"
#include "thinwire/train/report_words.h"
#include "thinwire/train/run_record.h"

namespace thinwire::train {
namespace {

namespace fs = std::filesystem;

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
      report_html(dirs);
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
  EXPECT_TRUE(has(report_html({home_ / "a"}), "unfinished"));
}

TEST_F(Report, ARunWithoutASingleStepHasAPageToo) {
  unfinished("a", "co2", 0);
  EXPECT_TRUE(has(report_html({home_ / "a"}), "</html>"));
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
  const std::string html = report_html({home_ / "a<i>"});
  for (const char* bad : {"<script>alert", "<b>&", "<u>", "<i>"}) EXPECT_FALSE(has(html, bad)) << bad;
  EXPECT_TRUE(has(html, "&lt;script&gt;alert(1)&lt;/script&gt;"));
}

TEST_F(Report, DrawsTheFloorOnlyWhereItIsKnown) {
  EXPECT_TRUE(has(report_html({run("a", "co2", R"(,"entropy":1.1)")}), "class=\"floor\""));
  EXPECT_FALSE(has(report_html({run("b", "co2")}), "class=\"floor\""));
}

TEST_F(Report, LeavesTheTimelineOutWhereThereIsNone) {
  const auto dir = run("a", "co2");
  EXPECT_FALSE(has(report_html({dir}), "id=\"timeline\""));
  write("a/timeline.json",
        R"({"from_step":1,"to_step":2,"ranks":[{"steps":[[0,1]],"waits":[[0.5,1]],"transfers":[[0.4,1,5]]}]})");
  EXPECT_TRUE(has(report_html({dir}), "id=\"timeline\""));
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
  write_report(dir / "report.html", {dir});
  std::stringstream text;
  text << std::ifstream(dir / "report.html").rdbuf();
  EXPECT_EQ(report_html({dir}), text.str());
  EXPECT_FALSE(fs::exists(dir / "report.html.tmp"));
}

}  // namespace
}  // namespace thinwire::train
