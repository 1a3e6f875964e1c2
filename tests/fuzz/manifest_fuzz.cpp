// libFuzzer: a checkpoint whose manifest was changed and sealed again is read, or refused in one line. An input that is
// JSON is a merge patch of a good manifest; any other stands in its place.
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>

#include "tests/train/saved_run.h"
#include "thinwire/base/atomic_file.h"
#include "thinwire/base/read_file.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/train/inspect.h"

namespace {

using namespace thinwire;
using nlohmann::json;

std::filesystem::path make_checkpoint() {
  const auto run = std::filesystem::temp_directory_path() / fmt::format("thinwire_fuzz_{}", ::getpid());
  const train::SavedRun saved("strategy.name=drip strategy.slices=2");
  comm::run_threads(2, [&](comm::World& world) {
    checkpoint::save(run, 5, saved.saved[world.rank()],
                     {{"recipe", to_toml(saved.recipe())}, {"step", 5}, {"agreed", "strategy.z"}}, 1, world, {2, 1, 1});
  });
  static const std::string gone = run.string();
  std::atexit([] { std::filesystem::remove_all(gone); });
  return checkpoint::folder_of(run, 5);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path folder = make_checkpoint();
  static const json whole = json::parse(read_file(folder / "manifest.json"));
  std::string text(reinterpret_cast<const char*>(data), size);
  const json patch = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!patch.is_discarded()) {
    json manifest = whole;
    manifest.merge_patch(patch);
    if (manifest.is_object()) {
      manifest.erase("xxh3");
      const std::string all = manifest.dump(-1, ' ', false, json::error_handler_t::replace);
      manifest["xxh3"] = fmt::format("{:016x}", XXH3_64bits(all.data(), all.size()));
    }
    text = manifest.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  write_file(folder / "manifest.json", {text});
  train::inspect_checkpoint(folder);
  try {
    train::load_trained(folder);
  } catch (const c10::Error& error) {
    if (!std::string(error.what_without_backtrace()).starts_with(folder.string())) std::abort();
  } catch (const BadInput&) {
  }
  return 0;
}
