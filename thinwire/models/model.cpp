#include "thinwire/models/model.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/ranges.h>

#include "thinwire/base/errors.h"
#include "thinwire/models/gpt.h"
#include "thinwire/models/mlp.h"

namespace thinwire::models {
namespace {

struct Size {
  const char* name;
  int64_t layers, width, heads;
};
constexpr Size kSizes[] = {{"nano", 2, 64, 2},
                           {"micro", 4, 128, 4},
                           {"mini", 6, 384, 6},  // 10.8 million parameters, the size of most tutorials
                           {"small", 12, 768, 12},
                           {"medium", 24, 1024, 16}};

}  // namespace

int64_t Unit::work(int64_t /*context*/) const {
  int64_t sum = 0;
  for (const auto& parameter : parameters) sum += parameter.tensor.numel();
  return sum;
}

at::Tensor Model::forward(const at::Tensor& tokens_BT) {
  at::Tensor x = tokens_BT;
  for (auto& unit : units) x = unit->forward(x);
  return x;
}

at::Tensor Model::loss(const at::Tensor& tokens_BT, const at::Tensor& targets_BT) {
  return cross_entropy(forward(tokens_BT), targets_BT);
}

at::Tensor cross_entropy(const at::Tensor& logits_BTV, const at::Tensor& targets_BT) {
  return at::cross_entropy_loss(logits_BTV.flatten(0, 1).to(at::kFloat), targets_BT.flatten());
}

int64_t Model::numel() const {
  int64_t sum = 0;
  for (const auto& unit : units)
    for (const auto& parameter : unit->parameters) sum += parameter.tensor.numel();
  return sum;
}

std::vector<std::vector<at::Tensor>> parameters_by_unit(const Model& model) {
  std::vector<std::vector<at::Tensor>> units;
  for (const auto& unit : model.units) {
    units.emplace_back();
    for (const auto& parameter : unit->parameters) units.back().push_back(parameter.tensor);
  }
  return units;
}

void apply_size(ModelOptions& options) {
  for (const Size& size : kSizes) {
    if (options.size != size.name) continue;
    options.layers = size.layers;
    options.width = size.width;
    options.heads = size.heads;
    return;
  }
  throw BadInput("model.size must be one of {}, got \"{}\"", fmt::join(size_names(), ", "), options.size);
}

std::vector<std::string> size_names() {
  std::vector<std::string> names;
  for (const Size& size : kSizes) names.emplace_back(size.name);
  return names;
}

std::unique_ptr<Model> make_model(const ModelOptions& options, int64_t vocabulary, Seed seed) {
  TORCH_CHECK(vocabulary >= 1, "[models] vocabulary must be at least 1, got ", vocabulary);
  for (int64_t n : {options.layers, options.width, options.heads, options.context})
    TORCH_CHECK(n >= 1, "[models] layers, width, heads and context must be at least 1, got ", n);
  if (options.name == "gpt") return make_gpt(options, vocabulary, seed);
  if (options.name == "mlp") return make_mlp(options, vocabulary, seed);
  throw BadInput("model.name must be one of gpt, mlp, got \"{}\"", options.name);
}

}  // namespace thinwire::models
