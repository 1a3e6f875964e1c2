// A run: a recipe executed by ranks, from the first step or from a checkpoint.
//
// Every rank makes its worker (a replica, or a stage of one), then repeats: step, exchange of progress and of the wish
// to stop or save (control.h), evaluation and checkpoint where they are due. At the end replicas agree on their weights
// (finish), which are evaluated and hashed. The weights depend on the recipe alone: not on the launcher, the links, the
// time, or on how often the run was stopped and resumed.
//
// In `dir`: recipe.toml, metrics.jsonl, checkpoints/, and at the end model.safetensors, result.json and the pictures'
// data (timeline.json, pipeline.json). Rank 0 writes them, and every rank its part of a checkpoint.
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

// Of the weights that replicas agree on, on held-out text.
struct Evaluation {
  int64_t step = 0;
  double val_loss = 0;
  double consensus_distance = 0;
  std::optional<double> prediction_error =
      {};              // where something late landed in this step (thinwire/dp/staleness_probe.h)
  bool final = false;  // of the weights that finish() left
};

// What a run came to; means over the ranks. Training steps only, but for what says otherwise in its name.
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
  int64_t skipped = 0;                     // updates of all replicas that were left out: train.on_divergence
  struct SyncPart {                        // of a pipeline that begins with synchronous steps
    int64_t steps = 0;
    double seconds = 0, utilisation = 0;
    std::optional<double> utilisation_after = {};  // of the asynchronous steps, once there are some
  };
  std::optional<SyncPart> sync = {};
};

// What is known before the first step.
struct Start {
  int64_t parameters = 0, from_step = 0, planned_steps = 0, text_bytes = 0, text_files = 0;
  std::filesystem::path warm_start = {};  // the checkpoint of another run that this one began with
  std::vector<std::string> notes = {};    // what was chosen for options that say "auto"
};

// Callbacks of a run. All come from rank 0's thread, in order; the run waits for them. One that throws ends the run.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void started(const Recipe&, const Start&) {}
  virtual void progressed(const Progress&) {}
  virtual void evaluated(const Evaluation&) {}
  virtual void saved(int64_t /*step*/) {}              // a checkpoint is in place
  virtual void warned(const std::string& /*what*/) {}  // something went wrong, and the run goes on
};

// What does not change the weights. `stop` and `save` must outlive the run, and may be set from any thread or a signal
// handler.
struct RunOptions {
  std::filesystem::path dir = {};    // run directory; empty: nothing is written
  bool resume = false;               // go on from dir's newest checkpoint, if there is one
  std::optional<int64_t> step = {};  // ... from this one instead; then resume is set
  std::filesystem::path from = {};   // a run or checkpoint to begin with (warm_start.h), where there is none to resume
  const std::atomic<bool>* stop = nullptr;  // set from outside: checkpoint and return
  std::atomic<bool>* save = nullptr;        // set from outside: checkpoint and go on; reset when it is seen
  std::string command = {};                 // what the person typed, for the record
};

// Ranks are threads of this process; blocks until the run is over. BadInput where dir holds something and resume is not
// set, or where recipe and checkpoint do not belong together; other failures are thrown as they come (c10::Error for a
// loss that is not finite, std::system_error for a full disk), and what is on disk stays.
Result run(const Recipe& recipe, const RunOptions& options, Observer& observer);

// What every rank of a run does, whatever launched it. Collective: all ranks pass the same; rank 0's recipe, and its
// directory where they share a disk, are used. Only rank 0's observer is called; all get the result, but the hash of
// the weights, which is rank 0's. Throws as run() does, and comm::PeerLost or comm::Timeout where another rank is lost
// or stuck.
Result run_rank(const Recipe& recipe, const RunOptions& options, Observer& observer, comm::World& world);

}  // namespace thinwire::train
