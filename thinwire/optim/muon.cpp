#include "thinwire/optim/muon.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "thinwire/kernels/adamw.h"

namespace thinwire::optim {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;  // of the iteration
constexpr int kIterations = 5;
constexpr double kLeastNorm = 1e-7;

// Pieces that no matrix lies in, one by one: what lies between them is not AdamW's to touch.
std::vector<Span> without_matrices(const Layout& layout) {
  std::vector<Span> others;
  for (const Piece& piece : layout.pieces)
    if (std::ranges::none_of(layout.matrices,
                             [&](const Matrix& m) { return piece.at <= m.at && m.at < piece.at + piece.numel; }))
      others.push_back({piece.at, piece.numel, piece.group});
  return others;
}

int64_t numel(const std::vector<Span>& spans) {
  int64_t sum = 0;
  for (const Span& span : spans) sum += span.numel;
  return sum;
}

}  // namespace

Muon::Muon(const Layout& layout, const MuonOptions& options)
    : matrices_(layout.matrices),
      others_(without_matrices(layout)),
      groups_(layout.groups),
      options_(options),
      m_(at::zeros({layout.numel}, layout.options)),
      v_(at::zeros({numel(others_)}, layout.options)) {
  TORCH_CHECK(!matrices_.empty(), "[optim.muon] there is no weight matrix between embedding and head");
  int64_t largest = 0;
  for (const Matrix& m : matrices_) largest = std::max(largest, m.rows * m.columns);
  u_ = at::empty({largest}, layout.options);
  if (options_.nadamw) rates_.emplace(*options_.nadamw);
}

Muon::Scratch& Muon::scratch(int64_t rows, int64_t columns) {
  auto [it, fresh] = scratch_.try_emplace({rows, columns});
  if (fresh) {
    const auto [shorter, longer] = std::minmax(rows, columns);
    auto make = [&](int64_t r, int64_t c) { return at::empty({r, c}, m_.options().dtype(options_.ns_dtype)); };
    it->second = {.start = make(rows, columns),
                  .x = make(shorter, longer),
                  .next = make(shorter, longer),
                  .gram = make(shorter, shorter),
                  .update = make(shorter, shorter)};
  }
  return it->second;
}

at::Tensor Muon::orthogonalised(const at::Tensor& u) {
  auto& s = scratch(u.size(0), u.size(1));
  const bool tall = u.size(0) > u.size(1);
  s.start.copy_(u);
  s.start.div_(s.start.norm().clamp_min_(kLeastNorm));
  at::Tensor x = tall ? s.start.t() : s.start;
  for (int i = 0; i < kIterations; ++i) {
    at::mm_out(s.gram, x, x.t());
    at::addmm_out(s.update, s.gram, s.gram, s.gram, kB, kC);
    at::addmm_out(s.next, x, s.update, x, kA, 1);
    std::swap(s.x, s.next);
    x = s.x;
  }
  return tall ? x.t() : x;
}

void Muon::apply(const Update& u) {
  const double mu = options_.momentum;
  for (const auto& [at, rows, columns, group] : matrices_) {
    const double lr = u.lr[group], decay = 1 - lr * groups_[group].weight_decay * options_.weight_decay;
    auto part = [&, at = at, rows = rows, columns = columns](const at::Tensor& flat) {
      return flat.narrow(0, at, rows * columns).view({rows, columns});
    };
    at::Tensor b = part(m_), next = part(u.next), direction = u_.narrow(0, 0, rows * columns).view({rows, columns});
    b.lerp_(part(u.grad), 1 - mu);
    at::lerp_out(direction, part(u.grad), b, mu);
    const double step = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns))) * lr;
    if (!u.next.is_same(u.x)) next.copy_(part(u.x));
    next.mul_(decay);
    next.add_(orthogonalised(direction), -step);
  }
  apply_rest(u);
}

void Muon::apply_rest(const Update& u) {
  const AdamwOptions& adamw = options_.adamw;
  const auto moments = kernels::moments(adamw.betas, adamw.eps);
  const auto c = corrections(adamw, u.t);
  if (rates_) rates_->advance(u.t);
  int64_t packed = 0;
  for (const auto& [at, numel, group] : others_) {
    auto part = [at = at, numel = numel](const at::Tensor& flat) { return flat.narrow(0, at, numel); };
    const at::Tensor v = v_.narrow(0, packed, numel);
    const double lr = u.lr[group], decay = groups_[group].weight_decay;
    if (rates_)
      kernels::nadamw(part(u.next), part(u.x), part(u.grad), part(m_), v, {0, numel}, rates_->step(u.t, lr, decay));
    else
      kernels::adamw(part(u.next), part(u.x), part(u.grad), part(m_), v, {0, numel},
                     adamw_step(moments, c, lr, decay * adamw.weight_decay));
    packed += numel;
  }
}

State Muon::state() {
  State state{{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}};
  if (rates_) rates_->put(state);
  return state;
}

void Muon::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
  if (rates_) rates_->get(state);
}

}  // namespace thinwire::optim
