// Text from a model, a token (a byte) at a time.
//
// The model sees the last `context` tokens of what there is so far; an empty prompt stands for a line break, which most
// texts have before anything new. Which token follows depends on (model, prompt, options) and nothing else: token i is
// chosen by hash64 of (seed, i), never by torch's default generator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "thinwire/base/options.h"
#include "thinwire/models/model.h"

namespace thinwire::train {

// Of `thinwire sample`.
struct GenerateOptions {
  int64_t tokens = 200;      // bytes to add, >= 1
  double temperature = 0.8;  // >= 0; 0: always the likeliest
  int64_t top_k = 0;         // >= 0; 0: all
  int64_t seed = 1;          // >= 0
};
template <class F>
void fields(F&& f, GenerateOptions& o) {
  f("tokens", o.tokens, at_least(1), "how many to add");
  f("temperature", o.temperature, at_least(0), "below 1: safer; above 1: wilder; 0: always the likeliest token");
  f("top_k", o.top_k, at_least(0), "choose among so many of the likeliest tokens; 0: among all");
  f("seed", o.seed, at_least(0), "another seed, another text");
}

// The token that `bits` (64 random ones) choose by softmax(logits / temperature) over the top_k likeliest; of equally
// likely ones the lower counts as likelier. Throws if a logit is not finite.
int64_t choose(const at::Tensor& logits_V, double temperature, int64_t top_k, uint64_t bits);

// Calls emit(byte) for every token added, until there are enough or emit returns false. The model must not be used by
// another thread meanwhile. c10::Error if a logit is not finite.
void generate(models::Model& model, int64_t context, std::string_view prompt, const GenerateOptions& options,
              const std::function<bool(char)>& emit);

}  // namespace thinwire::train
