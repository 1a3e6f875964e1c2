// Fresh parameters. Each is drawn from a generator of its own, named after it, so that its bits depend on (seed, name)
// and not on which other parameters exist or on who made them first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "thinwire/models/model.h"

namespace thinwire::models {

inline constexpr double kInitStd = 0.02;  // of every matrix, unless a model says otherwise

// Registers a parameter with `unit` and returns a second handle to the same tensor: set_data() on one is seen by both,
// which is how flat weights reach a unit's forward. Without a seed it is a meta tensor. Names are unique in a model.
at::Tensor add_normal(Unit& unit, std::string name, at::IntArrayRef shape, double std, Seed seed, int64_t matrices = 0);
at::Tensor add_ones(Unit& unit, std::string name, int64_t size, Seed seed);

}  // namespace thinwire::models
