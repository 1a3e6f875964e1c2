#include "thinwire/optim/flat.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <memory>
#include <set>

#include "thinwire/kernels/host_span.h"

namespace thinwire::optim {

Flat::Flat(const std::vector<std::vector<at::Tensor>>& units, Labels labels, at::ScalarType compute)
    : layout_(make_layout(units)) {
  for (const auto& unit : units) parameters_.insert(parameters_.end(), unit.begin(), unit.end());
  for (size_t n : {labels.names.size(), labels.matrices.size(), labels.duplicates.size()})
    TORCH_CHECK(n == 0 || n == parameters_.size(), "[optim.flat] there are ", parameters_.size(), " parameters and ", n,
                " labels");
  layout_.names = std::move(labels.names);
  for (Piece& piece : layout_.pieces) piece.duplicate = !labels.duplicates.empty() && labels.duplicates[piece.tensor];
  x = at::zeros({layout_.numel}, layout_.options);
  grad = at::zeros({layout_.numel}, layout_.options);
  if (compute != at::kFloat) {
    low_ = at::zeros({layout_.numel}, layout_.options.dtype(compute));
    low_grad_ = at::zeros_like(low_);
  }
  std::set<const at::TensorImpl*> seen;
  for (const Piece& piece : layout_.pieces) {
    const at::Tensor& parameter = parameters_[piece.tensor];
    TORCH_CHECK(seen.insert(parameter.unsafeGetTensorImpl()).second, "[optim.flat] parameter ", piece.tensor,
                " is listed twice: a shared weight belongs to one unit");
    TORCH_CHECK(parameter.scalar_type() == at::kFloat, "[optim.flat] parameters are fp32, got ",
                parameter.scalar_type());
    x.narrow(0, piece.at, piece.numel).copy_(parameter.detach().reshape(-1));
    const int64_t stacked = labels.matrices.empty() ? 0 : labels.matrices[piece.tensor];
    if (stacked == 0) continue;
    TORCH_CHECK(parameter.dim() == 2 && parameter.size(0) % stacked == 0, "[optim.flat] parameter ", piece.tensor,
                " cannot be ", stacked, " matrices: it is ", parameter.sizes());
    const int64_t rows = parameter.size(0) / stacked, columns = parameter.size(1);
    for (int64_t i = 0; i < stacked; ++i)
      layout_.matrices.push_back({piece.at + i * rows * columns, rows, columns, piece.group});
  }
  view_as(low_.defined() ? low_ : x);
  for (const Piece& piece : layout_.pieces) {
    at::Tensor& parameter = parameters_[piece.tensor];
    parameter.mutable_grad() =
        (low_.defined() ? low_grad_ : grad).narrow(0, piece.at, piece.numel).view(parameter.sizes());
  }
  refresh();
}

void Flat::view_as(const at::Tensor& weights) {
  for (const Piece& piece : layout_.pieces) {
    at::Tensor& parameter = parameters_[piece.tensor];
    parameter.set_data(weights.narrow(0, piece.at, piece.numel).view(parameter.sizes()));
  }
}

void Flat::bind(const at::Tensor& weights) {
  TORCH_CHECK(weights.numel() == layout_.numel, "[optim.flat] wanted ", layout_.numel, " weights, got ",
              weights.numel());
  if (low_.defined())
    low_.copy_(weights);
  else
    view_as(weights);
}

void Flat::refresh() {
  if (low_.defined()) low_.copy_(x);
}

void Flat::zero_grad() {
  grad.zero_();
  if (low_.defined()) low_grad_.zero_();
}

void Flat::grad_ready(int piece) {
  if (!low_.defined()) return;
  const Piece& p = layout_.pieces[piece];
  grad.narrow(0, p.at, p.numel).copy_(low_grad_.narrow(0, p.at, p.numel));
}

std::string weights_hash(const Layout& layout, const at::Tensor& x) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  const at::Tensor host = x.cpu();
  const auto values = kernels::host_span<const float>(host);
  for (const Piece& piece : layout.pieces) {
    const auto own = values.subspan(piece.at, piece.numel);
    XXH3_64bits_update(state.get(), own.data(), own.size_bytes());
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

}  // namespace thinwire::optim
