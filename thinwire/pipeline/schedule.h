// What each stage of a pipeline does, and in which order: a value. Nothing is executed here; the same value is carried
// out (stage.h), drawn and counted (chart.h).
//
// Symbols: P stages, j = 0..P-1; b counts what goes through the pipeline. A step ends with one update, on every stage.
//
//   gpipe            all F, then all B                                           M microbatches a step, then U
//   1f1b             P-1-j times F, then F and B by turns, then the rest of B    M microbatches a step, then U
//   zero_bubble_h1   as 1f1b, but a B leaves the weights' gradient for later:    M microbatches a step, then U
//                    W(b) follows B(b+j) (Qi et al. 2401.10241)
//   async_1f1b       never empty: w_j times F at the very beginning, then F(b+w_j), B(b), U(b) in step b = 0, 1, ..
//
// w_{P-1} = 0 and w_j = w_{j+1} + hop: hop 1 is 1f1b without end, and every hop more hides half a stage's time of
// transfer. In async_1f1b, F and B of minibatch b use the weights that update max(0, b - w_j) left.
// B goes through a step in increasing order in all of them, hence gradients are summed in one order.
//
// An asynchronous schedule may begin with S steps of a synchronous one (starting_with). Then the pipeline empties as at
// the end of any such step, no stage waits for all, and fills once more: F and B of minibatch b >= S use the weights
// that update max(S, b - w_j) left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace thinwire::pipeline {

enum class OpKind { forward, backward, weights, update };  // F, B, W, U

// One operation of one stage.
struct Op {
  OpKind kind;
  int64_t batch;  // F, B, W: which microbatch of the run (those of all steps before + its number); U: which step
  friend bool operator==(const Op&, const Op&) = default;
};

// Made by make_schedule(); a plain value, to be copied and compared freely. A stage or a step that does not exist is a
// wrong call: std::invalid_argument.
struct Schedule {
  std::string name = "async_1f1b";
  int stages = 1;
  int64_t microbatches = 1;       // a step; 1 in async_1f1b
  std::vector<int64_t> warmup{};  // w_j; all 0 in the others
  int64_t sync_steps = 0;         // S: so many steps of an asynchronous schedule go by `sync_name` instead, with
  std::string sync_name = "1f1b";
  int64_t sync_microbatches = 1;  // of a step

  bool asynchronous() const { return name == "async_1f1b"; }
  bool late(int64_t step) const { return asynchronous() && step >= sync_steps; }
  const std::string& name_at(int64_t step) const { return asynchronous() && !late(step) ? sync_name : name; }
  int64_t microbatches_of(int64_t step) const {
    return asynchronous() && !late(step) ? sync_microbatches : microbatches;
  }
  int64_t first_batch(int64_t step) const;  // its first microbatch, of the run
  int64_t step_of(int64_t batch) const;
  // Which version of the weights F and B of `batch` use: how many updates it has seen.
  int64_t version(int stage, int64_t batch) const;
  // What `stage` does in step number `step` (from 0) of `steps`; 0: there is no last one.
  std::vector<Op> ops(int stage, int64_t step, int64_t steps) const;
};

// What pipeline.schedule may be: the names above.
std::vector<std::string> schedule_names();
std::vector<std::string> synchronous_names();

// BadInput that starts with "pipeline." for a name that does not exist, or numbers out of range: stages, microbatches
// and hop are at least 1, and async_1f1b has 1 microbatch, for it updates after each. The others do not look at hop.
Schedule make_schedule(const std::string& name, int stages, int64_t microbatches, int64_t hop);

// The same, with a synchronous beginning. BadInput that starts with "pipeline." unless the schedule is asynchronous and
// `name` is not.
Schedule starting_with(Schedule schedule, int64_t steps, const std::string& name, int64_t microbatches);
// What is left of it after so many steps: the beginning of a schedule ends earlier then.
Schedule continued(Schedule schedule, int64_t after_steps);

// What a stage has to keep at most, over so many steps (0: there is no last one): counted from the operations
// themselves. A version is let go when no B to come needs it, the newest when an update replaces it: U(b) writes where
// the version lay that B(b) was the last to use. Predicted weights are not counted (weight_stash.h).
struct PeakStash {
  int64_t versions = 0;  // of its weights, the newest included
  int64_t inputs = 0;    // from F to B (in zero_bubble_h1 to W)
};
PeakStash peak_stash(const Schedule& schedule, int stage, int64_t steps);

}  // namespace thinwire::pipeline
