#include "thinwire/optim/flat.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <memory>
#include <set>

namespace thinwire::optim {

Flat::Flat(const std::vector<std::vector<at::Tensor>>& units, std::vector<std::string> names)
    : layout_(make_layout(units)) {
  for (const auto& unit : units) parameters_.insert(parameters_.end(), unit.begin(), unit.end());
  x = at::zeros({layout_.numel}, at::kFloat);
  grad = at::zeros({layout_.numel}, at::kFloat);
  std::set<const at::TensorImpl*> seen;
  for (const Piece& piece : layout_.pieces) {
    at::Tensor& parameter = parameters_[piece.tensor];
    TORCH_CHECK(seen.insert(parameter.unsafeGetTensorImpl()).second, "[optim.flat] parameter ", piece.tensor,
                " is listed twice: a shared weight belongs to one unit");
    TORCH_CHECK(parameter.scalar_type() == at::kFloat, "[optim.flat] parameters are fp32, got ",
                parameter.scalar_type());
    x.narrow(0, piece.at, piece.numel).copy_(parameter.detach().reshape(-1));
    parameter.mutable_grad() = grad.narrow(0, piece.at, piece.numel).view(parameter.sizes());
  }
  layout_.names = std::move(names);
  TORCH_CHECK(layout_.names.empty() || layout_.names.size() == parameters_.size(), "[optim.flat] there are ",
              parameters_.size(), " parameters and ", layout_.names.size(), " names");
  bind(x);
}

void Flat::bind(const at::Tensor& weights) {
  TORCH_CHECK(weights.numel() == layout_.numel, "[optim.flat] wanted ", layout_.numel, " weights, got ",
              weights.numel());
  for (const Piece& piece : layout_.pieces) {
    at::Tensor& parameter = parameters_[piece.tensor];
    parameter.set_data(weights.narrow(0, piece.at, piece.numel).view(parameter.sizes()));
  }
}

std::string weights_hash(const Layout& layout, const at::Tensor& x) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  const float* values = x.const_data_ptr<float>();
  for (const Piece& piece : layout.pieces)
    XXH3_64bits_update(state.get(), values + piece.at, static_cast<size_t>(piece.numel) * sizeof(float));
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

}  // namespace thinwire::optim
