// The mean gradient over the replicas, exchanged piece by piece while backward still runs.
//
// The flat gradient is divided into buckets, from its end (where backward starts) to its beginning. A bucket's
// all-reduce is launched as soon as all its gradients and those of the buckets before it are ready: in index order, so
// that all ranks make the same calls whatever order their hooks run in. What travels early is hidden behind the rest of
// backward; only the last buckets' time shows. Cost: 2 (M-1)/M of the gradient's bytes a rank and step, two latencies a
// bucket, overlapped. With a codec buckets start on block boundaries, and what it loses of a bucket is added to that
// bucket in the next step.
#pragma once

#include <mutex>
#include <vector>

#include "thinwire/compress/compressed_all_reduce.h"
#include "thinwire/dp/strategy.h"
#include "thinwire/optim/layout.h"

namespace thinwire::dp {

// [begin, end) of the flat gradient, and how many pieces it waits for.
struct Bucket {
  int64_t begin, end;
  int pieces;
};
// Bucket 0 holds the last pieces; with `whole_blocks` all start on a block boundary. A pure function.
std::vector<Bucket> make_buckets(const optim::Layout& layout, int64_t least_bytes, bool whole_blocks = false);

class GradientReducer {
 public:
  // `grad` is the flat gradient that backward fills, kept by reference. Collective.
  GradientReducer(const optim::Layout& layout, comm::GroupPtr group, at::Tensor grad, int64_t bucket_bytes,
                  const compress::CodecName& codec);

  // The gradient of a piece is complete. From backward hooks, any thread.
  void grad_ready(int piece);
  // Launches the buckets that no hook completed, and returns what must be waited for before `grad` holds the mean. Once
  // a step, after backward; the next step's hooks may run after those waits.
  std::vector<comm::WorkPtr> take();
  // Whether grad_ready() was called since.
  bool begun() const;
  // After those waits: both squared norms of this step, of this rank's part of the replica: fp64, local and mean.
  at::Tensor squares() const;

  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix);

 private:
  void launch_ready();  // under mutex_

  const comm::GroupPtr group_;
  const at::Tensor grad_;
  const optim::Layout layout_;
  const std::vector<Bucket> buckets_;
  std::vector<compress::Errors> errors_;                             // by bucket, with a codec, like the next
  std::vector<at::Tensor> valid_;                                    // ValidCounts of each bucket
  const std::unique_ptr<compress::CompressedAllReduce> compressed_;  // null without a codec
  std::vector<int> bucket_of_piece_;

  mutable std::mutex mutex_;
  std::vector<int> missing_;  // pieces a bucket still waits for
  std::vector<bool> ready_;   // pieces seen in this step
  std::vector<comm::WorkPtr> works_;
  double local_squares_ = 0;
};

}  // namespace thinwire::dp
