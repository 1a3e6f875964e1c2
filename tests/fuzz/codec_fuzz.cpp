// Any bytes as a message: decode() takes them or refuses them, and never reads beyond them. Which codec:
// THINWIRE_CODEC.
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "thinwire/compress/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char* const wanted = std::getenv("THINWIRE_CODEC");
  static const auto codec = thinwire::compress::make_codec(wanted ? wanted : "one_bit");
  if (size < 2) return 0;
  const int64_t n = data[0] + 16 * data[1];
  // Half of the time with a good header and the right length, so that the body is reached.
  const bool framed = data[1] % 2 == 0;
  const size_t bytes = framed ? static_cast<size_t>(codec->bytes(n)) : size - 2;
  const std::unique_ptr<uint32_t[]> words(new uint32_t[(bytes + 3) / 4]());
  auto* message = reinterpret_cast<uint8_t*>(words.get());
  std::memcpy(message, data + 2, std::min(bytes, size - 2));
  std::vector<float> numbers(n), out(n);
  if (framed) {
    std::vector<uint8_t> good(bytes + 3);
    auto* at = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(good.data()) + 3) / 4 * 4);
    codec->encode(numbers.data(), nullptr, n, {}, {at, bytes});
    std::memcpy(message, at, 8);
  }
  try {
    codec->decode({message, bytes}, out.data(), n, {}, data[0] % 2 == 0);
  } catch (const c10::Error&) {
  }
  return 0;
}
