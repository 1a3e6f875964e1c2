// A run: a recipe carried out by ranks, from the first step or from a checkpoint.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/comm/world.h"
#include "thinwire/train/recipe.h"

namespace thinwire::train {

// How far a run is; means over the ranks. Times and bytes cover the training steps only.
struct Progress {
  int64_t step = 0, tokens = 0;
  double loss = 0, lr = 0;
  double seconds = 0, compute_s = 0, exposed_s = 0;
  double wire_bytes = 0;
  double share = 0;                        // of the whole run that is done, 0..1
  std::optional<double> noise_scale = {};  // sequences: the batch size worth using
};

struct Evaluation {
  int64_t step = 0;
  double val_loss = 0;
  double consensus_distance = 0;
  std::optional<double> prediction_error =
      {};              // where something late landed in this step (thinwire/dp/staleness_probe.h)
  bool final = false;  // of the weights that finish() left
};

struct Result {
  std::string strategy = {};
  bool finished = false;  // false: stopped from outside, resumable
  int64_t steps = 0, tokens = 0;
  double val_loss = 0;
  double seconds = 0, compute_s = 0, exposed_s = 0, utilisation = 0, tokens_per_s = 0;
  double update_s = 0;  // of compute_s, in the update rule; 0 where the strategy is its own rule
  double wire_bytes = 0, setup_bytes = 0, finish_bytes = 0, finish_s = 0;
  double control_bytes = 0;                // for what is not training: progress, evaluation, checkpoints
  std::optional<double> stage_bytes = {};  // sent to other stages, where there are some
  std::string weights_hash = {};
  std::optional<double> noise_scale = {};  // where the strategy averages gradients
  struct SyncPart {                        // of a pipeline that begins with synchronous steps
    int64_t steps = 0;
    double seconds = 0, utilisation = 0;
    std::optional<double> utilisation_after = {};  // of the asynchronous steps, once there are some
  };
  std::optional<SyncPart> sync = {};
};

struct Start {
  int64_t parameters = 0, from_step = 0, planned_steps = 0, text_bytes = 0, text_files = 0;
  std::filesystem::path origin = {};    // the checkpoint of another run that this one began with
  std::vector<std::string> notes = {};  // what was chosen for options that say "auto"
};

// Watches a run. All calls come from rank 0's thread, in order; they hold the run up.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void started(const Recipe&, const Start&) {}
  virtual void progressed(const Progress&) {}
  virtual void evaluated(const Evaluation&) {}
  virtual void saved(int64_t /*step*/) {}
};

struct RunOptions {
  std::filesystem::path dir = {};   // run directory; empty: nothing is written
  bool resume = false;              // go on from dir's newest checkpoint, if there is one
  std::filesystem::path from = {};  // a run or checkpoint to begin with (warm_start.h), where there is none to resume
  const std::atomic<bool>* stop = nullptr;  // set from outside: checkpoint and return
  std::atomic<bool>* save = nullptr;        // set from outside: checkpoint and go on; taken back when it is seen
  std::string command = {};                 // what the person typed, for the record
};

// BadInput where dir holds something and resume is not set, or where recipe and checkpoint do not belong together;
// other failures are thrown as they come, and what is on disk stays.
// Ranks are threads of this process.
Result run(const Recipe& recipe, const RunOptions& options, Observer& observer);

// What every rank of a run does, whoever launched it. Collective: all ranks are asked for the same; rank 0's recipe,
// and its directory where they share a disk, count. Only rank 0's observer is told anything; all get the result, but
// the hash of the weights, which is rank 0's.
Result run_rank(const Recipe& recipe, const RunOptions& options, Observer& observer, comm::World& world);

}  // namespace thinwire::train
