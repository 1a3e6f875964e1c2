// The learning rate as a function of the step: linear warm-up, then a cosine or a constant. A value; at() is pure, so
// a resumed run needs no state for it.
#pragma once

#include <cstdint>
#include <string>

namespace thinwire::optim {

struct Schedule {
  double lr = 1e-3;          // at the top
  int64_t warmup_steps = 0;  // linear from 0: step t has lr t / warmup_steps
  bool cosine = true;        // from the top at the end of warm-up to final_lr at `steps`; else constant
  double final_lr = 0.1;     // share of lr
  int64_t steps = 0;         // 0: not known beforehand, hence constant

  double at(int64_t t) const;  // t counts from 1
};

}  // namespace thinwire::optim
