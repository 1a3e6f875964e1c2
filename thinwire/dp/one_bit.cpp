#include "thinwire/dp/one_bit.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include <cmath>

#include "thinwire/base/errors.h"
#include "thinwire/dp/deepspeed.h"
#include "thinwire/kernels/host_span.h"
#include "thinwire/kernels/reach.h"
#include "thinwire/kernels/reduce.h"

namespace thinwire::dp {
namespace {

constexpr int64_t kBucketBytes = 1 << 20;
constexpr double kSmooth = 0.9;

compress::CodecName warmup_codec(int64_t bits) {
  return {bits == 32 ? std::string("none") : "int" + std::to_string(bits)};
}

// One scale a block.
class BlockMean final : public OneBitMean {
 public:
  BlockMean(comm::GroupPtr group, const optim::Layout& layout)
      : valid_(optim::valid_counts(layout)),
        compressed_(std::move(group), compress::make_codec("one_bit"),
                    [layout](int64_t i) { return "the momentum of " + optim::place_in(layout, i); }),
        errors_(compressed_.errors(layout.numel, layout.options)) {}
  void exchange_(at::Tensor x, Meter& meter) override { meter.wait(*compressed_.start(x, errors_, valid_)); }
  void forget() override { errors_.reset(); }
  void put(State& state) const override { errors_.put(state, ""); }
  void get(const State& state) override { errors_.get(state, ""); }

 private:
  const at::Tensor valid_;
  compress::CompressedAllReduce compressed_;
  compress::Errors errors_;
};

}  // namespace

void read(const Value& value, const std::string& name, WarmupBits& bits, const Limit& limit) {
  WarmupBits given;
  thinwire::read(value, name, given.count, limit);
  if (given.count != 32 && given.count != 8 && given.count != 4)
    throw BadInput("{} must be 32, 8 or 4, got {}", name, given.count);
  bits = given;
}

OneBit::OneBit(const optim::Flat& weights, Groups groups, const OneBitOptions& options,
               const optim::OptimOptions& optim, bool carry_padding)
    : Strategy(std::move(groups)),
      layout_(weights.layout()),
      optim_(optim),
      habits_(options.mode == "deepspeed" ? deepspeed_habits() : Habits{}),
      reach_(options.reach && habits_.reaches && groups_.sync->size() > 1  // one replica's momentum is its own
                 ? static_cast<float>(kernels::adam_reach(optim.betas[0], optim.betas[1]))
                 : kernels::kNoReach),
      moments_(kernels::moments(optim.betas, optim.eps)),
      m_(at::zeros_like(weights.x)),
      v_(at::zeros_like(weights.x)),
      grad_(weights.grad),
      gradient_(layout_, groups_.sync, weights.grad, kBucketBytes, warmup_codec(options.warmup_bits.count)),
      watch_(options.freeze, optim.betas[1], optim.warmup_steps, layout_.tensors),
      v_sums_(at::zeros({layout_.tensors}, at::kDouble)) {
  check_fields("strategy", options);
  check_fields("optim", optim);
  groups_.sync->broadcast_(weights.x, 0)->wait();
  mean_ = options.mode == "deepspeed" ? deepspeed_mean(groups_.sync, layout_, carry_padding)
                                      : std::make_unique<BlockMean>(groups_.sync, layout_);
}

void OneBit::grad_ready(int piece) {
  if (wants_gradient_mean(steps_ + 1)) gradient_.grad_ready(piece);
}

void OneBit::step(const optim::Update& u) {
  TORCH_CHECK(u.grad.is_set_to(grad_), "[dp.one_bit] step() must be given the gradient the strategy was made with");
  const int64_t t = ++steps_;
  norms_ = {};
  if (wants_gradient_mean(t) && (!u.skip || gradient_.begun())) {
    for (auto& work : gradient_.take()) wait(*work);
    const at::Tensor squares = gradient_.squares();
    if (groups_.over_replica) groups_.over_replica(squares, optim::Over::sum);
    norms_ = {squares[0].item<double>(), squares[1].item<double>()};
    if (norms_->local > 0) {
      share_sum_ = kSmooth * share_sum_ + norms_->mean / norms_->local;
      share_weight_ = kSmooth * share_weight_ + 1;
    }
  }
  if (u.skip || (habits_.drops_first_gradient && t == 1)) return optim::keep(u);
  if (frozen()) {
    if (!std::isinf(optim_.clip)) clip(u.grad, estimated_norm(u.grad));
    compressed(u);
    return;
  }
  if (norms_) clip(u.grad, std::sqrt(norms_->mean));
  warm_up(u);
  if (watch_.automatic()) {
    const auto sums = kernels::host_span<double>(v_sums_.zero_());
    for (const auto& piece : layout_.pieces) sums[piece.tensor] += kernels::sum_magnitudes(v_, piece.range());
    if (groups_.over_shards) groups_.over_shards(v_sums_, optim::Over::sum);
  }
  if (!watch_.due(t, kernels::host_span<const double>(v_sums_))) return;
  frozen_at_ = t;
  freeze(u);
}

void OneBit::clip(const at::Tensor& grad, double norm) const {
  if (norm > optim_.clip) grad.mul_(static_cast<float>(optim_.clip / (norm + 1e-6)));
}

double OneBit::whole_squares(const at::Tensor& grad) {
  const double own = optim::sum_squares(layout_, grad);
  if (!groups_.over_replica) return own;
  const at::Tensor sum = at::scalar_tensor(own, at::kDouble);
  groups_.over_replica(sum, optim::Over::sum);
  return sum.item<double>();
}

double OneBit::estimated_norm(const at::Tensor& grad) {
  double squares = whole_squares(grad);
  if (share_weight_ > 0) squares *= share_sum_ / share_weight_;
  if (clips_together() && groups_.sync->size() > 1) {
    at::Tensor mean = at::empty({1}, at::kDouble).fill_(squares);
    wait(*groups_.sync->all_reduce_(mean, comm::Reduce::mean, comm::TrafficKind::control));
    squares = mean.item<double>();
  }
  return std::sqrt(squares);
}

optim::Corrections OneBit::corrections(int64_t t) const {
  const optim::AdamwOptions adamw{.betas = optim_.betas, .bias_correction = optim_.bias_correction};
  return {optim::corrections(adamw, t).first, optim::corrections(adamw, frozen() ? frozen_at_ : t).second};
}

State OneBit::state() {
  State state{{"m", {m_, Scope::all_equal}}, {"v", {v_, Scope::all_equal}}};
  mean_->put(state);
  gradient_.put(state, "warmup.");
  watch_.put(state, "");
  put(state, "steps", steps_, Scope::all_equal);
  put(state, "frozen_at", frozen_at_, Scope::all_equal);
  put(state, "share_sum", share_sum_, Scope::per_replica);
  put(state, "share_weight", share_weight_, Scope::per_replica);
  return state;
}

void OneBit::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
  mean_->get(state);
  gradient_.get(state, "warmup.");
  watch_.get(state, "");
  steps_ = get_int(state, "steps", 0);
  frozen_at_ = get_int(state, "frozen_at", 0, steps_);
  share_sum_ = get_double(state, "share_sum", 0);
  share_weight_ = get_double(state, "share_weight", 0);
}

}  // namespace thinwire::dp
