#include "thinwire/models/mlp.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>

#include "thinwire/models/head.h"
#include "thinwire/models/linear.h"
#include "thinwire/models/parameters.h"

namespace thinwire::models {
namespace {

class Embedding : public Unit {
 public:
  Embedding(int64_t vocabulary, int64_t width, Seed seed)
      : tokens(add_normal(*this, "embedding.tokens", {vocabulary, width}, kInitStd, seed)) {}

  at::Tensor forward(const at::Tensor& tokens_BT) override {
    TORCH_CHECK(tokens_BT.dim() == 2, "[models.mlp] tokens must be [batch, time], got ", tokens_BT.sizes());
    return at::embedding(tokens, tokens_BT);
  }
  int64_t work(int64_t) const override { return tokens.size(1); }

  const at::Tensor tokens;
};

at::Tensor last_few(const at::Tensor& x_BTW) {
  const at::Tensor padded = at::constant_pad_nd(x_BTW, {0, 0, kWindow - 1, 0});
  std::vector<at::Tensor> shifted;
  for (int64_t i = 0; i < kWindow; ++i) shifted.push_back(padded.narrow(1, i, x_BTW.size(1)));
  return at::cat(shifted, 2);
}

class Layer : public Unit {
 public:
  Layer(int64_t width, int64_t index, Seed seed) : first_(index == 0) {
    const std::string prefix = "layers." + std::to_string(index);
    const int64_t inputs = first_ ? kWindow * width : width;
    norm_ = add_ones(*this, prefix + ".norm", inputs, seed);
    linear_ = add_normal(*this, prefix + ".linear", {width, inputs}, kInitStd, seed, 1);
  }

  at::Tensor forward(const at::Tensor& x_BTW) override {
    return at::gelu(models::linear(norm(first_ ? last_few(x_BTW) : x_BTW, norm_), linear_));
  }

 private:
  bool first_;
  at::Tensor norm_, linear_;
};

}  // namespace

std::unique_ptr<Model> make_mlp(const ModelOptions& options, int64_t vocabulary, Seed seed) {
  auto model = std::make_unique<Model>();
  auto embedding = std::make_unique<Embedding>(vocabulary, options.width, seed);
  if (options.tied) model->tied = embedding->tokens;
  model->units.push_back(std::move(embedding));
  for (int64_t i = 0; i < options.layers; ++i) model->units.push_back(std::make_unique<Layer>(options.width, i, seed));
  model->units.push_back(std::make_unique<Head>(vocabulary, options.width, seed, model->tied));
  return model;
}

}  // namespace thinwire::models
