#include "thinwire/base/state.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace thinwire {
namespace {

const at::Tensor& find(const State& state, const std::string& name) {
  auto it = state.find(name);
  TORCH_CHECK(it != state.end(), "[state] the saved state has no entry '", name, "'");
  return it->second.value;
}

}  // namespace

void put(State& state, const std::string& name, double value, Scope scope) {
  state[name] = {at::scalar_tensor(value, at::kDouble), scope};
}

void put(State& state, const std::string& name, int64_t value, Scope scope) {
  state[name] = {at::scalar_tensor(value, at::kLong), scope};
}

double get_double(const State& state, const std::string& name) {
  const auto& value = find(state, name);
  TORCH_CHECK(value.scalar_type() == at::kDouble && value.numel() == 1, "[state] '", name, "' is not one fp64 number");
  return value.item<double>();
}

int64_t get_int(const State& state, const std::string& name) {
  const auto& value = find(state, name);
  TORCH_CHECK(value.scalar_type() == at::kLong && value.numel() == 1, "[state] '", name, "' is not one int64 number");
  return value.item<int64_t>();
}

void get(const State& state, const std::string& name, at::Tensor into) {
  const auto& value = find(state, name);
  TORCH_CHECK(value.sizes() == into.sizes() && value.scalar_type() == into.scalar_type(), "[state] '", name,
              "' should be ", into.scalar_type(), into.sizes(), ", the saved one is ", value.scalar_type(),
              value.sizes());
  into.copy_(value);
}

bool is_finite(const State& state) {
  return std::ranges::all_of(state, [](const auto& named) {
    const at::Tensor& value = named.second.value;
    return !value.is_floating_point() || at::isfinite(value).all().template item<bool>();
  });
}

void add_prefixed(State& all, const std::string& prefix, const State& part) {
  for (const auto& [name, entry] : part) all[prefix + name] = entry;
}

State with_prefix(const State& all, const std::string& prefix) {
  State part;
  for (const auto& [name, entry] : all)
    if (name.starts_with(prefix)) part[name.substr(prefix.size())] = entry;
  return part;
}

}  // namespace thinwire
