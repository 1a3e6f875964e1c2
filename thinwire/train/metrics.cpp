#include "thinwire/train/metrics.h"

#include <sstream>
#include <system_error>

#include "thinwire/base/atomic_file.h"
#include "thinwire/base/read_file.h"

namespace thinwire::train {

using Json = nlohmann::ordered_json;

Json to_json(const Progress& p) {
  Json json = {{"event", "step"},
               {"step", p.step},
               {"tokens", p.tokens},
               {"loss", p.loss},
               {"lr", p.lr},
               {"seconds", p.seconds},
               {"compute_s", p.compute_s},
               {"exposed_s", p.exposed_s},
               {"wire_bytes", p.wire_bytes}};
  if (p.noise_scale) json["noise_scale"] = *p.noise_scale;
  return json;
}

Json to_json(const Evaluation& e) {
  Json json = {
      {"event", "eval"}, {"step", e.step}, {"val_loss", e.val_loss}, {"consensus_distance", e.consensus_distance}};
  if (e.prediction_error) json["prediction_error"] = *e.prediction_error;
  if (e.final) json["final"] = true;
  return json;
}

Json to_json(const Result& r, const std::string& event) {
  Json json = {{"event", event},
               {"strategy", r.strategy},
               {"steps", r.steps},
               {"tokens", r.tokens},
               {"val_loss", r.val_loss},
               {"seconds", r.seconds},
               {"compute_s", r.compute_s},
               {"update_s", r.update_s},
               {"exposed_s", r.exposed_s},
               {"utilisation", r.utilisation},
               {"tokens_per_s", r.tokens_per_s},
               {"wire_bytes", r.wire_bytes},
               {"setup_bytes", r.setup_bytes},
               {"finish_bytes", r.finish_bytes},
               {"control_bytes", r.control_bytes},
               {"finish_s", r.finish_s},
               {"weights_hash", r.weights_hash}};
  if (r.stage_bytes) json["stage_bytes"] = *r.stage_bytes;
  if (r.noise_scale) json["noise_scale"] = *r.noise_scale;
  if (r.sync) {
    json["sync_steps"] = r.sync->steps;
    json["sync_seconds"] = r.sync->seconds;
    json["sync_utilisation"] = r.sync->utilisation;
    if (r.sync->utilisation_after) json["async_utilisation"] = *r.sync->utilisation_after;
  }
  if (r.skipped > 0) json["skipped"] = r.skipped;
  if (!r.finished)  // what a stopped run does not know yet
    for (const char* key : {"val_loss", "finish_bytes", "finish_s"}) json.erase(key);
  return json;
}

Metrics::Metrics(const std::filesystem::path& path, int64_t step) {
  if (path.empty()) return;
  std::string kept;
  std::istringstream old(std::filesystem::exists(path) ? read_file(path) : "");
  for (std::string line; std::getline(old, line);) {
    const auto json = Json::parse(line, nullptr, /*allow_exceptions=*/false);  // a killed run may end in half a line
    if (!json.is_object() || json.contains("final")) continue;
    if (const auto at = json.find("step"); at != json.end() && (!at->is_number() || *at > step)) continue;
    kept += line + "\n";
  }
  write_file(path, {kept});
  file_.emplace(path);
}

void Metrics::write(const Json& line) {
  if (!file_) return;
  kept_.push_back(line.dump());
  try {
    flush();
  } catch (const std::system_error&) {
  }
}

void Metrics::flush() {
  for (; !kept_.empty(); kept_.pop_front()) file_->write_line(kept_.front());
}

void Metrics::sync() {
  if (!file_) return;
  flush();
  file_->sync();
}

}  // namespace thinwire::train
