// Of an activation only the numbers that reach a threshold travel, and of its gradient those at the same places (DCT,
// 2010.08899). Nothing is kept for the next time: activations of different rows have nothing to add to each other.
//
// Of a message of n numbers, K = ceil(keep n):
//
//   threshold = K-th largest |v|           renewed in every `renew`-th message, and at once in one of whose numbers
//                                          fewer than K/2 or more than 2 K reach the one there is
//   sent: v if |v| >= threshold, v != 0    where K = n: all, so that keep = 1 changes no bit
//
// An activation is two letters. The head, of 8 bytes, says how long the body is: "TW", 6, the bytes of a number, and
// how many were sent (32 bits, little end first). The body: the mask, one bit a number, the first on top, zeros up to a
// whole word; then the numbers that were sent, in their order, in the type the model computes in. A gradient is one
// letter, the numbers alone: both sides have the mask.
// Letters are taken to be untrusted bytes: all that is relied on is checked, c10::Error otherwise.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "thinwire/base/state.h"

namespace thinwire::pipeline {

inline constexpr int64_t kHeadBytes = 8;

// Which numbers of a message were sent.
struct Mask {
  at::Tensor bits;    // mask_bytes(n) bytes
  int64_t count = 0;  // of the marked ones
};
constexpr int64_t mask_bytes(int64_t n) { return (n + 31) / 32 * 4; }
// The mask of n numbers that these bytes are: their size and the bits behind the n-th are checked.
Mask mask_of(at::Tensor bits, int64_t n);

// The marked numbers of x, in its type; and those at their places of a tensor of this shape, 0 elsewhere.
at::Tensor pick(const at::Tensor& x, const Mask& mask);
at::Tensor spread(const at::Tensor& values, const Mask& mask, at::IntArrayRef shape);

// The sender of activations: what it must remember from one to the next.
class Threshold {
 public:
  // keep in (0, 1], renew >= 1 messages.
  Threshold(double keep, int64_t renew);

  struct Letters {
    at::Tensor head, body;
    Mask mask;
  };
  // x is finite, up to 2^32 - 1 numbers.
  Letters encode(const at::Tensor& x);

  float value() const;                            // of the threshold; 0 before the first message
  int64_t messages() const { return messages_; }  // so far

  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix);

 private:
  const double keep_;
  const int64_t renew_;
  uint32_t least_ = 0;  // bits of the magnitude that is sent
  int64_t messages_ = 0;
};

// The receiver: how long the body is that belongs to this head, if n numbers of this type are expected.
int64_t body_bytes(const at::Tensor& head, int64_t n, at::ScalarType dtype);
struct Arrived {
  at::Tensor x;
  Mask mask;
};
Arrived decode(const at::Tensor& head, const at::Tensor& body, at::IntArrayRef shape, at::ScalarType dtype);

}  // namespace thinwire::pipeline
