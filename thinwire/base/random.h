// Random numbers that are functions of what they are for, never of when they are drawn.
//
// Torch's default generator is shared by all threads, so which number a rank draws would depend on timing. Everything
// random in Thinwire comes from here instead: `hash64` for single numbers, `generator` where torch wants a generator.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace thinwire {

// 64 well mixed bits of the values (splitmix64, chained). Same values, same bits, on every machine.
uint64_t hash64(std::initializer_list<uint64_t> values);

// The hash of a name, for use in hash64(): streams with different names are independent.
uint64_t stream_id(std::string_view name);

// A whole number in [0, n), n >= 1, without bias worth speaking of (n far below 2^64).
inline uint64_t below(uint64_t n, uint64_t bits) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * n) >> 64);
}

// A CPU generator of its own for (seed, name, index), to pass to torch's normal_() and the like. Equal arguments give
// equal generators; each call makes a new one, at its start.
at::Generator generator(uint64_t seed, std::string_view name, uint64_t index = 0);

}  // namespace thinwire
