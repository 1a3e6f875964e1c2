#include "thinwire/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "thinwire/base/atomic_file.h"
#include "thinwire/base/version.h"
#include "thinwire/report/bars.h"
#include "thinwire/report/curves.h"
#include "thinwire/report/page.h"
#include "thinwire/report/pipeline.h"
#include "thinwire/report/prose.h"
#include "thinwire/report/text.h"
#include "thinwire/report/timeline.h"
#include "thinwire/train/run_record.h"

namespace thinwire::report {
namespace fs = std::filesystem;
namespace {

using Runs = std::vector<train::RunRecord>;

// Whether a run has stages but no other replica to send to.
bool alone(const train::RunRecord& run) { return run.stages > 1 && run.replicas == 1; }

// Whether there is a run whose ranks are stages of replicas.
bool staged(const Runs& runs) {
  return std::ranges::any_of(runs, [](const train::RunRecord& run) { return run.stages > 1; });
}

constexpr double kFull = 1040, kMiddle = 690, kHalf = 506, kPhone = 343;  // pixels at which text has the page's size

// The same picture for several widths of the page; the style sheet shows one of them.
struct Sizes {
  Size wide, narrow;
  std::optional<Size> middle = {};  // unset: as narrow
};

template <class Draw>
std::string pictures(const Sizes& sizes, Draw&& draw) {
  std::string out = fmt::format("<div class=\"wide\">{}</div>\n", draw(sizes.wide));
  if (sizes.middle) out += fmt::format("<div class=\"middle\">{}</div>\n", draw(*sizes.middle));
  return out + fmt::format("<div class=\"{}narrow\">{}</div>\n", sizes.middle ? "" : "middle ", draw(sizes.narrow));
}

Sizes whole_width(double wide_height, double narrow_height) {
  return {{kFull, wide_height}, {kPhone, narrow_height}, Size{kMiddle, std::min(wide_height, 340.0)}};
}
constexpr Sizes kHalfWidth = {{kHalf, 340}, {kPhone, 290}};

std::string figure(const Chart& chart, const std::string& heading, const std::string& caption, const Sizes& sizes) {
  return fmt::format("<figure id=\"{}\">\n<h3>{}</h3>\n{}<figcaption>{}</figcaption>\n</figure>\n", chart.id, heading,
                     pictures(sizes, [&](Size size) { return chart_svg(chart, size); }), caption);
}

std::string line_key(size_t run, const std::string& label) {
  return fmt::format(
      R"(<svg class="key" viewBox="0 0 26 10"><title>{}</title><line class="line s{}" x1="0" x2="26" y1="5" y2="5"/></svg>)",
      escaped(label), run % kLooks);
}

std::string legend(const Runs& runs) {
  std::string out = "<ul class=\"legend\">\n";
  for (size_t i = 0; i < runs.size(); ++i)
    out += fmt::format("<li>{}{}</li>\n", line_key(i, runs[i].label), escaped(runs[i].label));
  return out + "</ul>\n";
}

std::string time_legend(bool wire, bool other) {
  auto item = [](const char* kind, const char* more, const char* name) {
    return fmt::format(
        R"(<li><span class="swatch{}"><svg viewBox="0 0 18 11" preserveAspectRatio="none"><title>{}</title>)"
        R"(<rect class="{}" width="18" height="11"/></svg></span>{}</li>)",
        more, name, kind, name);
  };
  return "<ul class=\"legend\">" + item("compute", "", "computing") + item("wait", "", "waiting for the wire") +
         (wire ? item("wire", " thin", "on the wire") : "") + (other ? item("other", "", "other") : "") + "</ul>\n";
}

std::string cell(const char* name, const std::string& value, const std::string& kind = "") {
  return fmt::format("<td data-name=\"{}\"{}>{}</td>", name, kind.empty() ? "" : fmt::format(" class=\"{}\"", kind),
                     value);
}

std::string table(const Runs& runs) {
  const train::RunRecord* base = nullptr;
  double best = INFINITY;
  for (const auto& run : runs) {
    if (run.result.strategy == "all_reduce" && !base) base = &run;
    if (run.result.val_loss < best) best = run.result.val_loss;
  }
  std::string out =
      "<table id=\"results\">\n<thead><tr><th>strategy</th><th>held-out loss<small>nats a token</small></th>";
  if (base && runs.size() > 1)
    out += fmt::format("<th>gap to {}<small>nats a token</small></th>", escaped(base->label));
  out +=
      "<th>steps</th><th>time<small>s</small></th>"
      "<th>tokens/s</th><th>utilisation<small>time computing</small></th><th>exposed<small>s waiting</small></th>"
      "<th>wire<small>MB sent</small></th>";
  if (staged(runs)) out += "<th>between stages<small>MB sent</small></th>";
  out += "<th>weights<small>hash</small></th></tr></thead>\n<tbody>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    const train::Result& r = runs[i].result;
    const double gap = base ? r.val_loss - base->result.val_loss : NAN;
    out += "<tr>" + cell("strategy", line_key(i, runs[i].label) + escaped(runs[i].label) +
                                         (r.finished ? "" : "&nbsp;<span class=\"state\">unfinished</span>"));
    out += cell("held-out loss", fixed_text(r.val_loss, 4), r.val_loss == best && runs.size() > 1 ? "best" : "");
    if (base && runs.size() > 1)
      out += cell(fmt::format("gap to {}", escaped(base->label)).c_str(), signed_text(gap, 4));
    out += cell("steps", fmt::format("{}", r.steps)) + cell("time, s", fixed_text(r.seconds, 1));
    out += cell("tokens/s", short_count(r.tokens_per_s)) + cell("utilisation", percent_text(r.utilisation));
    out += cell("exposed, s", fixed_text(r.exposed_s, 1));
    const auto megabytes = [](double bytes) { return fixed_text(bytes / 1e6, bytes < 1e6 ? 3 : 1); };
    out += cell("wire, MB", megabytes(r.wire_bytes));
    if (staged(runs)) out += cell("stages, MB", megabytes(r.stage_bytes.value_or(NAN)));
    out += cell("weights", r.weights_hash.empty() ? "–" : escaped(r.weights_hash.substr(0, 8)), "hash") + "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

std::string results_section(const Runs& runs) {
  const std::string who = staged(runs) ? "a stage computed and did not wait; wire is what one stage sent to other "
                                         "replicas, between stages what it sent to its neighbours."
                                       : "a replica computed and did not wait; wire is what one replica sent.";
  return "<section>\n<h2>What came out</h2>\n<p class=\"note\">The held-out loss is measured on text the model was not "
         "trained on: lower is better. Utilisation is the share of the time in which " +
         who + " Runs with equal weights have equal hashes.</p>\n" + table(runs) + "</section>\n";
}

std::string curves_section(const Runs& runs) {
  Chart bytes = loss_chart(runs, Over::bytes);
  if (staged(runs)) bytes.x_name = "sent by a stage to other replicas";
  std::string out =
      "<section>\n<h2>How the loss fell</h2>\n<p class=\"note\">Lines are the training loss, smoothed: each "
      "point is the mean over a twentieth of the run (at least five steps). Circles are the held-out loss.";
  if (bytes.floor) out += " The dashed line is the entropy of the data: no model can do better on average.";
  if (bytes.y_top) out += " The steep beginning is cut off at the top.";
  out += "</p>\n" + legend(runs);
  out += figure(loss_chart(runs, Over::seconds), "Over time",
                "What counts for you: how good it is after how long, waiting included.", whole_width(400, 290));
  const auto steps = [&](const Sizes& sizes) {
    return figure(loss_chart(runs, Over::steps), "Over steps", "What a step is worth, however long it takes.", sizes);
  };
  if (std::ranges::all_of(runs, alone)) return out + steps(whole_width(320, 290)) + "</section>\n";
  out += "<div class=\"pair\">\n" + steps(kHalfWidth);
  out +=
      figure(bytes, "Over bytes sent",
             bytes.x_log ? "What a byte is worth. The axis is logarithmic: each mark is a multiple of the one before."
                         : "What a byte on the wire is worth.",
             kHalfWidth);
  return out + "</div>\n</section>\n";
}

std::string pipeline_section(const Runs& runs) {
  std::string pictured, schedules;
  bool weights = false;
  for (const auto& run : runs) {
    if (!run.pipeline) continue;
    const train::PipelineRecord& pipeline = *run.pipeline;
    weights |= has_weights(pipeline);
    if (const auto words = schedule_html(pipeline); schedules.find(words) == std::string::npos)
      schedules += " " + words;
    const double height = pipeline_height(pipeline);
    const auto draw = [&](const train::PipelinePicture& planned, const train::PipelinePicture& recorded,
                          const std::string& title) {
      const double seconds = std::max(planned.seconds, recorded.seconds);
      for (const auto& [name, picture] : {std::pair{"Planned", &planned}, {"As it was", &recorded}}) {
        const auto* drawn = picture;  // a plain name: clang 14 captures no bindings
        const std::string said = fmt::format("{}: {}", name, time_text(picture->seconds));
        pictured +=
            fmt::format("<p class=\"which\">{}</p>\n{}", said, pictures(whole_width(height, height), [&](Size size) {
                          return pipeline_svg(pipeline, *drawn, title + ", " + said, seconds, size);
                        }));
      }
    };
    pictured += fmt::format("<figure>\n<h3>{}</h3>\n", escaped(run.label));
    if (pipeline.sync) {
      pictured += fmt::format("<p>{}</p>\n", change_html(run));
      draw(pipeline.sync->planned, pipeline.sync->recorded, "Change of schedule of " + run.label);
    }
    pictured += fmt::format("<p>{}</p>\n", pipeline_html(run));
    draw(pipeline.planned, pipeline.recorded, "Pipeline of " + run.label);
    pictured += "</figure>\n";
  }
  if (pictured.empty()) return "";
  return "<section id=\"pipeline\">\n<h2>The pipeline, planned and as it was</h2>\n<p class=\"note\">A row is a stage "
         "of "
         "the first replica, a block its work on the minibatch with that number (or on the microbatch of a step). In "
         "the "
         "plan every operation takes the median of the times measured, and nothing is in a transfer’s way; below it is "
         "what happened in the same steps, to the same scale." +
         schedules + "</p>\n" + pipeline_legend(weights) + pictured + "</section>\n";
}

std::string timeline_section(const Runs& runs) {
  std::vector<const train::TimelineRecord*> timelines;
  for (const auto& run : runs)
    if (run.timeline) timelines.push_back(&*run.timeline);
  if (timelines.empty()) return "";
  const double seconds = common_seconds(timelines);
  std::string out =
      fmt::format(
          "<section id=\"timeline\">\n<h2>A few rounds, seen closely</h2>\n<p class=\"note\">The last moments of "
          "each run, all to one scale. The upper lane of a {0} is what it does, the lower one what it has on "
          "the wire{1}: where both are filled the transfer costs nothing, where the upper one is hatched the "
          "{0} stands still. Where it is empty it did neither: the run was "
          "being evaluated or saved, or the {0} had no processor to itself.</p>\n",
          staged(runs) ? "stage" : "replica", staged(runs) ? " to other replicas" : "") +
      time_legend(!std::ranges::all_of(runs, alone), false);
  for (const auto& run : runs) {
    if (!run.timeline) continue;
    const auto& timeline = *run.timeline;
    const TimelineSummary sum = summary(timeline, seconds);
    std::string said =
        fmt::format("{:.0f} step{} in {}; {} of the time waiting.", sum.steps, std::llround(sum.steps) == 1 ? "" : "s",
                    time_text(std::min(seconds, timeline.seconds())), percent_text(sum.waiting));
    if (!alone(run))
      said += fmt::format(" The wire is busy for {} of it{}.", percent_text(sum.wire),
                          sum.wire > 0 ? fmt::format(", {} of that behind computation", percent_text(sum.hidden)) : "");
    if (timeline.ranks.size() > 4)
      said += fmt::format(" 4 of {} {} are drawn.", timeline.ranks.size(), run.stages > 1 ? "stages" : "replicas");
    const double height = timeline_height(timeline);
    out += fmt::format("<figure>\n<div class=\"lane-head\"><h3>{}</h3><p class=\"note\">{}</p></div>\n{}</figure>\n",
                       escaped(run.label), said, pictures(whole_width(height, height), [&](Size size) {
                         return timeline_svg(timeline, "Timeline of " + run.label + ": " + said, seconds, size);
                       }));
  }
  return out + "</section>\n";
}

std::string time_section(const Runs& runs) {
  std::vector<TimeBar> bars;
  bool other = false;
  for (const auto& run : runs) {
    const train::Result& r = run.result;
    if (!(r.seconds > 0) || !std::isfinite(r.compute_s + r.exposed_s)) continue;
    bars.push_back({run.label, r.compute_s, r.exposed_s, std::max(0.0, r.seconds - r.compute_s - r.exposed_s)});
    other |= bars.back().other_s > 0.005 * r.seconds;
  }
  if (bars.empty()) return "";
  const double height = bars_height(bars.size());
  return "<section id=\"time\">\n<h2>Where the time went</h2>\n<p class=\"note\">Mean over the " +
         std::string(staged(runs) ? "stages and " : "") + "replicas, training steps only.</p>\n" +
         time_legend(false, other) + "<figure>\n" +
         pictures(whole_width(height, height),
                  [&](Size size) { return bars_svg(bars, "Computing, waiting and other time of each run", size); }) +
         "</figure>\n</section>\n";
}

std::string distance_section(const Runs& runs) {
  const auto chart = distance_chart(runs);
  if (!chart) return "";
  return "<section>\n<h2>How far the replicas drift apart</h2>\n<p class=\"note\">Between two exchanges every replica "
         "goes "
         "its own way. The consensus distance is the mean squared distance of their weights from the average of all, "
         "divided by the squared length of that average: 0 means they are equal, 0.0001 that they are about 1 % apart."
         "</p>\n" +
         figure(*chart, "Over steps",
                "Measured at each evaluation under way: where in a round that falls decides how high the point lies.",
                whole_width(320, 290)) +
         "</section>\n";
}

std::string words_section(const Runs& runs) {
  std::string out;
  std::vector<std::string> said;
  for (const auto& run : runs) {
    const std::string words = strategy_html(run), &name = run.result.strategy;
    if (words.empty() || std::ranges::find(said, name) != said.end()) continue;
    said.push_back(name);
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), words);
  }
  if (out.empty()) return "";
  return "<section>\n<h2>What the strategies do</h2>\n<p class=\"note\">Several copies of a model, the replicas, train "
         "on "
         "different parts of the data. A strategy decides what they send each other, when, and whether a replica waits "
         "for "
         "it.</p>\n<dl class=\"words\">\n" +
         out + "</dl>\n</section>\n";
}

std::string again_section(const Runs& runs) {
  std::string commands;
  std::vector<std::string> said;
  for (const auto& run : runs) {
    const std::string command =
        run.command.empty() ? "thinwire train " + (run.dir / "recipe.toml").string() : run.command;
    if (std::ranges::find(said, command) != said.end()) continue;
    said.push_back(command);
    commands += escaped(command) + "\n";
  }
  std::string out = "<section id=\"again\">\n<h2>Do it again</h2>\n<pre><code>" + commands + "</code></pre>\n";
  out +=
      "<p class=\"note\">Delays are numbers in the recipe, never accidents of timing: the same recipe and the same "
      "number of steps give the same weights, bit for bit, on the same kind of CPU. Each recipe, complete:</p>\n";
  for (const auto& run : runs)
    out += fmt::format("<details><summary>recipe of {}</summary><pre><code>{}</code></pre></details>\n",
                       escaped(run.label), escaped(run.recipe_toml));
  return out + "</section>\n";
}

}  // namespace

std::string html(const std::vector<fs::path>& dirs, const Options& options) {
  const Runs runs = train::read_runs(dirs);
  const Headline headline = headline_html(runs);
  std::string body = fmt::format(
      "<header>\n<p class=\"eyebrow\"><b>thinwire</b> · training over slow links</p>\n<h1>{}</h1>\n", headline.title);
  if (!headline.lede.empty()) body += fmt::format("<p class=\"lede\">{}</p>\n", headline.lede);
  body += fmt::format("<dl class=\"facts\">\n{}</dl>\n</header>\n", facts_html(runs));
  body += results_section(runs) + curves_section(runs) + pipeline_section(runs) + timeline_section(runs) +
          time_section(runs) + distance_section(runs) + words_section(runs) + again_section(runs);
  body += fmt::format(
      "<footer>Made by thinwire {} from {} run{}. Nothing on this page is loaded from elsewhere.</footer>\n",
      thinwire::version(), runs.size(), runs.size() == 1 ? "" : "s");
  return page_html(options.title, body);
}

void write(const fs::path& path, const std::vector<fs::path>& runs, const Options& options) {
  write_file(path, {html(runs, options)});
}

}  // namespace thinwire::report
