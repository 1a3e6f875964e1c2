// What the ranks tell each other after every step beside training: whether to stop, and figures for the progress line.
//
// It travels over the bare group, one step behind: the answer for step t is looked at after step t + 1, so no rank
// waits for it. All ranks see the same answer at the same step, so they stop together.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <optional>

#include "thinwire/comm/group.h"
#include "thinwire/train/worker.h"

namespace thinwire::train {

struct Tally {
  int64_t step = 0;
  bool stop = false;
  double loss = 0;  // means over the ranks, of the loss over those who know it
  Costs costs;
  double wire_bytes = 0, stage_bytes = 0;
  dp::GradientNorms norms;  // 0 where the strategy has none
};

class Control {
 public:
  explicit Control(comm::GroupPtr bare) : bare_(std::move(bare)) {}
  void tell(int64_t step, bool stop, std::optional<double> loss, const Costs& costs,
            const std::optional<dp::GradientNorms>& norms);
  // The oldest tally that is more than `behind` steps old, waited for; nothing if there is none.
  std::optional<Tally> next(int behind);

 private:
  struct Sent {
    int64_t step;
    at::Tensor values;
    comm::WorkPtr work;
  };
  comm::GroupPtr bare_;
  std::deque<Sent> sent_;
};

}  // namespace thinwire::train
