#include "thinwire/dp/one_bit_lamb.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "thinwire/kernels/host_span.h"
#include "thinwire/kernels/reduce.h"
#include "thinwire/optim/lamb.h"

namespace thinwire::dp {
namespace {

constexpr double kSmoothTrust = 0.9;  // beta of cbar
constexpr double kChange = 0.1;       // of r, at most, in a step

std::span<double> numbers(const at::Tensor& t) { return kernels::host_span<double>(t); }

}  // namespace

OneBitLamb::OneBitLamb(const optim::Flat& weights, Groups groups, const OneBitOptions& options,
                       const LambFactor& factor, const optim::OptimOptions& optim)
    : OneBit(weights, std::move(groups), options, optim, /*carry_padding=*/true),
      factor_(factor),
      last_(at::zeros_like(m_)),
      fresh_(at::zeros_like(m_)) {
  check_fields("strategy", factor);
  const int64_t tensors = layout_.tensors;
  cbar_ = at::zeros({tensors}, at::kDouble), weight_ = at::zeros({tensors}, at::kDouble);
  ratio_ = at::ones({tensors}, at::kDouble), s_ = at::ones({tensors}, at::kDouble);
  norms_ = at::zeros({tensors, 2}, at::kDouble);
  largest_ = at::zeros({tensors}, at::kDouble), trust_ = at::ones({tensors}, at::kDouble);
}

kernels::LambStep OneBitLamb::lamb_step(const optim::Piece& piece) const {
  return {.moments = moments_, .weight_decay = static_cast<float>(weight_decay(piece.group))};
}

double OneBitLamb::rate(const optim::Update& u, int group) const {
  const auto c = corrections(u.t);
  return u.lr[group] * std::sqrt(c.second) / c.first;
}

void OneBitLamb::warm_up(const optim::Update& u) {
  const auto norms = numbers(norms_.zero_()), trust = numbers(trust_), cbar = numbers(cbar_), weight = numbers(weight_);
  for (const auto& piece : layout_.pieces) {
    const auto own = kernels::lamb_moments(u.x, u.grad, m_, v_, piece.range(), lamb_step(piece));
    norms[2 * piece.tensor] += own.x;
    norms[2 * piece.tensor + 1] += own.u;
  }
  if (groups_.over_shards) groups_.over_shards(norms_, optim::Over::sum);
  for (int64_t l = 0; l < layout_.tensors; ++l) {
    const double c = optim::trust_ratio(norms[2 * l], norms[2 * l + 1], optim_.trust);
    trust[l] = c;
    if (c == 1 && !habits_.counts_unit_trust) continue;
    cbar[l] = kSmoothTrust * cbar[l] + (1 - kSmoothTrust) * c;
    weight[l] = kSmoothTrust * weight[l] + (1 - kSmoothTrust);
  }
  for (const auto& piece : layout_.pieces)
    kernels::lamb_apply(u.next, u.x, m_, v_, piece.range(),
                        static_cast<float>(rate(u, piece.group) * trust[piece.tensor]), lamb_step(piece));
}

void OneBitLamb::freeze(const optim::Update&) {
  fresh_.copy_(v_);
  const auto sums = numbers(norms_.zero_());  // of squares, and how many
  for (const auto& piece : layout_.pieces) {
    sums[2 * piece.tensor] += kernels::sum_squares(m_, piece.range());
    sums[2 * piece.tensor + 1] += static_cast<double>(piece.numel);
  }
  if (groups_.over_shards) groups_.over_shards(norms_, optim::Over::sum);
  std::vector<double> rms;
  double sum = 0;
  for (int64_t l = 0; l < layout_.tensors; ++l) {
    rms.push_back(std::sqrt(sums[2 * l] / sums[2 * l + 1]));
    sum += rms.back();
  }
  const double mean = sum / static_cast<double>(rms.size());
  const auto s = numbers(s_);
  for (size_t l = 0; l < rms.size(); ++l) s[l] = rms[l] > 0 ? mean / rms[l] : 1;
}

double OneBitLamb::damped_ratio(const kernels::FrozenNorms& norms, double weight_decay, double before,
                                const LambFactor& factor) {
  double r = norms.ratio;
  if (weight_decay > 0 && norms.u > 0) {
    const double q = std::min(1.0, std::sqrt(norms.adam / norms.u));
    r = r * q + 1 - q;
  }
  r = std::clamp(r, factor.factor[0], factor.factor[1]);
  return std::clamp(r, before * (1 - kChange), before * (1 + kChange));
}

void OneBitLamb::compressed(const optim::Update& u) {
  const auto s = numbers(s_);
  auto scale = [&](const optim::Piece& piece) { return static_cast<float>(s[piece.tensor]); };
  for (const auto& piece : layout_.pieces)
    kernels::scaled_momentum(m_, last_, u.grad, piece.range(), moments_, scale(piece));
  compressed_mean_(m_);
  const auto norms = numbers(norms_.zero_()), largest = numbers(largest_.zero_());
  for (const auto& piece : layout_.pieces) {
    const auto own = kernels::lamb_renew(u.x, m_, last_, v_, fresh_, piece.range(), scale(piece), habits_.masks, reach_,
                                         lamb_step(piece));
    norms[2 * piece.tensor] += own.adam;
    norms[2 * piece.tensor + 1] += own.u;
    largest[piece.tensor] = std::max<double>(largest[piece.tensor], own.ratio);
  }
  if (groups_.over_shards) {
    groups_.over_shards(norms_, optim::Over::sum);
    groups_.over_shards(largest_, optim::Over::max);
  }
  const auto ratio = numbers(ratio_), trust = numbers(trust_), cbar = numbers(cbar_), weight = numbers(weight_);
  for (const auto& piece : layout_.pieces) {
    const int64_t l = piece.tensor;
    const auto step = lamb_step(piece);
    const kernels::FrozenNorms whole{norms[2 * l], norms[2 * l + 1], static_cast<float>(largest[l])};
    const double r = damped_ratio(whole, step.weight_decay, ratio[l], factor_);
    const double smooth = habits_.weighs_trust ? cbar[l] / weight[l] : cbar[l];
    kernels::lamb_apply(u.next, u.x, m_, v_, piece.range(), static_cast<float>(rate(u, piece.group) * smooth * r),
                        step);
    trust[l] = r;
  }
  for (const auto& piece : layout_.pieces) ratio[piece.tensor] = trust[piece.tensor];
}

State OneBitLamb::state() {
  State state = OneBit::state();
  state["fresh"] = {fresh_, Scope::all_equal};
  state["cbar"] = {cbar_, Scope::all_equal};
  state["cbar_weight"] = {weight_, Scope::all_equal};
  state["ratio"] = {ratio_, Scope::all_equal};
  state["scale"] = {s_, Scope::all_equal};
  return state;
}

void OneBitLamb::load(const State& state) {
  OneBit::load(state);
  get(state, "fresh", fresh_);
  get(state, "cbar", cbar_);
  get(state, "cbar_weight", weight_);
  get(state, "ratio", ratio_, 0, std::numeric_limits<float>::max());
  get(state, "scale", s_);
}

}  // namespace thinwire::dp
