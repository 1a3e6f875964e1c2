// What a rule or a strategy must remember between two steps, by name: the unit of checkpoints. Maps one to one to
// safetensors files (checkpoint/checkpoint.h).
//
// Names are paths with dots: "rule.m", "slice.3.worker_error". An owner of state has state(), which returns views of
// live memory, and load(), which copies from an equal set of names; both between two steps. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

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

// Scalars in and out of a State. put() makes or replaces; reading a name that does not exist, or that is not such a
// scalar, is c10::Error that names it.
void put(State& state, const std::string& name, double value, Scope scope);
void put(State& state, const std::string& name, int64_t value, Scope scope);
double get_double(const State& state, const std::string& name);
int64_t get_int(const State& state, const std::string& name);

// Copies the entry into `into`, which must have its shape and type: c10::Error otherwise, or where there is no such
// entry.
void get(const State& state, const std::string& name, at::Tensor into);

// Whether all numbers in it are finite: a checkpoint of a diverged run is not worth keeping.
bool is_finite(const State& state);

// Adds the entries of a part with `prefix` before their names; and the part again: the entries that have the prefix,
// without it. Tensors are shared, not copied.
void add_prefixed(State& all, const std::string& prefix, const State& part);
State with_prefix(const State& all, const std::string& prefix);

}  // namespace thinwire
