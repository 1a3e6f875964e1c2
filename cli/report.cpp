// thinwire report: the page of one run, of a comparison, or of several runs side by side.
#include "thinwire/report/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/verbs.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/printable.h"

namespace thinwire::cli {
namespace {

namespace fs = std::filesystem;

void report_verb(const std::vector<std::string>& runs, const std::string& out, bool json) {
  const fs::path path = !out.empty()       ? fs::path(out)
                        : runs.size() == 1 ? fs::path(runs[0]) / "report.html"
                                           : "report.html";
  if (fs::is_directory(path)) throw BadInput("{} is a directory: name a file by --out", path.string());
  if (!out.empty() && path.has_parent_path() && !fs::is_directory(path.parent_path()))
    throw BadInput("there is no directory {} to write the report to", path.parent_path().string());
  report::write(path, {runs.begin(), runs.end()});
  if (json)
    fmt::print("{}\n", nlohmann::ordered_json{{"event", "report"}, {"path", path.string()}}.dump(
                           -1, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("report: {}\n", printable(path.string()));
}

}  // namespace

void add_report(CLI::App& app) {
  auto* verb = app.add_subcommand("report", "one HTML page with tables, curves and timelines of runs");
  auto runs = std::make_shared<std::vector<std::string>>();
  auto out = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  verb->add_option("runs", *runs, "directories of runs, or of comparisons; several are joined in one page")
      ->required()
      ->type_name("RUN");
  verb->add_option("--out", *out, "where it is written (default: report.html in RUN, or here if there are several)")
      ->type_name("FILE");
  verb->add_flag("--json", *json, "print one JSON object a line, nothing else");
  verb->footer(
      "A run that is not finished is shown as far as it got.\n"
      "Examples:\n"
      "  thinwire report runs/mine\n"
      "  thinwire report runs/monday runs/tuesday --out both.html");
  verb->callback([=] { report_verb(*runs, *out, *json); });
}

}  // namespace thinwire::cli
