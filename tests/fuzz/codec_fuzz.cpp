// Any bytes as a message: decode() takes them or throws, and never reads beyond them. Which codec:
// THINWIRE_CODEC.
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>

#include "thinwire/compress/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char* const wanted = std::getenv("THINWIRE_CODEC");
  static const auto codec = thinwire::compress::make_codec(wanted ? wanted : "one_bit");
  if (size < 2) return 0;
  const int64_t n = data[0] + 16 * data[1];
  // Half of the time with a good header and the right length, so that the body is reached.
  const bool framed = data[1] % 2 == 0;
  const int64_t bytes = framed ? codec->bytes(n) : static_cast<int64_t>(size) - 2;
  const at::Tensor message = at::zeros({bytes}, at::kByte), x = at::zeros({n});
  auto* to = message.mutable_data_ptr<uint8_t>();
  if (framed) codec->encode(x, {}, message);
  for (size_t i = framed ? 8 : 0; i < std::min(static_cast<size_t>(bytes), size - 2); ++i) to[i] = data[2 + i];
  try {
    codec->decode(message, x, {}, data[0] % 2 == 0);
  } catch (const c10::Error&) {
  }
  return 0;
}
