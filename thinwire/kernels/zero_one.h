// The passes of 0/1 Adam after its freeze (thinwire/dp/zero_one_adam.h): a local step, and, when replicas exchange,
// what is done before and after. root = sqrt(v) + eps throughout; v is frozen and only read.
#pragma once

#include "thinwire/kernels/moments.h"
#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

struct ZeroOneBuffers {
  at::Tensor next;  // new weights; may be x
  at::Tensor x, g, m, v;
  at::Tensor moved, synced;  // a_i, x_s
};

struct LocalStep {
  Moments moments;
  float lr, weight_decay;
  float reach;  // reach.h
  bool masked;  // m is 0 where v is: nothing was ever learnt there
};
// m = beta1 m + (1-beta1) g, within reach of root, 0 where masked and v is 0;
// moved -= lr (m / root + wd x);   next = synced + moved
void local_step(const ZeroOneBuffers& buffers, Range range, const LocalStep& step);

// moved *= root: what is sent.
void scale_by_root(const at::Tensor& moved, const at::Tensor& v, float eps);

// With h = what arrived in `moved`, within lr_sum reach of root (what that many steps could move), 0 where masked and
// v is 0:
// synced += h / root;   next = synced;   m = -h / lr_sum;   moved = 0.   x and g are not looked at.
void sync_step(const ZeroOneBuffers& buffers, Range range, float lr_sum, float eps, float reach, bool masked);

}  // namespace thinwire::kernels
