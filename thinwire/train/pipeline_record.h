// pipeline.json: a pipeline as it was planned and as it ran, for the pictures in the report.
//
// Both are of the same few steps: the latest ones that no evaluation, no checkpoint and not the end of the run
// interrupted, where there are such. Their time goes from the beginning of the first of them on stage 0 to the end of
// its last update there; what other stages do meanwhile is of other steps, too.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/trace.h"
#include "thinwire/pipeline/chart.h"
#include "thinwire/train/recipe.h"

namespace thinwire::train {

// The median time of an operation of one stage; 0 where it has none. The last stage's forward is in its backward.
struct StageCosts {
  double forward_s = 0, backward_s = 0, weights_s = 0, update_s = 0;
  double of(pipeline::OpKind kind) const;
};

// What stages do in so many seconds; its blocks begin and end within them, and take time.
struct PipelinePicture {
  pipeline::Chart chart;
  double seconds = 0;
  double idle(size_t stage) const;  // share of the time
  double idle() const;              // mean over the stages
};

// The beginning of a pipeline that works synchronously at first, and the change from it to what follows.
struct SyncPart {
  std::string schedule;
  int64_t steps = 0, microbatches = 1;
  double transfer_s = 0;
  std::vector<StageCosts> costs = {};  // of a microbatch, by stage
  double utilisation = 0;              // by the plan
  int64_t from_step = 0, to_step = 0;  // in the pictures, with the change among them; from 1
  PipelinePicture planned = {}, recorded = {};
};

struct PipelineRecord {
  std::string schedule;
  int64_t microbatches = 1;
  std::optional<int64_t> hop;  // of an asynchronous schedule
  bool stash = true;
  int64_t from_step = 0, to_step = 0;  // in the pictures; from 1
  double transfer_s = 0;               // of a microbatch between two stages, if nothing is before it in the line
  int64_t transfer_bytes = 0;
  std::vector<StageCosts> costs;                // by stage, without waiting
  std::vector<pipeline::PeakStash> peak_stash;  // by stage
  double utilisation = 0;                       // steady, by the plan: the share of time in which a stage computes
  std::optional<double> utilisation_hop_1;      // of the same stages and transfers with hop 1, where there is a hop
  PipelinePicture planned, recorded;
  std::optional<SyncPart> sync;  // where there was one, and its traces are there

  // Where a block's microbatch belongs: to which step, the how manieth of it (both from 0), in the synchronous way or
  // not.
  struct Place {
    int64_t step, part;
    bool synchronous;
  };
  Place place_of(int64_t batch) const;
};

// `traces`: of replica 0's stages, more may follow; `done`: steps of the whole run, of which the traces hold the last
// ones; `change`: traces that hold the steps around the end of a synchronous beginning. Nothing if they hold no step.
std::optional<PipelineRecord> pipeline_record(const Recipe& recipe, const std::vector<TracePtr>& traces, int64_t done,
                                              const std::vector<TracePtr>& change = {});

// After so many steps the change from a synchronous beginning is over on all stages.
int64_t steps_to_see_change(const Recipe& recipe);

// The share of time in which a stage computes, mean over the stages, in a run without end.
double steady_utilisation(const pipeline::Schedule& schedule, const std::vector<StageCosts>& costs, double transfer_s);

nlohmann::ordered_json to_json(const PipelineRecord& record);
// BadInput that starts with `place` for what is not of its type, or does not fit together.
PipelineRecord pipeline_of_json(const nlohmann::json& json, const std::string& place);

// The beginning of a run's schedule for a terminal, where a forward takes 1, a backward 2 (1 and 1 where W is apart),
// and all else nothing: a line that says so, one or two that explain the marks, and one a stage.
std::string schedule_text(const Recipe& recipe, int width);

}  // namespace thinwire::train
