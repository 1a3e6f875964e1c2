// Gradient all-reduce (DDP): every step every replica gets the mean gradient and applies the same update. The exact
// baseline that sends most: 2 (M-1)/M of the weights' bytes a rank and step, overlapped with backward in buckets
// (gradient_reducer.h). With a codec it sends less and is not quite exact.
//
// Weights and moments are equal on all replicas, bit for bit, after every step.
#pragma once

#include "thinwire/base/options.h"
#include "thinwire/base/units.h"
#include "thinwire/dp/gradient_reducer.h"

namespace thinwire::dp {

// [strategy] of all_reduce.
struct AllReduceOptions {
  Bytes bucket{1 << 20};  // least size of a bucket: small ones leave early, large ones pay the latency less often
  compress::CodecName codec = {};  // of gradients, with error feedback per bucket
};

template <class F>
void fields(F&& f, AllReduceOptions& o) {
  f("bucket", o.bucket, any(), "least size of what is sent at once, like \"1MiB\"");
  f("codec", o.codec, any(), compress::codec_help());
}

class AllReduce final : public Strategy {
 public:
  // Collective over groups.sync; x becomes replica 0's. `grad` is the flat gradient that step() will be given, and that
  // grad_ready() may send from: it must not be written between grad_ready() and step().
  AllReduce(const optim::Layout& layout, Groups groups, optim::RulePtr rule, const AllReduceOptions& options,
            at::Tensor x, at::Tensor grad);

  void grad_ready(int piece) override { gradient_.grad_ready(piece); }
  void step(const optim::Update& update) override;
  void finish(at::Tensor) override {}
  at::Tensor consensus(at::Tensor x) override { return x; }
  std::optional<GradientNorms> norms() const override { return norms_; }
  State state() override;
  void load(const State& state) override;

 private:
  const optim::RulePtr rule_;
  const at::Tensor grad_;
  GradientReducer gradient_;
  std::optional<GradientNorms> norms_;
};

}  // namespace thinwire::dp
