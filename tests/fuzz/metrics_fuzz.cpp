// libFuzzer: what lies in a run directory becomes a page and a summary, or is BadInput. The input's first byte says
// which file it is for: lines added to the metrics, a merge patch of a JSON file (or any text in its place), lines of
// the recipe.
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/train/saved_run.h"
#include "thinwire/base/atomic_file.h"
#include "thinwire/base/read_file.h"
#include "thinwire/report/report.h"
#include "thinwire/train/inspect.h"
#include "thinwire/train/run.h"

namespace {

using namespace thinwire;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kFiles[] = {"metrics.jsonl", "result.json", "timeline.json", "pipeline.json", "recipe.toml"};

fs::path make_run() {
  const fs::path run = fs::temp_directory_path() / fmt::format("thinwire_fuzz_{}", ::getpid());
  train::Observer nobody;
  train::run(train::SavedRun::recipe_of("workers.replicas=1 workers.stages=2 train.steps=4"), {.dir = run}, nobody);
  fs::remove(run / "model.safetensors");  // of no interest here
  fs::remove_all(run / "checkpoints");
  static const std::string gone = run.string();
  std::atexit([] { fs::remove_all(gone); });
  return run;
}

// `whole` with every line "key = value" of `with` in the place of that key's.
std::string with_keys(std::string whole, const std::string& with) {
  std::istringstream lines(with);
  for (std::string line; std::getline(lines, line);) {
    const std::string key = "\n" + line.substr(0, line.find(' ')) + " =";
    const size_t at = whole.find(key);
    if (at == whole.npos) return with;
    whole.replace(at + 1, whole.find('\n', at + 1) - at - 1, line);
  }
  return whole;
}

std::string changed(const std::string& whole, const std::string& name, const std::string& with) {
  if (name == "recipe.toml") return with_keys(whole, with);
  if (name == "metrics.jsonl") return whole + with;
  const json patch = json::parse(with, nullptr, /*allow_exceptions=*/false);
  if (patch.is_discarded()) return with;
  json object = json::parse(whole);
  object.merge_patch(patch);
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fs::path run = make_run();
  if (size == 0) return 0;
  const std::string name = kFiles[data[0] % std::size(kFiles)];
  const std::string whole = read_file(run / name);
  write_file(run / name, {changed(whole, name, {reinterpret_cast<const char*>(data) + 1, size - 1})});
  try {
    report::html({run});
  } catch (const BadInput&) {
  }
  try {
    train::inspect_run(run);
  } catch (const BadInput&) {
  }
  write_file(run / name, {whole});
  return 0;
}
