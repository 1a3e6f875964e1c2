// Any bytes as the messages of a thresholded activation: decode() takes them or throws, and never reads beyond
// them.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "thinwire/kernels/threshold.h"
#include "thinwire/pipeline/threshold.h"

namespace {

using namespace thinwire;

// As long as `bytes`, and the beginning of what is left of the input; the rest is zeros.
at::Tensor message(int64_t bytes, const uint8_t* data, size_t size) {
  at::Tensor made = at::zeros({bytes}, at::kByte);
  if (size > 0 && bytes > 0) std::memcpy(made.mutable_data_ptr<uint8_t>(), data, std::min<size_t>(size, bytes));
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const int64_t n = data[0] + 16 * data[1];
  const auto dtype = data[2] % 2 == 0 ? at::kFloat : at::kBFloat16;
  const bool framed = data[2] % 4 < 2;   // a good head of the right length, so that the body is reached
  const bool counted = data[2] % 8 < 4;  // a mask that says what the head says, so that the numbers are
  data += 3, size -= 3;
  const int64_t mask_size = pipeline::mask_bytes(n);
  at::Tensor head = message(std::min<int64_t>(size, pipeline::kHeadBytes), data, size),
             body = message(size, data, size);
  if (framed) {
    head = pipeline::Threshold(1, 1).encode(at::zeros({n}, dtype)).head;
    const at::Tensor mask = message(mask_size, data, size);
    const int64_t count = kernels::count_marked(mask, n);
    const auto sent = static_cast<uint32_t>(counted ? std::min(n, count) : n);
    std::memcpy(head.mutable_data_ptr<uint8_t>() + 4, &sent, 4);
    body = message(pipeline::body_bytes(head, n, dtype), data, size);
  }
  try {
    const auto [x, mask] = pipeline::decode(head, body, {n}, dtype);
    if (pipeline::pick(x, mask).numel() != mask.count) std::abort();
  } catch (const c10::Error&) {
  }
  return 0;
}
