#include "thinwire/models/gpt.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>

#include "thinwire/base/errors.h"
#include "thinwire/models/head.h"
#include "thinwire/models/linear.h"
#include "thinwire/models/parameters.h"

namespace thinwire::models {
namespace {

class Embedding : public Unit {
 public:
  Embedding(const ModelOptions& o, int64_t vocabulary, Seed seed)
      : tokens(add_normal(*this, "embedding.tokens", {vocabulary, o.width}, kInitStd, seed)),
        positions_(add_normal(*this, "embedding.positions", {o.context, o.width}, kInitStd, seed)) {}

  at::Tensor forward(const at::Tensor& tokens_BT) override {
    TORCH_CHECK(tokens_BT.dim() == 2, "[models.gpt] tokens must be [batch, time], got ", tokens_BT.sizes());
    const int64_t time = tokens_BT.size(1), context = positions_.size(0);
    TORCH_CHECK(time <= context, "[models.gpt] a sequence must be at most context = ", context, " tokens, got ", time);
    return at::embedding(tokens, tokens_BT) + positions_.narrow(0, 0, time);
  }

  int64_t work(int64_t) const override { return tokens.size(1); }

  const at::Tensor tokens;

 private:
  at::Tensor positions_;
};

class Block : public Unit {
 public:
  Block(const ModelOptions& o, int64_t index, Seed seed) : heads_(o.heads) {
    const std::string prefix = "blocks." + std::to_string(index);
    const double residual_std = kInitStd / std::sqrt(2.0 * static_cast<double>(o.layers));
    const int64_t width = o.width;
    attention_norm_ = add_ones(*this, prefix + ".attention.norm", width, seed);
    qkv_ = add_normal(*this, prefix + ".attention.qkv", {3 * width, width}, kInitStd, seed, 3);
    out_ = add_normal(*this, prefix + ".attention.out", {width, width}, residual_std, seed, 1);
    mlp_norm_ = add_ones(*this, prefix + ".mlp.norm", width, seed);
    up_ = add_normal(*this, prefix + ".mlp.up", {4 * width, width}, kInitStd, seed, 1);
    down_ = add_normal(*this, prefix + ".mlp.down", {width, 4 * width}, residual_std, seed, 1);
  }

  at::Tensor forward(const at::Tensor& x_BTW) override {
    const at::Tensor x = x_BTW + attention(norm(x_BTW, attention_norm_));
    return x + models::linear(at::gelu(models::linear(norm(x, mlp_norm_), up_)), down_);
  }
  int64_t work(int64_t context) const override {  // every token looks at all before it, twice
    return qkv_.numel() + out_.numel() + up_.numel() + down_.numel() + context * out_.size(0);
  }

 private:
  at::Tensor attention(const at::Tensor& x_BTW) const {
    const int64_t B = x_BTW.size(0), T = x_BTW.size(1), W = x_BTW.size(2);
    const at::Tensor qkv_3BHTD =
        models::linear(x_BTW, qkv_).view({B, T, 3, heads_, W / heads_}).permute({2, 0, 3, 1, 4});
    const at::Tensor y_BHTD = at::scaled_dot_product_attention(qkv_3BHTD.select(0, 0), qkv_3BHTD.select(0, 1),
                                                               qkv_3BHTD.select(0, 2), /*attn_mask=*/{},
                                                               /*dropout_p=*/0.0, /*is_causal=*/true);
    return models::linear(y_BHTD.transpose(1, 2).reshape({B, T, W}), out_);
  }

  int64_t heads_;
  at::Tensor attention_norm_, qkv_, out_, mlp_norm_, up_, down_;
};

}  // namespace

std::unique_ptr<Model> make_gpt(const ModelOptions& options, int64_t vocabulary, Seed seed) {
  if (options.width % options.heads != 0)
    throw BadInput("model.width must be a multiple of model.heads, got {} and {}", options.width, options.heads);
  auto model = std::make_unique<Model>();
  auto embedding = std::make_unique<Embedding>(options, vocabulary, seed);
  if (options.tied) model->tied = embedding->tokens;
  model->units.push_back(std::move(embedding));
  for (int64_t i = 0; i < options.layers; ++i) model->units.push_back(std::make_unique<Block>(options, i, seed));
  model->units.push_back(std::make_unique<Head>(vocabulary, options.width, seed, model->tied));
  return model;
}

}  // namespace thinwire::models
