// What a rule or a strategy must remember between two steps, by name: the unit of checkpoints. Maps one to one to
// safetensors files (checkpoint/checkpoint.h).
//
// Names are paths with dots: "rule.m", "slice.3.worker_error". An owner of state has state(), which returns views of
// live memory, and load(), which copies from an equal set of names; both between two steps. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>

namespace thinwire {

// Which ranks hold different values of an entry; a checkpoint stores it once, once a replica, or once a shard.
enum class Scope { all_equal, per_replica, per_shard };

// One tensor, on any device.
struct Entry {
  at::Tensor value;  // scalars are 0-d, fp64 or int64
  Scope scope = Scope::per_replica;
};
using State = std::map<std::string, Entry>;

// Scalars into a State: put() makes or replaces.
void put(State& state, const std::string& name, double value, Scope scope);
void put(State& state, const std::string& name, int64_t value, Scope scope);

// Whoever wrote the checkpoint that a State comes from may have written anything into it. So every number is read with
// the least and the most that its reader can go on with, and what is missing, of another type or shape, or beyond these
// is BadInput that names the entry, what was wanted and what came.
inline constexpr int64_t kMostSteps = 1'000'000'000'000'000;  // beyond any run, and far from where int64_t ends
int64_t get_int(const State& state, const std::string& name, int64_t least, int64_t most = kMostSteps);
double get_double(const State& state, const std::string& name, double least = std::numeric_limits<double>::lowest(),
                  double most = std::numeric_limits<double>::max());  // so never NaN or infinite

// Copies the entry into `into`, which must have its shape and type. The second one looks at the numbers, too: where a
// rule can go on with anything, a number that is not finite shows in the loss soon enough.
void get(const State& state, const std::string& name, at::Tensor into);
void get(const State& state, const std::string& name, at::Tensor into, double least, double most);

// Whether all numbers in it are finite: a checkpoint of a diverged run is not worth keeping.
bool is_finite(const State& state);

// Adds the entries of a part with `prefix` before their names; and the part again: the entries that have the prefix,
// without it. Tensors are shared, not copied.
void add_prefixed(State& all, const std::string& prefix, const State& part);
State with_prefix(const State& all, const std::string& prefix);

}  // namespace thinwire
