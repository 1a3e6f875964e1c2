#include "cli/show.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "thinwire/base/clock.h"
#include "thinwire/train/metrics.h"
#include "thinwire/train/pipeline_record.h"

namespace thinwire::cli {
namespace {

int terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool terminal_is_dumb() {
  const char* name = std::getenv("TERM");
  return name && std::string_view(name) == "dumb";
}

std::string link_text(const net::Link& link) { return link.none() ? "no emulated link" : to_text(link); }

// "4 replicas over 100mbit/20ms"
std::string who_text(const train::Recipe& r) {
  const int64_t replicas = r.workers.replicas, stages = r.workers.stages;
  std::string text = fmt::format("{} replica{}", replicas, replicas == 1 ? "" : "s");
  if (stages == 1) return text + " over " + link_text(r.link.replicas);
  text += fmt::format(" of {} stages over ", stages);
  if (r.link.stages.none() && (replicas == 1 || r.link.replicas.none())) return text + "no emulated link";
  if (replicas > 1) text += link_text(r.link.replicas) + " and ";
  return text + link_text(r.link.stages) + " between stages";
}

class Console final : public train::Observer {
 public:
  explicit Console(bool schedule) : schedule_(schedule) {}
  ~Console() override {  // also while an error is on its way: whatever stdout does, that one is told
    try {
      clear();
    } catch (const std::exception&) {
    }
    std::fflush(stdout);
  }

  void started(const train::Recipe& recipe, const train::Start& start) override {
    recipe_ = recipe;
    planned_ = start.planned_steps;
    say(headline(recipe, start.parameters));
    for (const auto& note : start.notes) say("  " + note);
    if (!start.warm_start.empty())
      say(fmt::format("  begins after step {}, with {}", start.from_step, start.warm_start.string()));
    else if (start.from_step > 0)
      say(fmt::format("  resumed after step {}", start.from_step));
    if (schedule_ && (start.from_step == 0 || !start.warm_start.empty())) draw_schedule();
    begun_ = Clock::now();
  }

  void progressed(const train::Progress& p) override {
    if (!first_share_) first_share_ = p.share;
    last_ = p;
    const double pause = live_ ? 0.1 : 5;
    if (said_ && seconds_since(*said_) < pause && p.share < 1) return;
    said_ = Clock::now();
    if (live_)
      draw(line(p));
    else
      say(line(p));
  }

  void warned(const std::string& what) override { say("  warning: " + what); }

  void evaluated(const train::Evaluation& e) override {
    std::string text = fmt::format("  step {:>6}  held-out loss {:.4f}  consensus distance {:.1e}", e.step, e.val_loss,
                                   e.consensus_distance);
    if (e.prediction_error) text += fmt::format("  prediction error {:.2f}", *e.prediction_error);
    say(text);
    if (live_ && first_share_ && last_.share < 1) draw(line(last_));
  }

 private:
  void draw_schedule() {
    const int64_t width = stdout_is_terminal() ? terminal_width() : 100;
    if (recipe_.workers.stages == 1 || recipe_.workers.stages > 16 || width < 60) return;
    std::stringstream lines(train::schedule_text(recipe_, static_cast<int>(std::min<int64_t>(width, 100) - 2)));
    for (std::string text; std::getline(lines, text);) say("  " + text);
  }

  std::string line(const train::Progress& p) const {
    const std::string steps = planned_ > 0 ? fmt::format("{}/{}", p.step, planned_) : fmt::format("{}", p.step);
    const double busy = p.compute_s + p.exposed_s;
    std::string text = fmt::format("  step {:>6}  loss {:.4f}  {:>6} tokens/s  util {:>3.0f} %  wire {:>8}", steps,
                                   p.loss, count_text(static_cast<double>(p.tokens) / std::max(p.seconds, 1e-9)),
                                   busy > 0 ? 100 * p.compute_s / busy : 100, megabytes_text(p.wire_bytes));
    const double done = p.share - *first_share_;
    if (done > 0 && p.share < 1) text += "  ETA " + clock_text(seconds_since(begun_) / done * (1 - p.share));
    return text;
  }

  void draw(std::string text) {
    text.resize(std::min(text.size(), static_cast<size_t>(terminal_width() - 1)));
    if (text == drawn_) return;
    fmt::print("\r{}\x1b[K", text);
    std::fflush(stdout);
    drawn_ = std::move(text);
  }
  void clear() {
    if (!drawn_.empty()) fmt::print("\r\x1b[K");
    drawn_.clear();
  }
  void say(const std::string& text) {
    clear();
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }

  const bool schedule_;
  const bool live_ = stdout_is_terminal() && !terminal_is_dumb();
  train::Recipe recipe_;
  train::Progress last_;
  int64_t planned_ = 0;
  Clock::time_point begun_;
  std::optional<Clock::time_point> said_;
  std::optional<double> first_share_;
  std::string drawn_;  // the live line as it stands there
};

class JsonLines final : public train::Observer {
 public:
  JsonLines(std::string strategy, std::string schedule)
      : strategy_(std::move(strategy)), schedule_(std::move(schedule)) {}
  void started(const train::Recipe& recipe, const train::Start& start) override {
    nlohmann::ordered_json line = {{"event", "start"},
                                   {"parameters", start.parameters},
                                   {"replicas", recipe.workers.replicas},
                                   {"link", to_text(recipe.link.replicas)}};
    if (recipe.workers.stages > 1) {
      line["stages"] = recipe.workers.stages;
      line["stage_link"] = to_text(recipe.link.stages);
    }
    line["from_step"] = start.from_step;
    line["planned_steps"] = start.planned_steps;
    line["notes"] = start.notes;
    print(std::move(line));
  }
  void progressed(const train::Progress& p) override { print(to_json(p)); }
  void evaluated(const train::Evaluation& e) override { print(to_json(e)); }
  void warned(const std::string& what) override { print({{"event", "warning"}, {"text", what}}); }
  void saved(int64_t step) override { print({{"event", "saved"}, {"step", step}}); }

 private:
  void print(nlohmann::ordered_json line) {
    line["strategy"] = strategy_;
    if (!schedule_.empty()) line["schedule"] = schedule_;
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
  }
  std::string strategy_, schedule_;
};

}  // namespace

std::string count_text(double n) {
  if (n < 1000) return fmt::format("{:.0f}", n);
  if (n < 1e6) return fmt::format("{:.1f}k", n / 1e3);
  if (n < 1e9) return fmt::format("{:.2f}M", n / 1e6);
  return fmt::format("{:.2f}G", n / 1e9);
}

std::string megabytes_text(double bytes) {
  const double mb = bytes / 1e6;
  return fmt::format("{:.{}f} MB", mb, mb < 1 ? 2 : mb < 100 ? 1 : 0);
}

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string headline(const train::Recipe& r, int64_t parameters) {
  return fmt::format("{}: {} of {} parameters, {}, {} tokens a step{}", r.strategy.name, r.model.name,
                     count_text(static_cast<double>(parameters)), who_text(r), r.tokens_per_step(),
                     dp::traits_of(r.strategy).owns_rule ? "" : fmt::format(", {} inside", r.optim.name));
}

std::string comparison_table(const char* what, const std::string& base, const std::vector<std::string>& names,
                             const std::vector<train::Result>& results, bool colour) {
  double best = INFINITY, base_loss = NAN;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!results[i].finished) continue;
    if (names[i] == base) base_loss = results[i].val_loss;
    best = std::min(best, results[i].val_loss);
  }
  std::vector<std::vector<std::string>> rows = {
      {what, "loss", "gap to " + base, "steps", "seconds", "tokens/s", "utilisation", "exposed s", "wire"}};
  for (size_t i = 0; i < names.size(); ++i) {
    const train::Result& r = results[i];
    if (!r.finished) {
      rows.push_back({names[i], std::isnan(r.val_loss) ? "failed" : "-", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    std::string utilisation = fmt::format("{:.0f} %", 100 * r.utilisation);
    if (r.sync && r.sync->utilisation_after)
      utilisation = fmt::format("{:.0f}, then {:.0f} %", 100 * r.sync->utilisation, 100 * *r.sync->utilisation_after);
    rows.push_back({names[i], fmt::format("{:.4f}", r.val_loss),
                    std::isnan(base_loss) ? "-" : fmt::format("{:+.4f}", r.val_loss - base_loss),
                    fmt::format("{}", r.steps), fmt::format("{:.1f}", r.seconds), count_text(r.tokens_per_s),
                    utilisation, fmt::format("{:.1f}", r.exposed_s), megabytes_text(r.wire_bytes)});
  }
  std::vector<size_t> width(rows[0].size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < rows[r].size(); ++c)
      line += c == 0 ? fmt::format("{:<{}}", rows[r][c], width[c]) : fmt::format("  {:>{}}", rows[r][c], width[c]);
    const bool winner = r > 0 && results[r - 1].finished && results[r - 1].val_loss == best;
    if (colour && r == 0) line = "\x1b[1m" + line + "\x1b[0m";
    if (colour && winner) line = "\x1b[32m" + line + "\x1b[0m";
    out += line + "\n";
  }
  return out;
}

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) != 0; }

bool wants_colour() {
  const char* no = std::getenv("NO_COLOR");
  return stdout_is_terminal() && (!no || !*no);
}

std::unique_ptr<train::Observer> console(bool schedule) { return std::make_unique<Console>(schedule); }
std::unique_ptr<train::Observer> json_lines(std::string strategy, std::string schedule) {
  return std::make_unique<JsonLines>(std::move(strategy), std::move(schedule));
}

}  // namespace thinwire::cli
