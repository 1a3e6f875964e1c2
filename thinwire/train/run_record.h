// What a run left in its directory, read back: recipe.toml, metrics.jsonl, result.json, timeline.json,
// pipeline.json.
//
// recipe.toml and metrics.jsonl must be there. Without result.json the run is unfinished, and its last step stands for
// the result; without timeline.json there is no timeline, and pipeline.json is of runs with stages only. A field that
// is absent or null is NaN, empty or unset; one of the wrong type, and a line that is not JSON, is BadInput with file
// and line. Half a line at the very end of metrics.jsonl is what a killed run leaves, and is left out.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/train/pipeline_record.h"
#include "thinwire/train/recipe.h"
#include "thinwire/train/run.h"

namespace thinwire::train {

struct StepRecord {
  int64_t step = 0;
  double loss, seconds, compute_s, exposed_s, wire_bytes;
};

struct EvalRecord {
  int64_t step = 0;
  double val_loss, consensus_distance, seconds, wire_bytes;  // the last two as of that step, where the line lacks them
  bool final = false;
};

// A few rounds of a run; seconds from their start.
struct TimelineRecord {
  struct Span {
    double begin, end;
    double bytes = 0;  // of transfers
  };
  struct Rank {
    std::vector<Span> steps, waits, transfers;
  };
  int64_t from_step = 0, to_step = 0;
  int64_t stages = 1;       // of a replica
  std::vector<Rank> ranks;  // rank = replica * stages + stage
  double seconds() const;   // until the last thing ends
};

struct RunRecord {
  std::filesystem::path dir;
  std::string label;        // the strategy's name, or the directory's where names repeat
  std::string recipe_toml;  // as it stands there
  RecipeText recipe;
  std::vector<StepRecord> steps;
  std::vector<EvalRecord> evals;
  Result result;                                    // NaN where unknown
  int64_t parameters = 0, replicas = 0, cores = 0;  // 0: unknown
  int64_t stages = 1;
  std::string link, stage_link, cpu, command;  // stage_link: empty where there is one stage
  std::optional<double> entropy;               // of the data, nats a token: no loss can be lower
  std::optional<TimelineRecord> timeline;
  std::optional<PipelineRecord> pipeline;

  // A key of the recipe as text, without quotes; empty if it is not there.
  std::string key(const std::string& section, const std::string& name) const;
  double number(const std::string& section, const std::string& name) const;  // NaN if it is not there
};

// A run directory gives one record, a directory of `compare` one for each run in it, in the order they were run.
// BadInput if there is no run.
std::vector<RunRecord> read_runs(const std::vector<std::filesystem::path>& dirs);

}  // namespace thinwire::train
