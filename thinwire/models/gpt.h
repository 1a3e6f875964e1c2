// A decoder-only transformer of the GPT-2 family: pre-norm, learned positions, no biases, exact GELU, no dropout.
//
// Units and their parameters, with W = width:
//   embedding   embedding.tokens [V, W], embedding.positions [context, W]
//   block i     blocks.i.attention.norm [W], .attention.qkv [3W, W], .attention.out [W, W],
//               blocks.i.mlp.norm [W], .mlp.up [4W, W], .mlp.down [W, 4W]
//   head        head.norm [W], head.linear [V, W] (tied: embedding.tokens instead, listed by the embedding)
// Between units goes x_BTW.
//
// Init: normal with standard deviation 0.02; out and down, which write into the residual stream, 0.02 / sqrt(2 layers),
// so that the stream's variance does not grow with depth (Radford et al. 2019, section 2.3). Norms start at one.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/models/model.h"

namespace thinwire::models {

// BadInput if width is not a multiple of heads. A forward with fewer tokens than `context` is fine, with more an error.
std::unique_ptr<Model> make_gpt(const ModelOptions& options, int64_t vocabulary, Seed seed);

}  // namespace thinwire::models
