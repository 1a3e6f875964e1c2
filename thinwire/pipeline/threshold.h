// Sparse activations by a magnitude threshold: of an activation only the numbers that reach it are sent, and of its
// gradient those at the same places (DCT, 2010.08899). There is no error feedback: the activations of two minibatches
// are of different rows, so what one leaves out must not be added to the other.
//
// The sender looks at the n numbers v of a message and K = ceil(keep n):
//
//   threshold = K-th largest |v|           renewed in every `renew`-th message, and at once if fewer than K/2 or more
//                                          than 2 K numbers reach the current one: a selection over n numbers is
//                                          expensive, a comparison with a threshold is not
//   sent: v if |v| >= threshold, v != 0    where K = n: all of them, so that keep = 1 changes no bit
//
// An activation is two messages, because its length depends on the numbers. The head, 8 bytes, says how long the body
// is: "TW", 6, the bytes of a number, and how many numbers were sent (32 bits, little-endian). The body is the mask,
// one bit a number, most significant first, padded with zeros to a whole 32-bit word, then the numbers that were sent,
// in their order, in the type the model computes in. A gradient is one message, the numbers alone: both sides still
// have the mask. So a minibatch costs about n/8 + 2 K w + 8 bytes in three messages, w being the bytes of a number,
// instead of 2 n w in two.
//
// Messages are untrusted bytes: every length, count and padding bit is checked, c10::Error otherwise.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "thinwire/base/state.h"

namespace thinwire::pipeline {

inline constexpr int64_t kHeadBytes = 8;

// Which numbers of a message were sent.
struct Mask {
  at::Tensor bits;    // mask_bytes(n) bytes
  int64_t count = 0;  // of bits that are set
};
constexpr int64_t mask_bytes(int64_t n) { return (n + 31) / 32 * 4; }
// Makes a mask of n numbers from bytes. Takes `bits` over. c10::Error if their size is not mask_bytes(n), or if a bit
// after the n-th is set.
Mask mask_of(at::Tensor bits, int64_t n);

// The marked numbers of x, one after another, in x's type. New memory.
at::Tensor pick(const at::Tensor& x, const Mask& mask);
// The inverse: a tensor of this shape with `values` at the marked places and 0 elsewhere. c10::Error if the mask is of
// another number of elements, or has another count than there are values.
at::Tensor spread(const at::Tensor& values, const Mask& mask, at::IntArrayRef shape);

// The sender of activations, with what it remembers from one to the next: the threshold and the number of messages.
// Deterministic: equal messages since the last put() or get() give equal bytes. Used by one thread.
class Threshold {
 public:
  // keep in (0, 1], renew >= 1 messages; c10::Error otherwise.
  Threshold(double keep, int64_t renew);

  // The messages of one activation, and the mask that its gradient will need.
  struct Encoded {
    at::Tensor head, body;
    Mask mask;
  };
  // x must be finite and have at most 2^32 - 1 numbers; it is not changed, and the result does not alias it.
  Encoded encode(const at::Tensor& x);

  float value() const;                            // of the threshold; 0 before the first message
  int64_t messages() const { return messages_; }  // so far

  // Its memory, as entries of a checkpoint whose names begin with `prefix`. get() throws c10::Error for values that no
  // put() could have written.
  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix);

 private:
  const double keep_;
  const int64_t renew_;
  uint32_t least_ = 0;  // bits of the magnitude that is sent
  int64_t messages_ = 0;
};

// The receiver has no memory. First the head: the length of the body that follows, if n numbers of this type are
// expected. c10::Error if the head is none, is of another type, or announces more than n numbers.
int64_t body_bytes(const at::Tensor& head, int64_t n, at::ScalarType dtype);
struct Decoded {
  at::Tensor x;  // zeros where nothing was sent
  Mask mask;     // for the gradient that goes back
};
// Then both. c10::Error if head, body and shape do not agree.
Decoded decode(const at::Tensor& head, const at::Tensor& body, at::IntArrayRef shape, at::ScalarType dtype);

}  // namespace thinwire::pipeline
