// Gradient all-reduce: every step every replica gets the mean gradient. The exact, talkative baseline.
//
// The flat gradient is cut into buckets, from its end (where backward starts) to its beginning; a bucket leaves as soon
// as all its gradients and those of the buckets before it are ready, while backward goes on.
#pragma once

#include <mutex>
#include <vector>

#include "thinwire/base/options.h"
#include "thinwire/base/units.h"
#include "thinwire/dp/strategy.h"
#include "thinwire/optim/layout.h"

namespace thinwire::dp {

struct AllReduceOptions {
  Bytes bucket{1 << 20};  // least size of a bucket: small ones leave early, large ones pay the latency less often
};

template <class F>
void fields(F&& f, AllReduceOptions& o) {
  f("bucket", o.bucket, any(), "least size of what is sent at once, like \"1MiB\"");
}

// [begin, end) of the flat gradient, and how many pieces it waits for.
struct Bucket {
  int64_t begin, end;
  int pieces;
};
// Bucket 0 holds the last pieces. A pure function.
std::vector<Bucket> make_buckets(const optim::Layout& layout, int64_t least_bytes);

class AllReduce final : public Strategy {
 public:
  // `grad` is the flat gradient that step() will be given.
  AllReduce(const optim::Layout& layout, Ranks ranks, optim::RulePtr rule, const AllReduceOptions& options,
            at::Tensor x, at::Tensor grad);

  void grad_ready(int piece) override;
  void step(const optim::Update& update) override;
  void finish(at::Tensor) override {}
  at::Tensor consensus(at::Tensor x) override { return x; }
  State state() override;
  void load(const State& state) override;

 private:
  void launch_ready();  // under mutex_

  const Ranks ranks_;
  const optim::RulePtr rule_;
  const at::Tensor grad_;
  const std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_piece_;

  std::mutex mutex_;
  std::vector<int> missing_;  // pieces a bucket still waits for
  std::vector<bool> ready_;   // pieces seen in this step
  std::vector<comm::WorkPtr> works_;
};

}  // namespace thinwire::dp
