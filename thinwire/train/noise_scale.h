// The batch size worth using (McCandlish et al., 1812.06162), measured while training: beyond it a larger batch mostly
// averages what is already known.
//
// With local squared gradient norms of batch b, on average S, and the squared norm L of the mean of batch B:
//   G2 = (B L - b S) / (B - b)        the true gradient's squared norm
//   trS = (S - L) / (1/b - 1/B)       the trace of one example's covariance
// Both are smoothed by themselves; the noise scale is trS / G2.
#pragma once

#include <optional>

#include "thinwire/base/state.h"

namespace thinwire::train {

class NoiseScale {
 public:
  // Norms of one step; nothing is added where they say nothing (one replica, no gradient).
  void add(double local_squares, double mean_squares, double local_batch, double whole_batch);
  // In the unit of the batches; nothing while it is not known.
  std::optional<double> batch() const;

  double g2() const { return g2_ / weight_; }
  double trace() const { return trace_ / weight_; }

  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix);

 private:
  double g2_ = 0, trace_ = 0, weight_ = 0;  // smoothed sums
};

}  // namespace thinwire::train
