#include "thinwire/dp/one_bit_lamb.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "thinwire/kernels/reduce.h"
#include "thinwire/optim/lamb.h"

namespace thinwire::dp {
namespace {

constexpr double kSmoothTrust = 0.9;  // beta of cbar
constexpr double kChange = 0.1;       // of r, at most, in a step

double* numbers(const at::Tensor& t) { return t.mutable_data_ptr<double>(); }
float* at_piece(const at::Tensor& t, const optim::Piece& piece) { return t.mutable_data_ptr<float>() + piece.at; }

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
  const auto [b1, b2] = optim_.betas;
  return {.beta1 = static_cast<float>(b1),
          .one_minus_beta1 = static_cast<float>(1 - b1),
          .beta2 = static_cast<float>(b2),
          .one_minus_beta2 = static_cast<float>(1 - b2),
          .eps = static_cast<float>(optim_.eps),
          .weight_decay = static_cast<float>(layout_.groups[piece.group].weight_decay * optim_.weight_decay)};
}

double OneBitLamb::rate(const optim::Update& u, int group) const {
  return u.lr[group] * std::sqrt(bias_correction2(u.t)) / bias_correction1(u.t);
}

void OneBitLamb::warm_up(const optim::Update& u) {
  double* norms = numbers(norms_.zero_());
  for (const auto& piece : layout_.pieces) {
    const auto own = kernels::lamb_moments(at_piece(u.x, piece), at_piece(u.grad, piece), at_piece(m_, piece),
                                           at_piece(v_, piece), piece.numel, lamb_step(piece));
    norms[2 * piece.tensor] += own.x;
    norms[2 * piece.tensor + 1] += own.u;
  }
  if (groups_.over_shards) groups_.over_shards(norms_, optim::Over::sum);
  for (int64_t l = 0; l < layout_.tensors; ++l) {
    const double c = optim::trust_ratio(norms[2 * l], norms[2 * l + 1], optim_.trust);
    numbers(trust_)[l] = c;
    if (deepspeed_ && c == 1) continue;
    numbers(cbar_)[l] = kSmoothTrust * numbers(cbar_)[l] + (1 - kSmoothTrust) * c;
    numbers(weight_)[l] = kSmoothTrust * numbers(weight_)[l] + (1 - kSmoothTrust);
  }
  for (const auto& piece : layout_.pieces) {
    const auto step = lamb_step(piece);
    kernels::lamb_apply(at_piece(u.next, piece), at_piece(u.x, piece), at_piece(m_, piece), at_piece(v_, piece),
                        piece.numel, static_cast<float>(rate(u, piece.group) * numbers(trust_)[piece.tensor]), step.eps,
                        step.weight_decay);
  }
}

void OneBitLamb::freeze(const optim::Update&) {
  fresh_.copy_(v_);
  double* sums = numbers(norms_.zero_());  // of squares, and how many
  for (const auto& piece : layout_.pieces) {
    sums[2 * piece.tensor] += kernels::sum_squares(m_.narrow(0, piece.at, piece.numel));
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
  for (size_t l = 0; l < rms.size(); ++l) numbers(s_)[l] = rms[l] > 0 ? mean / rms[l] : 1;
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
  auto scale = [&](const optim::Piece& piece) { return static_cast<float>(numbers(s_)[piece.tensor]); };
  for (const auto& piece : layout_.pieces) {
    const auto step = lamb_step(piece);
    kernels::scaled_momentum(at_piece(m_, piece), at_piece(last_, piece), at_piece(u.grad, piece), piece.numel,
                             step.beta1, step.one_minus_beta1, scale(piece));
  }
  compressed_mean_(m_);
  double *norms = numbers(norms_.zero_()), *largest = numbers(largest_.zero_());
  for (const auto& piece : layout_.pieces) {
    const auto own =
        kernels::lamb_renew(at_piece(u.x, piece), at_piece(m_, piece), at_piece(last_, piece), at_piece(v_, piece),
                            at_piece(fresh_, piece), piece.numel, scale(piece), !deepspeed_, reach_, lamb_step(piece));
    norms[2 * piece.tensor] += own.adam;
    norms[2 * piece.tensor + 1] += own.u;
    largest[piece.tensor] = std::max<double>(largest[piece.tensor], own.ratio);
  }
  if (groups_.over_shards) {
    groups_.over_shards(norms_, optim::Over::sum);
    groups_.over_shards(largest_, optim::Over::max);
  }
  for (const auto& piece : layout_.pieces) {
    const int64_t l = piece.tensor;
    const auto step = lamb_step(piece);
    const kernels::FrozenNorms whole{norms[2 * l], norms[2 * l + 1], static_cast<float>(largest[l])};
    const double r = damped_ratio(whole, step.weight_decay, numbers(ratio_)[l], factor_);
    const double cbar = deepspeed_ ? numbers(cbar_)[l] : numbers(cbar_)[l] / numbers(weight_)[l];
    kernels::lamb_apply(at_piece(u.next, piece), at_piece(u.x, piece), at_piece(m_, piece), at_piece(v_, piece),
                        piece.numel, static_cast<float>(rate(u, piece.group) * cbar * r), step.eps, step.weight_decay);
    numbers(trust_)[l] = r;
  }
  for (const auto& piece : layout_.pieces) numbers(ratio_)[piece.tensor] = numbers(trust_)[piece.tensor];
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
  get(state, "ratio", ratio_);
  get(state, "scale", s_);
}

}  // namespace thinwire::dp
