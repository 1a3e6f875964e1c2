#include "thinwire/data/synthetic.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/random.h"

namespace thinwire::data {
namespace {

// Probability of each rank, 1/r over their sum.
std::vector<double> shares(int64_t branches) {
  TORCH_CHECK(branches >= 1 && branches <= 256, "[data.synthetic] branches must be in 1..256, got ", branches);
  std::vector<double> p;
  double sum = 0;
  for (int64_t r = 1; r <= branches; ++r) sum += 1.0 / static_cast<double>(r);
  for (int64_t r = 1; r <= branches; ++r) p.push_back(1.0 / static_cast<double>(r) / sum);
  return p;
}

}  // namespace

double synthetic_entropy(int64_t branches) {
  double entropy = 0;
  for (double p : shares(branches)) entropy -= p * std::log(p);
  return entropy;
}

std::string synthetic_text(uint64_t seed, int64_t branches, int64_t length, uint64_t stream) {
  std::vector<double> upto;  // cumulative
  for (double p : shares(branches)) upto.push_back(p + (upto.empty() ? 0 : upto.back()));
  std::string text;
  text.reserve(length);
  uint8_t byte = 0;
  for (int64_t i = 0; i < length; ++i) {
    const double u =
        static_cast<double>(hash64({seed, stream_id("synthetic"), stream, static_cast<uint64_t>(i)}) >> 11) * 0x1p-53;
    const auto rank = static_cast<uint64_t>(std::ranges::upper_bound(upto, u) - upto.begin());
    // An odd stride visits all 256 bytes before it repeats, so the successors of a byte are distinct.
    const uint64_t table = hash64({seed, stream_id("successors"), byte});
    byte = static_cast<uint8_t>((table & 0xff) + std::min<uint64_t>(rank, branches - 1) * ((table >> 8 & 0xff) | 1));
    text.push_back(static_cast<char>(byte));
  }
  return text;
}

}  // namespace thinwire::data
