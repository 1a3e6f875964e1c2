// Which part of the flat weights is exchanged next: values that every replica computes alike, so no mask ever travels.
//
// The weights are divided into blocks, and block b belongs to slice (shift + b) mod N, where shift is a hash of (seed,
// cycle, b / N) mod N. So every run of N neighbouring blocks gives one block to each slice: a slice takes an equal
// share of every region of the model, the slices of one cycle hold every number exactly once, and their sizes differ by
// at most a block.
//
// All functions here are pure, and may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/base/options.h"
#include "thinwire/kernels/slice.h"

namespace thinwire::dp {

// How flat weights are divided.
struct Slicing {
  uint64_t seed = 0;
  int64_t numel = 0, block = 1024;  // the last block may be short
  int64_t blocks() const { return (numel + block - 1) / block; }
  // The parts of slice `index` of `count` in this cycle, in ascending order, written over `parts`. 0 <= index < count.
  void parts_of(int64_t count, int64_t index, int64_t cycle, std::vector<kernels::Part>& parts) const;
};

// How many slices there are: one number, or numbers from given steps on: "8, at 10% 4" or "8, at 500 4".
struct SliceCount {
  struct Change {
    double share = 0;  // of the planned steps; or
    int64_t step = 0;  // after this step
    int64_t count = 8;
  };
  std::vector<Change> changes = {{}};  // the first holds from the start

  SliceCount() = default;
  SliceCount(int64_t count) : changes{{.count = count}} {}  // NOLINT: a number is one
  // How many after `step` steps of `planned`. BadInput where a share is wanted of an unknown number of steps (0).
  int64_t at(int64_t step, int64_t planned) const;
  int64_t least() const;  // over the whole run
  int64_t most() const;
};
// As an option of a recipe. BadInput that starts with `name`.
void read(const Value& value, const std::string& name, SliceCount& count, const Limit& limit);
Value to_value(const SliceCount& count);

// So many launches, or a share of all of them: 1000 or "5%".
struct Launches {
  int64_t count = 0;
  double share = 0;  // where it is one, [0, 1]
  bool is_share = false;

  Launches() = default;
  Launches(int64_t n) : count(n) {}  // NOLINT: a number is one
  // Of `all`. BadInput where a share is wanted of a number that is not known (0).
  int64_t of(int64_t all) const;
};
void read(const Value& value, const std::string& name, Launches& launches, const Limit& limit);
Value to_value(const Launches& launches);

// Steps between a launch and its landing; "auto" is a number that a run measures before it starts.
struct Delay {
  int64_t steps = 0;
  bool automatic = false;

  Delay() = default;
  Delay(int64_t n) : steps(n) {}  // NOLINT: a number is one
};
void read(const Value& value, const std::string& name, Delay& delay, const Limit& limit);
Value to_value(const Delay& delay);

}  // namespace thinwire::dp
