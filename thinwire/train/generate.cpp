#include "thinwire/train/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "thinwire/base/random.h"

namespace thinwire::train {
namespace {

at::Tensor tokens_of(std::string_view text) {
  at::Tensor tokens = at::empty({1, static_cast<int64_t>(text.size())}, at::kLong);
  std::ranges::transform(text, tokens.mutable_data_ptr<int64_t>(),
                         [](char c) { return static_cast<unsigned char>(c); });
  return tokens;
}

}  // namespace

int64_t choose(const at::Tensor& logits_V, double temperature, int64_t top_k, uint64_t bits) {
  const at::Tensor values = logits_V.to(at::kDouble).contiguous();
  const double* logits = values.const_data_ptr<double>();
  std::vector<int64_t> tokens(values.numel());
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int64_t t : tokens) TORCH_CHECK(std::isfinite(logits[t]), "[train.generate] logit ", t, " is not finite");
  std::ranges::stable_sort(tokens, [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
  if (temperature == 0) return tokens[0];
  if (top_k > 0 && top_k < std::ssize(tokens)) tokens.resize(top_k);

  std::vector<double> up_to;
  for (int64_t t : tokens)
    up_to.push_back((up_to.empty() ? 0 : up_to.back()) + std::exp((logits[t] - logits[tokens[0]]) / temperature));
  const double at = static_cast<double>(bits >> 11) * 0x1p-53 * up_to.back();  // in [0, sum)
  const auto chosen = std::ranges::upper_bound(up_to, at) - up_to.begin();
  return tokens[std::min(chosen, std::ssize(tokens) - 1)];
}

void generate(models::Model& model, int64_t context, std::string_view prompt, const GenerateOptions& options,
              const std::function<bool(char)>& emit) {
  check_fields("generate", options);
  TORCH_CHECK(context >= 1, "[train.generate] context must be at least 1, got ", context);
  const at::NoGradGuard no_grad;
  std::string seen(prompt.empty() ? "\n" : prompt);
  for (int64_t i = 0; i < options.tokens; ++i) {
    if (std::ssize(seen) > context) seen.erase(0, seen.size() - context);
    const at::Tensor logits_V = model.forward(tokens_of(seen)).select(0, 0).select(0, -1);
    const uint64_t bits =
        hash64({static_cast<uint64_t>(options.seed), stream_id("generate"), static_cast<uint64_t>(i)});
    seen += static_cast<char>(choose(logits_V, options.temperature, options.top_k, bits));
    if (!emit(seen.back())) return;
  }
}

}  // namespace thinwire::train
