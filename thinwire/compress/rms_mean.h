// The compressed mean exactly as DeepSpeed 0.19.6 computes it, for comparing trajectories with it. Not for training:
// use CompressedAllReduce. It differs in that one RMS scale serves a whole buffer, that the padding to M lcm(M, 8)
// numbers takes part in scales and carries errors, and, with `carry_padding`, that the padding's input is its own last
// output.
#pragma once

#include <vector>

#include "thinwire/base/state.h"
#include "thinwire/comm/group.h"
#include "thinwire/kernels/range.h"

namespace thinwire::compress {

class RmsMean {
 public:
  // Of these ranges of a flat vector; what lies between them is neither read nor written.
  RmsMean(comm::GroupPtr group, std::vector<kernels::Range> ranges, bool carry_padding,
          at::TensorOptions options = at::kFloat);
  // x = the mean of all x, but for what is now in the errors. Collective, blocking. c10::Error if a number is not
  // finite.
  void mean_(at::Tensor x);
  void reset();  // errors
  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix);

  // For tests: the last scales of this rank as worker and as server.
  float worker_scale = 0, server_scale = 0;

 private:
  const comm::GroupPtr group_;
  const std::vector<kernels::Range> ranges_;
  const int64_t n_, chunk_;
  const bool carry_padding_;
  at::Tensor padded_, worker_error_, server_error_, mean_chunk_;  // M chunks, M chunks, one, one
  at::Tensor sent_, received_, answer_, answers_;                 // bytes: a scale, then bits
};

}  // namespace thinwire::compress
