// The outer update of periodic averaging (thinwire/dp/periodic.h), in one pass over memory.
//
// For every element, with a = A / Lambda:
//   v = clamp(decay v + a, -bound, bound)              without v: v = clamp(a)
//   move = rate v                                      Nesterov: rate (beta v + a)
//   z += move
// and then, at a boundary where nothing travels (launch = false):
//   x = z
// or where the finished round's progress is sent off while A came from the round before (launch = true):
//   p = x - start;  A = p;  x = start = z + keep p     without start: the start was z, and keep is 0
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

struct OuterStep {
  bool apply = true;  // false: there is no A yet; z and v stay
  bool launch = false;
  bool nesterov = false;
  float decay = 0, scale = 1;  // beta times the ratio of learning rates; 1 / Lambda
  float bound = __builtin_inff();
  float rate = 1, beta = 0, keep = 0;
};

struct OuterBuffers {
  at::Tensor x, z, v, a, start;  // v and start may be undefined
};

// Returns the sum of move^2.
double outer_update(const OuterBuffers& buffers, Range range, const OuterStep& step);

}  // namespace thinwire::kernels
