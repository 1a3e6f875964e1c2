#include "thinwire/base/random.h"

#include <ATen/CPUGeneratorImpl.h>

namespace thinwire {

uint64_t hash64(std::initializer_list<uint64_t> values) {
  uint64_t state = 0;
  for (uint64_t w : values) {
    uint64_t z = (state ^ w) + 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    state = z ^ (z >> 31);
  }
  return state;
}

uint64_t stream_id(std::string_view name) {
  uint64_t state = 0xcbf29ce484222325ull;  // FNV-1a
  for (unsigned char c : name) state = (state ^ c) * 0x100000001b3ull;
  return state;
}

at::Generator generator(uint64_t seed, std::string_view name, uint64_t index) {
  return at::detail::createCPUGenerator(hash64({seed, stream_id(name), index}));
}

}  // namespace thinwire
