#include "thinwire/base/state.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "thinwire/base/errors.h"

namespace thinwire {
namespace {

const at::Tensor& find(const State& state, const std::string& name) {
  auto it = state.find(name);
  if (it == state.end()) throw BadInput("the saved state has no '{}'", name);
  return it->second.value;
}

// "Float [3, 4]"; of a single number "Long".
std::string kind_of(at::ScalarType type, at::IntArrayRef sizes) {
  return sizes.empty() ? c10::toString(type) : fmt::format("{} [{}]", c10::toString(type), fmt::join(sizes, ", "));
}

const at::Tensor& find(const State& state, const std::string& name, at::ScalarType type, at::IntArrayRef sizes) {
  const at::Tensor& value = find(state, name);
  if (value.scalar_type() != type || value.sizes() != sizes)
    throw BadInput("the saved '{}' must be {}, got {}", name, kind_of(type, sizes),
                   kind_of(value.scalar_type(), value.sizes()));
  return value;
}

template <class T>
std::string range_text(T least, T most, T lowest, T highest) {
  if (least == most) return fmt::format("{}", least);
  if (most < highest) return fmt::format("from {} to {}", least, most);
  return least > lowest ? fmt::format("finite and at least {}", least) : "finite";
}

// NaN is in no range.
template <class T>
T checked(const std::string& name, T value, T least, T most) {
  if (value >= least && value <= most) return value;
  using Most = std::numeric_limits<T>;
  throw BadInput("the saved '{}' must be {}, got {}", name, range_text(least, most, Most::lowest(), Most::max()),
                 value);
}

}  // namespace

void put(State& state, const std::string& name, double value, Scope scope) {
  state[name] = {at::scalar_tensor(value, at::kDouble), scope};
}

void put(State& state, const std::string& name, int64_t value, Scope scope) {
  state[name] = {at::scalar_tensor(value, at::kLong), scope};
}

int64_t get_int(const State& state, const std::string& name, int64_t least, int64_t most) {
  return checked(name, find(state, name, at::kLong, {}).item<int64_t>(), least, most);
}

double get_double(const State& state, const std::string& name, double least, double most) {
  return checked(name, find(state, name, at::kDouble, {}).item<double>(), least, most);
}

void get(const State& state, const std::string& name, at::Tensor into) {
  into.copy_(find(state, name, into.scalar_type(), into.sizes()));
}

void get(const State& state, const std::string& name, at::Tensor into, double least, double most) {
  const at::Tensor value = find(state, name, into.scalar_type(), into.sizes()).to(at::kDouble).view(-1);
  const at::Tensor wrong = at::logical_not(value.ge(least).logical_and(value.le(most))).nonzero();
  if (wrong.numel() > 0) checked(name, value[wrong[0].item<int64_t>()].item<double>(), least, most);
  into.copy_(value.view(into.sizes()));
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
