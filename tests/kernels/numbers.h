// Sizes and numbers that kernels are tried on.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>

#include <limits>
#include <vector>

#include "thinwire/base/random.h"

namespace thinwire::kernels {

inline constexpr int64_t kSizes[] = {0, 1, 7, 8, 9, 1023, 1024, 1025, 65535, 65537, 300'001};

inline at::Tensor numbers(int64_t n, const char* name, uint64_t seed = 1) {
  return at::empty({n}, at::kFloat).normal_(0, 1, generator(seed, name));
}

// Every kind of finite number: zeros of both signs, denormals, the largest ones, among ordinary ones.
inline at::Tensor awkward(int64_t n) {
  at::Tensor x = numbers(n, "awkward");
  constexpr float kinds[] = {0.0f, -0.0f, 1e-40f, -1e-45f, 1e-30f, -3e38f, 3.4e38f, 1.0f};
  float* p = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i)
    if (hash64({7, static_cast<uint64_t>(i)}) % 3 == 0) p[i] = kinds[hash64({8, static_cast<uint64_t>(i)}) % 8];
  return x;
}

// A tensor on the memory of a vector.
template <class T>
at::Tensor on(const std::vector<T>& v) {
  return at::from_blob(const_cast<T*>(v.data()), {std::ssize(v)}, c10::CppTypeToScalarType<T>::value);
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.view(at::kInt), b.view(at::kInt));
}

}  // namespace thinwire::kernels
