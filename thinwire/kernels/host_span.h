// The numbers of a small tensor as a std::span, where the host decides by them: norms by tensor, the head of a message.
// What is as long as the weights is for kernels.
//
// The tensor must be contiguous, of this type and in the host's memory; c10::Error otherwise. The span does not own:
// the tensor must outlive it. `const T` reads; T writes:
//
//   const auto norms = host_span<const double>(norms_by_tensor);
//   if (norms[i] > limit) ..
#pragma once

#include <span>
#include <type_traits>

#include "thinwire/kernels/memory.h"

namespace thinwire::kernels {

// All numbers of x, as they lie in memory. On a GPU build the tensor is copied to the host before, by the caller.
template <class T>
std::span<T> host_span(const at::Tensor& x) {
  const auto n = static_cast<size_t>(x.numel());
  if constexpr (std::is_const_v<T>)
    return {in<std::remove_const_t<T>>(x), n};
  else
    return {out<T>(x), n};
}

}  // namespace thinwire::kernels
