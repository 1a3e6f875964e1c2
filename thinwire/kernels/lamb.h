// The passes of LAMB and of 1-bit LAMB over one tensor (You et al., 1904.00962; Li et al., 2104.06069). With
//
//   u = m / (sqrt(v) + eps) + wd x
//
// all sums are in fp64, in an order fixed by position. A layer-wise rule needs norms before it can step, so there are
// two passes over memory: one that returns the norms, and one that applies the step they give.
#pragma once

#include "thinwire/kernels/moments.h"
#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

// What an update of one tensor needs beside its numbers.
struct LambStep {
  Moments moments;
  float weight_decay;
};
struct LambNorms {
  double x = 0, u = 0;  // squared
};
// m = beta1 m + (1-beta1) g;   v = beta2 v + (1-beta2) g^2;   the squared norms of x and u.
LambNorms lamb_moments(const at::Tensor& x, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v, Range range,
                       const LambStep& step);

// next = x - rate u, with the m and v that lamb_moments() left. next may be x.
void lamb_apply(const at::Tensor& next, const at::Tensor& x, const at::Tensor& m, const at::Tensor& v, Range range,
                float rate, const LambStep& step);

// 1-bit LAMB, before the exchange: last = m;   m = (beta1 m + (1-beta1) g) scale, which is what is sent.
void scaled_momentum(const at::Tensor& m, const at::Tensor& last, const at::Tensor& g, Range range,
                     const Moments& moments, float scale);

struct FrozenNorms {
  double adam = 0, u = 0;  // squared norms of m / (sqrt(v) + eps) and of u
  float ratio = 0;         // the largest (sqrt(v) + eps) / (sqrt(fresh) + eps)
};
// After the exchange: what arrived in m becomes the momentum again, and the gradient it stands for renews `fresh`:
//   m = m / scale, within reach (reach.h) of sqrt(v) + eps, 0 where masked and v is 0
//   ghat = (m - beta1 last) / (1-beta1);   fresh = beta2 fresh + (1-beta2) ghat^2
FrozenNorms lamb_renew(const at::Tensor& x, const at::Tensor& m, const at::Tensor& last, const at::Tensor& v,
                       const at::Tensor& fresh, Range range, float scale, bool masked, float reach,
                       const LambStep& step);

}  // namespace thinwire::kernels
