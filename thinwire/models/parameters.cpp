#include "thinwire/models/parameters.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "thinwire/base/random.h"

namespace thinwire::models {
namespace {

at::TensorOptions options(Seed seed) { return at::TensorOptions(at::kFloat).device(seed ? at::kCPU : at::kMeta); }

at::Tensor add(Unit& unit, std::string name, at::Tensor tensor, int64_t matrices = 0) {
  tensor.set_requires_grad(true);
  unit.parameters.push_back({std::move(name), tensor, matrices});
  return tensor;
}

}  // namespace

at::Tensor add_normal(Unit& unit, std::string name, at::IntArrayRef shape, double std, Seed seed, int64_t matrices) {
  at::Tensor tensor = at::empty(shape, options(seed));
  if (seed) tensor.normal_(0, std, generator(*seed, name));
  return add(unit, std::move(name), std::move(tensor), matrices);
}

at::Tensor add_ones(Unit& unit, std::string name, int64_t size, Seed seed) {
  return add(unit, std::move(name), at::ones({size}, options(seed)));
}

}  // namespace thinwire::models
