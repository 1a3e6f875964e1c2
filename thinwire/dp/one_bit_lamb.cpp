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

OneBitLamb::OneBitLamb(const optim::Flat& weights, Ranks ranks, const OneBitOptions& options, const LambFactor& factor,
                       const optim::OptimOptions& optim)
    : OneBit(weights, std::move(ranks), options, optim, /*carry_padding=*/true),
      factor_(factor),
      last_(at::zeros_like(m_)),
      fresh_(at::zeros_like(m_)) {
  check_fields("strategy", factor);
  const auto tensors = static_cast<int64_t>(layout_.pieces.size());
  cbar_ = at::zeros({tensors}, at::kDouble), weight_ = at::zeros({tensors}, at::kDouble);
  ratio_ = at::ones({tensors}, at::kDouble), s_ = at::ones({tensors}, at::kDouble);
}

kernels::LambStep OneBitLamb::lamb_step(const optim::Piece& piece) const {
  const auto [b1, b2] = optim_.betas;
  return {.beta1 = static_cast<float>(b1),
          .one_minus_beta1 = static_cast<float>(1 - b1),
          .beta2 = static_cast<float>(b2),
          .one_minus_beta2 = static_cast<float>(1 - b2),
          .eps = static_cast<float>(optim_.eps),
          .weight_decay = static_cast<float>(piece.group == optim::kDecayed ? optim_.weight_decay : 0)};
}

double OneBitLamb::rate(const optim::Update& u, int group) const {
  return u.lr[group] * std::sqrt(bias_correction2(u.t)) / bias_correction1(u.t);
}

void OneBitLamb::warm_up(const optim::Update& u) {
  for (size_t l = 0; l < layout_.pieces.size(); ++l) {
    const auto& piece = layout_.pieces[l];
    const auto step = lamb_step(piece);
    const float *x = at_piece(u.x, piece), *g = at_piece(u.grad, piece);
    float *m = at_piece(m_, piece), *v = at_piece(v_, piece);
    const auto norms = kernels::lamb_moments(x, g, m, v, piece.numel, step);
    const double c = optim::trust_ratio(norms.x, norms.u, optim_.trust);
    if (!deepspeed_ || c != 1) {
      numbers(cbar_)[l] = kSmoothTrust * numbers(cbar_)[l] + (1 - kSmoothTrust) * c;
      numbers(weight_)[l] = kSmoothTrust * numbers(weight_)[l] + (1 - kSmoothTrust);
    }
    kernels::lamb_apply(at_piece(u.next, piece), x, m, v, piece.numel, static_cast<float>(rate(u, piece.group) * c),
                        step.eps, step.weight_decay);
  }
}

void OneBitLamb::freeze(const optim::Update&) {
  fresh_.copy_(v_);
  std::vector<double> rms;
  double sum = 0;
  for (const auto& piece : layout_.pieces) {
    rms.push_back(
        std::sqrt(kernels::sum_squares(m_.narrow(0, piece.at, piece.numel)) / static_cast<double>(piece.numel)));
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
  for (size_t l = 0; l < layout_.pieces.size(); ++l) {
    const auto& piece = layout_.pieces[l];
    const auto step = lamb_step(piece);
    kernels::scaled_momentum(at_piece(m_, piece), at_piece(last_, piece), at_piece(u.grad, piece), piece.numel,
                             step.beta1, step.one_minus_beta1, static_cast<float>(numbers(s_)[l]));
  }
  compressed_mean_(m_);
  for (size_t l = 0; l < layout_.pieces.size(); ++l) {
    const auto& piece = layout_.pieces[l];
    const auto step = lamb_step(piece);
    const float* x = at_piece(u.x, piece);
    const auto norms = kernels::lamb_renew(x, at_piece(m_, piece), at_piece(last_, piece), at_piece(v_, piece),
                                           at_piece(fresh_, piece), piece.numel, static_cast<float>(numbers(s_)[l]),
                                           !deepspeed_, step);
    numbers(ratio_)[l] = damped_ratio(norms, step.weight_decay, numbers(ratio_)[l], factor_);
    const double cbar = deepspeed_ ? numbers(cbar_)[l] : numbers(cbar_)[l] / numbers(weight_)[l];
    kernels::lamb_apply(at_piece(u.next, piece), x, at_piece(m_, piece), at_piece(v_, piece), piece.numel,
                        static_cast<float>(rate(u, piece.group) * cbar * numbers(ratio_)[l]), step.eps,
                        step.weight_decay);
  }
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
