// What the ranks exchange after every step beside training: whether to stop or to save, and figures for the
// progress line.
//
// It travels over the control group, some steps behind: what is said after step t is looked at after step t + lag, by
// all ranks alike, so they stop together and no step waits for an answer. lag begins with as many steps as fit into the
// time an answer takes, which is measured, by an estimate of a step's time; at least 1, and as many as a rank may be
// ahead of another. Where a rank had to wait nevertheless, more than a little and for more than a small part of the
// time, its next message names the lag it wants, and when that one is looked at, lag grows, on all ranks at the same
// step; after a while without such it is halved again. So a slow control network delays a stop, not the steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <optional>

#include "thinwire/base/clock.h"
#include "thinwire/comm/group.h"
#include "thinwire/train/worker.h"

namespace thinwire::train {

// What all ranks learn of a step: stop and save if any rank asked for it.
struct StepStats {
  int64_t step = 0;
  bool stop = false, save = false;
  double loss = 0;  // means over the ranks, of the loss over the ranks that have one
  Costs costs;
  double wire_bytes = 0, stage_bytes = 0;
  dp::GradientNorms norms;  // 0 where the strategy has none
};

// Used by one thread. Every rank makes the same calls in the same order.
class Control {
 public:
  // lead: how many steps a rank may be ahead of another; step_s: about how long a step takes, in seconds. Collective.
  Control(comm::GroupPtr group, int64_t lead, double step_s);
  // After each step, on all ranks; does not block. Loss and norms where this rank has them.
  void post(int64_t step, bool stop, bool save, std::optional<double> loss, const Costs& costs,
            const std::optional<dp::GradientNorms>& norms);
  // The oldest stats that are due after the last step that was posted, waited for; nothing if none are. What was waited
  // is time that a step lost to the network.
  std::optional<StepStats> next();
  // The oldest stats, due or not: for moments when all ranks stop anyway.
  std::optional<StepStats> next_of_all();

 private:
  std::optional<StepStats> oldest();
  void adapt(int64_t step, double wished);

  struct Posted {
    int64_t step;
    Clock::time_point at;
    at::Tensor values;
    comm::WorkPtr work;
  };
  const comm::GroupPtr group_;
  const int64_t least_;
  int64_t lag_;
  int64_t changed_ = 0;               // messages up to this step do not change it again
  double answer_s_ = 0;               // how long the last answer took that was waited for
  double waited_s_ = 0, since_ = -1;  // for answers, since it last said so; and when that was, -1: never
  int64_t since_step_ = 0;
  std::deque<Posted> posted_;
};

}  // namespace thinwire::train
