// What a rule or a strategy must remember between two steps, by name: the unit of checkpoints.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace thinwire {

// Which ranks hold different values of an entry; a checkpoint stores it once, once a replica, or once a shard.
enum class Scope { all_equal, per_replica, per_shard };

struct Entry {
  at::Tensor value;  // scalars are 0-d, fp64 or int64
  Scope scope = Scope::per_replica;
};
using State = std::map<std::string, Entry>;

// Scalars in and out of a State. Reading a name that is not there is an error that names it.
void put(State& state, const std::string& name, double value, Scope scope);
void put(State& state, const std::string& name, int64_t value, Scope scope);
double get_double(const State& state, const std::string& name);
int64_t get_int(const State& state, const std::string& name);

// Copies the entry into `into`, which must have its shape and type.
void get(const State& state, const std::string& name, at::Tensor into);

// Whether all numbers in it are finite.
bool is_finite(const State& state);

// All entries with `prefix` in front of their names; and the entries that have it, without it.
void add_prefixed(State& all, const std::string& prefix, const State& part);
State with_prefix(const State& all, const std::string& prefix);

}  // namespace thinwire
