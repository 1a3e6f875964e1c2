#include "thinwire/report/prose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "thinwire/report/text.h"

namespace thinwire::report {
namespace {

using Runs = std::vector<train::RunRecord>;

std::string strong(const std::string& text) { return "<strong>" + escaped(text) + "</strong>"; }

const train::RunRecord* best_of(const Runs& runs) {
  const train::RunRecord* best = nullptr;
  for (const auto& run : runs)
    if (std::isfinite(run.result.val_loss) && (!best || run.result.val_loss < best->result.val_loss)) best = &run;
  return best;
}

double waiting(const train::RunRecord& run) { return 1 - run.result.utilisation; }

// The number that all runs agree on within `tolerance`, or NaN.
double agreed(const Runs& runs, const std::function<double(const train::RunRecord&)>& f, double tolerance) {
  const double first = f(runs[0]);
  for (const auto& run : runs)
    if (!(std::abs(f(run) - first) <= tolerance * std::abs(first))) return NAN;
  return first;
}

bool no_link(const std::string& link) { return link.empty() || link == "none"; }

// "100 Mbit/s and 20 ms"
std::string link_words(const std::string& text) {
  std::string link = escaped(link_text(text));
  if (const size_t comma = link.find(", ");
      comma != std::string::npos && link.find(',', comma + 1) == std::string::npos)
    link.replace(comma, 2, " and ");
  return link;
}

std::string over(const train::RunRecord& run) {
  const std::string of = run.stages > 1 ? fmt::format(" of {} stages", run.stages) : "";
  const bool slow_stages = run.stages > 1 && !no_link(run.stage_link);
  if (run.replicas == 1)
    return " on one replica" + of + (slow_stages ? " joined by links of " + link_words(run.stage_link) : "");
  const std::string who = (run.replicas > 0 ? fmt::format("{} replicas", run.replicas) : "the replicas") + of;
  const std::string between = slow_stages ? fmt::format(", and of {} between stages", link_words(run.stage_link)) : "";
  if (!no_link(run.link)) return fmt::format(" with {} joined by links of {}{}", who, link_words(run.link), between);
  if (slow_stages)
    return fmt::format(" with {} joined by links of {} between stages alone", who, link_words(run.stage_link));
  return fmt::format(" with {} and no slow link between them", who);
}

Headline one_headline(const train::RunRecord& run) {
  const train::Result& r = run.result;
  std::string text = fmt::format("{} {} {} steps in {}{}", strong(run.label), r.finished ? "did" : "has done", r.steps,
                                 time_text(r.seconds), over(run));
  if (std::isfinite(r.val_loss))
    text += fmt::format(" and reached a held-out loss of <strong>{}</strong>", fixed_text(r.val_loss, 3));
  Headline headline{text + ".", ""};
  if (std::isfinite(r.utilisation) && (run.replicas != 1 || run.stages > 1))
    headline.lede = fmt::format("It spent {} of its time waiting for {}the wire.", percent_text(waiting(run)),
                                run.stages > 1 ? "other stages or " : "");
  if (!r.finished) headline.lede += " The run is not finished: this is how far it got.";
  return headline;
}

Headline several_headline(const Runs& runs) {
  const train::RunRecord* best = best_of(runs);
  if (!best) return {fmt::format("{} runs, none of them evaluated yet.", runs.size()), ""};
  const double seconds = agreed(
      runs, [](const train::RunRecord& r) { return r.number("train", "seconds"); }, 0);
  const double steps = agreed(
      runs, [](const train::RunRecord& r) { return static_cast<double>(r.result.steps); }, 0);
  const std::string when = seconds > 0  ? fmt::format("In the same {:g} seconds", seconds)
                           : steps >= 0 ? fmt::format("After the same {:.0f} steps", steps)
                                        : "Of these runs";
  const bool alike = std::ranges::all_of(runs, [&](const train::RunRecord& run) {
    return run.link == best->link && run.replicas == best->replicas && run.stages == best->stages &&
           run.stage_link == best->stage_link;
  });
  std::string text = fmt::format("{}{}, {} reached the lowest held-out loss: <strong>{}</strong>", when,
                                 alike ? over(*best) : "", strong(best->label), fixed_text(best->result.val_loss, 3));
  const auto base = std::ranges::find_if(runs, [](const train::RunRecord& r) {
    return r.result.strategy == "all_reduce" && std::isfinite(r.result.val_loss);
  });
  if (base != runs.end() && &*base != best)
    text += fmt::format(", against {} for {}", fixed_text(base->result.val_loss, 3), escaped(base->label));
  Headline headline{text + ".", ""};
  const auto by_wait = std::minmax_element(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return a.result.utilisation > b.result.utilisation;
  });
  const double least = waiting(*by_wait.first), most = waiting(*by_wait.second);
  if (std::isfinite(least) && most - least > 0.005)
    headline.lede = fmt::format("Waiting for the wire took {} of {}’s time and {} of {}’s.", percent_text(most),
                                escaped(by_wait.second->label), percent_text(least), escaped(by_wait.first->label));
  return headline;
}

std::string model_text(const train::RunRecord& run) {
  std::string text = run.key("model", "name");
  std::vector<std::string> parts;
  for (const char* key : {"layers", "width", "heads", "context"})
    if (const auto value = run.key("model", key); !value.empty()) parts.push_back(fmt::format("{} {}", key, value));
  if (!parts.empty()) text += fmt::format(" ({})", fmt::join(parts, ", "));
  return text;
}

std::string parameters_text(const train::RunRecord& run) {
  return run.parameters > 0 ? short_count(static_cast<double>(run.parameters)) : "";
}

std::string data_text(const train::RunRecord& run) {
  std::string source = run.key("data", "source");
  const std::string path = run.key("data", "path");
  if (source == "synthetic")
    return run.entropy ? fmt::format("synthetic, entropy {} nats a token", fixed_text(*run.entropy, 3)) : "synthetic";
  if (path.empty()) return source;
  const std::filesystem::path whole(path);  // the recipe below has all of it
  return fmt::format("{} in {}", source, whole.has_parent_path() ? "…/" + whole.filename().string() : path);
}

std::string replicas_text(const train::RunRecord& run) {
  return fmt::format("{}, each {} sequences a step", run.replicas, run.key("train", "batch"));
}

// Nothing where there is one stage.
std::string stages_text(const train::RunRecord& run) {
  if (run.stages == 1) return "";
  std::string text = fmt::format("{} in a replica", run.stages);
  const std::string schedule = run.key("pipeline", "schedule"), codec = run.key("pipeline", "codec");
  if (!schedule.empty()) text += ", " + schedule;
  if (const auto hop = run.key("pipeline", "hop"); !hop.empty()) text += " with hop " + hop;
  const std::string parts = run.key("pipeline", "microbatches"), first = run.key("pipeline", "sync_steps");
  if (const bool changes = !first.empty() && first != "0"; changes)
    text += fmt::format(", after {} steps of {}", first, run.key("pipeline", "sync_schedule"));
  if (!parts.empty()) text += fmt::format(" with {} microbatches", parts);
  if (run.key("pipeline", "stash") == "false") text += ", backward with the newest weights";
  if (!codec.empty() && codec != "none") text += fmt::format(", {} between them", codec);
  return text;
}

std::string stage_link_text(const train::RunRecord& run) { return run.stages == 1 ? "" : link_text(run.stage_link); }

// Of its options, where the recipe is one of this program; else of its name, where that is.
std::optional<dp::Traits> traits_of(const train::RunRecord& run) {
  for (const auto& options : {std::function([&] { return train::make_recipe(run.recipe).strategy; }),
                              std::function([&] { return dp::preset(run.result.strategy); })})
    try {
      return dp::traits_of(options());
    } catch (const BadInput&) {
    }
  return {};
}

// Nothing where the strategy is its own rule.
std::string rule_text(const train::RunRecord& run) {
  const auto traits = traits_of(run);
  if (run.key("optim", "name").empty() || !traits || traits->owns_rule) return "";
  return fmt::format("{} at a learning rate of {}", run.key("optim", "name"), run.key("optim", "lr"));
}

std::string machine_text(const train::RunRecord& run) {
  if (run.cores == 0) return "";
  return fmt::format("{} core{}{}", run.cores, run.cores == 1 ? "" : "s", run.cpu.empty() ? "" : ", " + run.cpu);
}

std::string length_text(const train::RunRecord& run) {
  if (const double seconds = run.number("train", "seconds"); seconds > 0)
    return fmt::format("{:g} seconds of training", seconds);
  if (const double tokens = run.number("train", "tokens"); tokens > 0) return short_count(tokens) + " tokens";
  return run.key("train", "steps") + " steps";
}

}  // namespace

Headline headline_html(const Runs& runs) { return runs.size() == 1 ? one_headline(runs[0]) : several_headline(runs); }

std::string strategy_html(const train::RunRecord& run) {
  const auto traits = traits_of(run);
  if (!traits) return "";
  std::string text = traits->sentences;
  if (const auto rule = rule_text(run); !rule.empty()) text += fmt::format(" The update rule inside is {}.", rule);
  return escaped(text);
}

std::string facts_html(const Runs& runs) {
  std::string out;
  const std::vector<std::pair<const char*, std::function<std::string(const train::RunRecord&)>>> facts = {
      {"Model", model_text},
      {"Parameters", parameters_text},
      {"Data", data_text},
      {"Replicas", replicas_text},
      {"Link of each replica", [](const train::RunRecord& run) { return link_text(run.link); }},
      {"Stages", stages_text},
      {"Link between stages", stage_link_text},
      {"Length", length_text},
      {"Machine", machine_text}};
  for (const auto& [name, f] : facts) {
    std::vector<std::string> values;
    for (const auto& run : runs)
      if (const auto value = f(run); !value.empty() && std::ranges::find(values, value) == values.end())
        values.push_back(value);
    if (!values.empty())
      out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name,
                         escaped(fmt::format("{}", fmt::join(values, " · "))));
  }
  return out;
}

}  // namespace thinwire::report
