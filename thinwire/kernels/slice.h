// One slice of the flat weights: taken out into packed vectors, and merged back (thinwire/dp/slices.h).
//
// A slice is a list of parts, in ascending order, that do not overlap; a packed vector holds them one after the other.
// Names below: x, z, m and e are flat, y, answer, message and jump are packed; a vector may be longer than what its
// parts use. Each function is one pass over the slice; numbers outside it are neither read nor written.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace thinwire::kernels {

// Neighbouring numbers of a slice.
struct Part {
  int64_t at, packed, numel;  // where it lies in flat and in packed vectors
  bool fresh = false;         // it was never merged before

  friend bool operator==(const Part&, const Part&) = default;
};
using Parts = std::span<const Part>;

// packed = flat[S], and the other way round.
void slice_gather(Parts parts, const at::Tensor& flat, const at::Tensor& packed);
void slice_scatter(Parts parts, const at::Tensor& packed, const at::Tensor& flat);

// y = x[S];  message = y - z[S], or y where z is undefined.
void slice_take(Parts parts, const at::Tensor& x, const at::Tensor& z, const at::Tensor& y, const at::Tensor& message);

// What becomes of a mean `answer` that left as y, and of what x has learnt since (x - y). dp/slices.h says why.
enum class Merge {
  overwrite,  // x = answer
  delta,      // x += answer - y
  ema,        // e = mu e + (1 - mu) (x - y), or x - y in fresh parts;  x = answer + e
  anchor,     // m = beta m + answer;  z += alpha m;  x += z - y
};

struct SliceStep {
  Merge merge = Merge::overwrite;
  float mu = 0, one_minus_mu = 1;
  float alpha = 1, beta = 0;
};

// What a merge reads and writes.
struct SliceBuffers {
  at::Tensor x, answer, y;
  at::Tensor e = {}, z = {}, m = {};  // where the merge has them; anchor without m: beta is 0
  at::Tensor jump = {};               // what was added to x, if defined
};

// Merges by step.merge; writes x, and e, z, m and jump where they are used.
void slice_merge(Parts parts, const SliceBuffers& buffers, const SliceStep& step);

// y += jump wherever the slice of y shares parts with the slice of jump.
void slice_carry(Parts from, const at::Tensor& jump, Parts to, const at::Tensor& y);

}  // namespace thinwire::kernels
