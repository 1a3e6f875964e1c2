// metrics.jsonl: one JSON object a line, one line a step or evaluation.
#pragma once

#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "thinwire/base/append_file.h"
#include "thinwire/train/run.h"

namespace thinwire::train {

nlohmann::ordered_json to_json(const Progress& progress);
nlohmann::ordered_json to_json(const Evaluation& evaluation);
// `event` is "done" (train), "result" (compare) or "stopped" (no val_loss, finish_bytes, finish_s yet).
nlohmann::ordered_json to_json(const Result& result, const std::string& event);

class Metrics {
 public:
  // Appends to the file; lines about steps after `step` and the final evaluation are dropped first, for they will
  // happen again. An empty path: nothing is written.
  Metrics(const std::filesystem::path& path, int64_t step);
  // A line that cannot be written now (a full disk) is kept, and tried again with the next.
  void write(const nlohmann::ordered_json& line);
  // Before a checkpoint is published: it must not know of steps that a power cut takes from the file. std::system_error
  // if a line cannot be written even now; it is still kept.
  void sync();

 private:
  void flush();  // writes what is kept

  std::optional<AppendFile> file_;
  std::deque<std::string> kept_;
};

}  // namespace thinwire::train
