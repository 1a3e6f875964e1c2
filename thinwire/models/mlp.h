// A neural n-gram model (Bengio et al. 2003): each position sees its own token and the few before it, and nothing else.
// The small, fast thing to train when attention is beside the point.
//
// Units and their parameters, with W = width:
//   embedding   embedding.tokens [V, W]
//   layer 0     layers.0.norm [kWindow W], layers.0.linear [W, kWindow W]: the window side by side, oldest token first
//   layer i     layers.i.norm [W], layers.i.linear [W, W]
//   head        head.norm [W], head.linear [V, W] (tied: embedding.tokens instead, listed by the embedding)
// Between units goes x_BTW. A layer is gelu(linear(norm(x))); the norm is not in the paper: it lets deep ones train,
// and one init (normal, standard deviation 0.02) fit every width. Before the first token the window holds zeros.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/models/model.h"

namespace thinwire::models {

inline constexpr int64_t kWindow = 8;  // tokens a position sees, itself included

// `heads` is not used, and neither is `context`: sequences may have any length.
std::unique_ptr<Model> make_mlp(const ModelOptions& options, int64_t vocabulary, Seed seed);

}  // namespace thinwire::models
