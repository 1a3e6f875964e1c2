// The habits of DeepSpeed 0.19.6, which strategy.mode = "deepspeed" repeats so that trajectories can be compared with
// it. Not for training. What differs from ours:
//
//   - the exchange: one RMS scale serves the whole buffer, and its padding is part of it (compress/rms_mean.h)
//   - the first step drops its gradient: the weights stay
//   - what arrives is neither masked where nothing was learnt nor clamped to Adam's reach
//   - 1-bit LAMB: trust ratios of exactly 1 are left out of the smoothed one, which starts at 0 and stays too small
#pragma once

#include "thinwire/dp/one_bit.h"

namespace thinwire::dp {

Habits deepspeed_habits();

// `carry_padding`: the padding's input is its own last output (1-bit LAMB).
OneBitMeanPtr deepspeed_mean(comm::GroupPtr group, const optim::Layout& layout, bool carry_padding);

}  // namespace thinwire::dp
