// Where a tensor becomes memory, and its device is looked at. For kernels: other rooms pass tensors, and read what is
// small through host_span.h. Pointers are valid as long as the tensor is; nothing here owns memory.
//
// A kernel asks for all its pointers before it writes, so that a wrong call changes nothing:
//
//   void sgd(next, x, g, m, range, step) {
//     const float *px = in(x, range), *pg = in(g, range);
//     float *pn = out(next, range), *pm = out_if(m, range);
#pragma once

#include <ATen/core/Tensor.h>

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

// Throws c10::Error: this build has no kernels for tensors that are not on the CPU (no_cuda.cpp). A build with CUDA
// has cuda/ in its place, and chooses by the tensor's device; callers do not change.
[[noreturn]] void throw_no_kernels(at::Device device);

// c10::Error unless x is contiguous, of this type and on a device that has kernels, and the range lies in it.
void check(const at::Tensor& x, at::ScalarType type, Range range);

// A pointer to the first element of the range that a kernel reads (in) or writes (out), checked as above. Without a
// range: all of x. T must be x's type: a kernel never converts. The tensor is const because it is a handle: out()
// writes to its memory all the same.
template <class T = float>
const T* in(const at::Tensor& x, Range range) {
  check(x, c10::CppTypeToScalarType<T>::value, range);
  return x.const_data_ptr<T>() + range.at;
}
template <class T = float>
const T* in(const at::Tensor& x) {
  return in<T>(x, whole(x));
}
template <class T = float>
T* out(const at::Tensor& x, Range range) {
  check(x, c10::CppTypeToScalarType<T>::value, range);
  return x.mutable_data_ptr<T>() + range.at;
}
template <class T = float>
T* out(const at::Tensor& x) {
  return out<T>(x, whole(x));
}
// The same of a tensor that may be undefined: then null.
inline float* out_if(const at::Tensor& x, Range range) { return x.defined() ? out(x, range) : nullptr; }

}  // namespace thinwire::kernels
