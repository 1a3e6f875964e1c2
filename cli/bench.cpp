// thinwire bench: quick figures about this machine.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/signals.h"
#include "cli/verbs.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/options.h"
#include "thinwire/base/units.h"
#include "thinwire/train/measure.h"

namespace thinwire::cli {
namespace {

using Json = nlohmann::ordered_json;

// A row of a table, or a line of JSON; false after Ctrl-C.
bool tell(bool json, const Json& object, const std::string& row) {
  fmt::print("{}\n", json ? object.dump() : row);
  std::fflush(stdout);
  return !Signals::stop();
}

bool kernels(bool json) {
  if (!json)
    fmt::print("kernels ({}), one thread, vectors beyond the caches, best of several\n", train::kernel_clone());
  if (!json) fmt::print("  {:<24}{:>14}{:>10}{:>12}\n", "pass over memory", "read + written", "GB/s", "of triad");
  return train::measure_kernels([&](const train::KernelFigure& f) {
    return tell(json,
                {{"event", "kernel"},
                 {"name", f.name},
                 {"reads", f.reads},
                 {"writes", f.writes},
                 {"gigabytes_per_s", f.gigabytes_per_s},
                 {"share_of_triad", f.share_of_triad}},
                fmt::format("  {:<24}{:>14}{:>10.1f}{:>12.2f}", f.name, fmt::format("{} + {}", f.reads, f.writes),
                            f.gigabytes_per_s, f.share_of_triad));
  });
}

bool comm(bool json) {
  if (!json) fmt::print("all-reduce over ranks that are threads of this process\n");
  if (!json) fmt::print("  {:<8}{:>10}{:>12}{:>16}{:>12}\n", "ranks", "vector", "time", "GB/s a rank", "of a copy");
  const bool go_on = train::measure_comm([&](const train::CommFigure& f) {
    return tell(json,
                {{"event", "all_reduce"},
                 {"ranks", f.ranks},
                 {"bytes", f.bytes},
                 {"seconds", f.seconds},
                 {"gigabytes_per_s", f.gigabytes_per_s},
                 {"share_of_copy", f.share_of_copy}},
                fmt::format("  {:<8}{:>10}{:>9.3f} ms{:>16.2f}{:>12.2f}", f.ranks, to_text(Bytes{f.bytes}),
                            1e3 * f.seconds, f.gigabytes_per_s, f.share_of_copy));
  });
  if (!go_on) return false;
  if (!json) fmt::print("\nthe same over an emulated link, 2 ranks: what it should take, and what it took\n");
  if (!json) fmt::print("  {:<14}{:>10}{:>12}{:>12}{:>12}\n", "link", "vector", "asked", "obtained", "ratio");
  return train::measure_links([&](const train::LinkFigure& f) {
    return tell(
        json,
        {{"event", "link"}, {"link", f.link}, {"bytes", f.bytes}, {"asked_s", f.asked_s}, {"obtained_s", f.obtained_s}},
        fmt::format("  {:<14}{:>10}{:>9.2f} ms{:>9.2f} ms{:>12.3f}", f.link, to_text(Bytes{f.bytes}), 1e3 * f.asked_s,
                    1e3 * f.obtained_s, f.obtained_s / f.asked_s));
  });
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* verb = app.add_subcommand("bench", "quick figures: kernels against memory, all-reduce, emulated links");
  auto what = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  verb->add_option("what", *what, "only the one or the other; without: both")->type_name("kernels|comm");
  verb->add_flag("--json", *json, "print one JSON object a line");
  verb->footer(
      "kernels  each pass over memory in GB/s of what it reads and writes, and as a share of a triad\n"
      "         (a = b + s c) measured in turns with it: near 1 means that memory is the limit\n"
      "comm     an all-reduce between threads by ranks and size, as a share of copying memory; and over\n"
      "         emulated links, what was asked for against what was obtained\n"
      "\n"
      "Takes a few seconds. On a busy machine the figures are low: look at the ratios, and run it again.\n"
      "\n"
      "Examples:\n"
      "  thinwire bench\n"
      "  thinwire bench kernels\n"
      "  thinwire bench comm --json");
  verb->callback([=] {
    std::string only = *what;
    if (!only.empty()) read(only, "bench", only, one_of({"kernels", "comm"}));
    if (only != "comm" && !kernels(*json)) return;
    if (only.empty() && !*json) fmt::print("\n");
    if (only != "kernels") comm(*json);
  });
}

}  // namespace thinwire::cli
