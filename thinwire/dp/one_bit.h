// What one_bit_adam, one_bit_lamb and zero_one_adam share: a warm-up on mean gradients, a second moment that freezes,
// and afterwards one bit per number.
//
// They own their update rule: lr, betas, eps, weight decay, clipping and schedule are those of [optim], its name is not
// used. Where the gradient was exactly zero in all of warm-up, nothing is learnt later either (v is 0 there): a sign
// cannot say zero, so those coordinates are masked. Where v has nearly vanished a sign is too far a step: what arrives
// is clamped to the reach that Adam's own momentum has (thinwire/kernels/reach.h). Clipping: during warm-up by the norm
// of the mean gradient; later that norm is unknown, so it is estimated from the squared norms of the local gradients
// times the share that their mean had of them at the end of warm-up (one number reduced). All ranks scale by the same
// factor.
//
// mode = "deepspeed" has the habits of deepspeed.h instead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/dp/freeze.h"
#include "thinwire/dp/gradient_reducer.h"
#include "thinwire/optim/adamw.h"
#include "thinwire/optim/catalog.h"
#include "thinwire/optim/flat.h"

namespace thinwire::dp {

// Of a number of the gradient during warm-up: 32, 8 or 4.
struct WarmupBits {
  int64_t count = 32;
};
void read(const Value& value, const std::string& name, WarmupBits& bits, const Limit& limit);
inline Value to_value(const WarmupBits& bits) { return bits.count; }

// [strategy] of all three.
struct OneBitOptions {
  Freeze freeze;               // the last step of warm-up, or auto
  WarmupBits warmup_bits;      // of gradients during warm-up
  bool reach = true;           // of the momentum that arrives (thinwire/kernels/reach.h); not in deepspeed mode
  std::string mode = "block";  // block | deepspeed
};

template <class F>
void fields(F&& f, OneBitOptions& o) {
  f("freeze", o.freeze, at_least(1), "last step of warm-up, or \"auto\": when the second moment has stopped growing");
  f("warmup_bits", o.warmup_bits, any(), "bits a number of the gradient has during warm-up: 32, 8 or 4");
  f("reach", o.reach, any(), "clamp what arrives to what Adam's momentum could be; false: as published");
  f("mode", o.mode, one_of({"block", "deepspeed"}), "one scale a block of 1024; or DeepSpeed 0.19.6's habits");
}

// What a mode decides; the defaults are ours.
struct Habits {
  bool masks = true;                  // what arrives where v is 0 is 0
  bool reaches = true;                // what arrives is clamped, where the options say so
  bool drops_first_gradient = false;  // the first step leaves the weights as they are
  bool counts_unit_trust = true;      // 1-bit LAMB: a trust ratio of exactly 1 is smoothed like any other
  bool weighs_trust = true;           // 1-bit LAMB: the smoothed trust ratio is divided by its weights
};

// The mean of a flat vector over the replicas, one bit per number, with error feedback. Ours is the compressed
// all-reduce; deepspeed.h has the other.
class OneBitMean {
 public:
  virtual ~OneBitMean() = default;
  virtual void exchange_(at::Tensor x, Meter& meter) = 0;  // waited for. Collective
  virtual void forget() = 0;                               // what was lost
  virtual void put(State& state) const = 0;
  virtual void get(const State& state) = 0;
};
using OneBitMeanPtr = std::unique_ptr<OneBitMean>;

// The base of the three: step() exchanges, clips, and calls one of the virtuals below. A derived class has the formula,
// and no communication but compressed_mean_().
class OneBit : public Strategy {
 public:
  void grad_ready(int piece) final;
  void step(const optim::Update& update) final;
  void finish(at::Tensor) override {}
  at::Tensor consensus(at::Tensor x) override { return x; }
  std::optional<GradientNorms> norms() const final { return norms_; }
  State state() override;
  void load(const State& state) override;

  // Whether warm-up is over. Equal on all replicas.
  bool frozen() const { return frozen_at_ > 0; }

 protected:
  // `carry_padding`: a habit of "deepspeed" mode (deepspeed.h).
  OneBit(const optim::Flat& weights, Groups groups, const OneBitOptions& options, const optim::OptimOptions& optim,
         bool carry_padding);

  // One step each. In warm_up() u.grad is the (clipped) mean gradient, in compressed() the (clipped) local one.
  virtual void warm_up(const optim::Update& u) = 0;
  virtual void compressed(const optim::Update& u) = 0;
  virtual void freeze(const optim::Update& u) {}
  // Whether step t wants the mean gradient in full precision; the rest of warm-up takes what it can get.
  virtual bool wants_gradient_mean(int64_t t) const { return !frozen(); }
  // Whether the frozen stage shares one factor of clipping; otherwise each rank takes its own.
  virtual bool clips_together() const { return true; }

  // For derived classes.
  void clip(const at::Tensor& grad, double norm) const;
  double whole_squares(const at::Tensor& grad);  // of the whole replica
  void compressed_mean_(at::Tensor x) { mean_->exchange_(std::move(x), *groups_.meter); }
  void forget_errors() { mean_->forget(); }
  // What bias correction divides by: 1 - beta^t of both moments, or 1; the second is constant from the freeze on.
  optim::Corrections corrections(int64_t t) const;
  double weight_decay(int group) const { return layout_.groups[group].weight_decay * optim_.weight_decay; }

  const optim::Layout layout_;
  const optim::OptimOptions optim_;
  const Habits habits_;
  const float reach_;  // kernels::kNoReach where it is off
  const kernels::Moments moments_;
  at::Tensor m_, v_;  // flat, equal on all replicas wherever they were just exchanged

 private:
  double estimated_norm(const at::Tensor& grad);

  const at::Tensor grad_;
  GradientReducer gradient_;
  OneBitMeanPtr mean_;
  FreezeWatch watch_;
  at::Tensor v_sums_;  // ||v||_1 by tensor
  int64_t steps_ = 0, frozen_at_ = 0;
  double share_sum_ = 0, share_weight_ = 0;  // of the mean gradient in this rank's, squared norms, smoothed
  std::optional<GradientNorms> norms_;
};

}  // namespace thinwire::dp
