// The passes of 0/1 Adam after its freeze (thinwire/dp/zero_one_adam.h). root = sqrt(v) + eps throughout.
#pragma once

#include <cstdint>

namespace thinwire::kernels {

struct ZeroOneBuffers {
  float* next;  // new weights; may be x
  const float *x, *g;
  float* m;
  const float* v;
  float *moved, *synced;  // a_i, x_s
};

struct LocalStep {
  float beta1, one_minus_beta1, lr, weight_decay, eps;
  float reach;  // reach.h
  bool masked;
};
// m = beta1 m + (1-beta1) g, within reach of root, 0 where masked and v is 0;
// moved -= lr (m / root + wd x);   next = synced + moved
void local_step(const ZeroOneBuffers& buffers, int64_t n, const LocalStep& step);

// moved *= root: what is sent.
void scale_by_root(float* moved, const float* v, int64_t n, float eps);

// With h = what arrived in `moved`, within lr_sum reach of root (what that many steps could move), 0 where masked and
// v is 0:
// synced += h / root;   next = synced;   m = -h / lr_sum;   moved = 0.   x and g are not looked at.
void sync_step(const ZeroOneBuffers& buffers, int64_t n, float lr_sum, float eps, float reach, bool masked);

}  // namespace thinwire::kernels
