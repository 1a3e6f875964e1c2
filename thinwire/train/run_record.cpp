#include "thinwire/train/run_record.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"
#include "thinwire/train/json_fields.h"

namespace thinwire::train {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

std::string read_text(const fs::path& path) {
  try {
    return read_file_in(path.parent_path(), path.filename().string());
  } catch (const Unreadable& error) {
    throw BadInput("{} cannot be read: {}", path.string(), error.reason);
  }
}

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// f(object, "file:line") for every line of a file of JSON lines; half a line at its very end is left out.
template <class F>
void for_lines(const fs::path& path, F&& f) {
  const std::string text = read_text(path);
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at), place = fmt::format("{}:{}", path.string(), ++number);
    if (end == std::string::npos && !Json::accept(line)) return;
    if (!line.empty()) f(parse_object(line, place), place);
    at = end == std::string::npos ? text.size() : end + 1;
  }
}

// A number of ranks in a recipe that nobody has checked; 0 if it is none.
int64_t count_in(const RunRecord& run, const char* section, const char* key) {
  const double count = run.number(section, key);
  return count >= 1 && count <= 1e6 ? static_cast<int64_t>(count) : 0;
}

void read_metrics(RunRecord& run) {
  for_lines(run.dir / "metrics.jsonl", [&](const Json& json, const std::string& place) {
    const std::string event = text_of(json, "event", place);
    auto number = [&](const char* key) { return number_of(json, key, place); };
    const int64_t step = whole_of(json, "step", place);
    if (event == "step")
      run.steps.push_back(
          {step, number("loss"), number("seconds"), number("compute_s"), number("exposed_s"), number("wire_bytes")});
    if (event == "eval")
      run.evals.push_back({step, number("val_loss"), number("consensus_distance"), number("seconds"),
                           number("wire_bytes"), json.contains("final")});
  });
  for (auto& eval : run.evals) {
    const auto at = std::ranges::find(run.steps, eval.step, &StepRecord::step);
    if (at == run.steps.end()) continue;
    if (std::isnan(eval.seconds)) eval.seconds = at->seconds;
    if (std::isnan(eval.wire_bytes)) eval.wire_bytes = at->wire_bytes;
  }
}

// An unfinished run got as far as its last step.
void result_so_far(RunRecord& run) {
  Result& r = run.result;
  r.val_loss = r.finish_bytes = r.finish_s = r.setup_bytes = NAN;
  for (const auto& eval : run.evals) r.val_loss = eval.val_loss;
  if (run.steps.empty()) return;
  const StepRecord& last = run.steps.back();
  r.steps = last.step;
  r.seconds = last.seconds;
  r.compute_s = last.compute_s;
  r.exposed_s = last.exposed_s;
  r.wire_bytes = last.wire_bytes;
  const double tokens = static_cast<double>(last.step) * run.number("workers", "replicas") *
                        run.number("train", "batch") * run.number("model", "context");
  r.tokens = std::abs(tokens) < 1e18 ? static_cast<int64_t>(tokens) : 0;
  r.tokens_per_s = static_cast<double>(r.tokens) / r.seconds;
  r.utilisation = r.compute_s / (r.compute_s + r.exposed_s);
}

void read_result(RunRecord& run) {
  const fs::path path = run.dir / "result.json";
  run.result.strategy = run.key("strategy", "name");
  result_so_far(run);
  if (!path_exists(path)) return;
  const std::string place = path.string();
  const Json json = parse_object(read_text(path), place);
  Result& r = run.result;
  r.finished = text_of(json, "event", place) != "stopped";
  r.steps = whole_of(json, "steps", place);
  r.tokens = whole_of(json, "tokens", place);
  for (auto [key, field] : std::map<const char*, double*>{{"val_loss", &r.val_loss},
                                                          {"seconds", &r.seconds},
                                                          {"compute_s", &r.compute_s},
                                                          {"exposed_s", &r.exposed_s},
                                                          {"utilisation", &r.utilisation},
                                                          {"tokens_per_s", &r.tokens_per_s},
                                                          {"wire_bytes", &r.wire_bytes},
                                                          {"setup_bytes", &r.setup_bytes},
                                                          {"finish_bytes", &r.finish_bytes},
                                                          {"finish_s", &r.finish_s}})
    *field = number_of(json, key, place);
  if (const double bytes = number_of(json, "stage_bytes", place); std::isfinite(bytes)) r.stage_bytes = bytes;
  if (const int64_t steps = whole_of(json, "sync_steps", place); steps > 0) {
    r.sync = {.steps = steps,
              .seconds = number_of(json, "sync_seconds", place),
              .utilisation = number_of(json, "sync_utilisation", place)};
    if (const double after = number_of(json, "async_utilisation", place); std::isfinite(after))
      r.sync->utilisation_after = after;
  }
  r.weights_hash = text_of(json, "weights_hash", place);
  run.parameters = whole_of(json, "parameters", place);
  if (const double entropy = number_of(json, "entropy", place); std::isfinite(entropy)) run.entropy = entropy;
  run.link = text_of(json, "link", place);
  run.command = text_of(json, "command", place);
  if (const auto machine = json.find("machine"); machine != json.end() && machine->is_object()) {
    run.cores = whole_of(*machine, "cores", place);
    run.cpu = text_of(*machine, "cpu", place);
  }
}

std::vector<TimelineRecord::Span> spans_of(const Json& rank, const char* key, const std::string& place) {
  std::vector<TimelineRecord::Span> spans;
  const auto list = rank.find(key);
  if (list == rank.end()) return spans;
  for (const auto& item : *list) {
    const bool numbers = item.is_array() && (item.size() == 2 || item.size() == 3) &&
                         std::ranges::all_of(item, [](const Json& value) { return value.is_number(); });
    if (!numbers) throw BadInput("{}: {} holds something that is not [begin, end] or [begin, end, bytes]", place, key);
    spans.push_back({item[0].get<double>(), item[1].get<double>(), item.size() == 3 ? item[2].get<double>() : 0});
    if (!(spans.back().begin <= spans.back().end)) throw BadInput("{}: {} ends before it begins", place, key);
  }
  return spans;
}

void read_timeline(RunRecord& run) {
  const fs::path path = run.dir / "timeline.json";
  if (!path_exists(path)) return;
  const std::string place = path.string();
  const Json json = parse_object(read_text(path), place);
  const auto ranks = json.find("ranks");
  if (ranks == json.end() || !ranks->is_array()) throw BadInput("{}: there is no list of ranks", place);
  TimelineRecord timeline;
  timeline.from_step = whole_of(json, "from_step", place);
  timeline.to_step = whole_of(json, "to_step", place);
  timeline.stages = run.stages;
  for (const auto& rank : *ranks)
    timeline.ranks.push_back(
        {spans_of(rank, "steps", place), spans_of(rank, "waits", place), spans_of(rank, "transfers", place)});
  if (timeline.seconds() > 0) run.timeline = std::move(timeline);
}

void read_pipeline(RunRecord& run) {
  const fs::path path = run.dir / "pipeline.json";
  if (path_exists(path)) run.pipeline = pipeline_of_json(parse_object(read_text(path), path.string()), path.string());
}

RunRecord read_run(const fs::path& dir) {
  RunRecord run;
  run.dir = dir;
  run.recipe_toml = read_text(dir / "recipe.toml");
  run.recipe = parse_recipe(run.recipe_toml, (dir / "recipe.toml").string());
  read_metrics(run);
  read_result(run);
  if (const int64_t stages = count_in(run, "workers", "stages"); stages > 1) {
    run.stages = stages;
    run.stage_link = run.key("link", "stages");
  }
  read_timeline(run);
  read_pipeline(run);
  run.replicas = count_in(run, "workers", "replicas");
  if (run.link.empty()) run.link = run.key("link", "replicas");
  return run;
}

// The runs of a comparison: first those it finished, as they came, then what else is there by name.
std::vector<fs::path> runs_below(const fs::path& dir) {
  std::vector<fs::path> found, ordered;
  for (const auto& entry : fs::directory_iterator(dir))
    if (path_exists(entry.path() / "recipe.toml")) found.push_back(entry.path());
  std::ranges::sort(found);
  if (path_exists(dir / "results.jsonl"))
    for_lines(dir / "results.jsonl", [&](const Json& json, const std::string& place) {
      const std::string schedule = text_of(json, "schedule", place);  // where schedules were compared
      const auto at = std::ranges::find(found, dir / (schedule.empty() ? text_of(json, "strategy", place) : schedule));
      if (at == found.end()) return;
      ordered.push_back(*at);
      found.erase(at);
    });
  ordered.insert(ordered.end(), found.begin(), found.end());
  return ordered;
}

std::string last_name(const fs::path& dir) {
  const fs::path whole = fs::absolute(dir).lexically_normal();
  return (whole.has_filename() ? whole.filename() : whole.parent_path().filename()).string();
}

void label(std::vector<RunRecord>& runs) {
  std::map<std::string, int> strategies, names;
  for (const auto& run : runs) ++strategies[run.result.strategy];
  for (auto& run : runs) {
    run.label = run.result.strategy;
    if (run.label.empty() || strategies[run.result.strategy] > 1) run.label = last_name(run.dir);
  }
  for (const auto& run : runs) ++names[run.label];
  for (auto& run : runs)  // a/co2 and b/co2
    if (names[run.label] > 1) run.label = last_name(fs::absolute(run.dir).lexically_normal() / "..") + "/" + run.label;
}

}  // namespace

double TimelineRecord::seconds() const {
  double last = 0;
  for (const auto& rank : ranks)
    for (const auto* spans : {&rank.steps, &rank.waits, &rank.transfers})
      for (const auto& span : *spans) last = std::max(last, span.end);
  return last;
}

std::string RunRecord::key(const std::string& section, const std::string& name) const {
  const auto table = recipe.sections.find(section);
  if (table == recipe.sections.end()) return "";
  const auto value = table->second.find(name);
  if (value == table->second.end()) return "";
  const auto* text = std::get_if<std::string>(&value->second);
  return text ? *text : toml_text(value->second);
}

double RunRecord::number(const std::string& section, const std::string& name) const {
  const std::string text = key(section, name);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end ? NAN : value;
}

std::vector<RunRecord> read_runs(const std::vector<fs::path>& dirs) {
  std::vector<RunRecord> runs;
  for (const auto& dir : dirs) {
    if (!path_exists(dir)) throw BadInput("there is no {}", dir.string());
    if (!fs::is_directory(dir)) throw BadInput("{} is not a directory of a run", dir.string());
    if (path_exists(dir / "recipe.toml")) {
      runs.push_back(read_run(dir));
      continue;
    }
    const auto below = runs_below(dir);
    if (below.empty())
      throw BadInput("{} holds no run: there is no recipe.toml in it, nor one level below", dir.string());
    for (const auto& run : below) runs.push_back(read_run(run));
  }
  if (runs.empty()) throw BadInput("a report wants at least one run directory");
  label(runs);
  return runs;
}

}  // namespace thinwire::train
