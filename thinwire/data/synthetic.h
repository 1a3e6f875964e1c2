// Text whose entropy is known exactly, so that the best possible loss is known beforehand.
//
// Every byte is followed by one of `branches` bytes, the r-th of them (r = 1, 2, ..) with probability proportional to
// 1/r. Which bytes those are depends on the byte before, in a way fixed by the seed. All bytes have the same
// probabilities behind them, so the entropy of the next byte given the one before is sum_r -p_r ln p_r, whatever came
// before: no model can do better on average, and one that has learnt the table of successors does exactly that.
#pragma once

#include <cstdint>
#include <string>

namespace thinwire::data {

// Nats a byte; branches in 1..256.
double synthetic_entropy(int64_t branches);

// `length` bytes of stream `stream` (training and held-out text are two streams over one table). A pure function.
std::string synthetic_text(uint64_t seed, int64_t branches, int64_t length, uint64_t stream);

}  // namespace thinwire::data
