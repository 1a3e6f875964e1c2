#include "thinwire/kernels/reduce.h"

#include <c10/util/Exception.h>

#include <cmath>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

THINWIRE_CLONES double squares(const float* x, int64_t n) {
  Lanes lanes;
  lanes.add(x, n);
  return lanes.total();
}

THINWIRE_CLONES double magnitudes(const float* x, int64_t n) {
  double sum[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; ++j) sum[j] += static_cast<double>(std::fabs(x[i + j]));
  for (int j = 0; i < n; ++i, ++j) sum[j] += static_cast<double>(std::fabs(x[i]));
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

THINWIRE_CLONES double squared_differences(const float* x, const float* y, int64_t n) {
  constexpr int64_t kPart = 512;
  Lanes lanes;
  float difference[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t size = std::min(kPart, n - at);
    for (int64_t i = 0; i < size; ++i) difference[i] = x[at + i] - y[at + i];
    lanes.add(difference, size);
  }
  return lanes.total();
}

}  // namespace

double sum_squares(const at::Tensor& x, Range range) {
  const float* p = in(x, range);
  return sum_tasks(range.numel, [&](int64_t begin, int64_t end) { return squares(p + begin, end - begin); });
}
double sum_squares(const at::Tensor& x) { return sum_squares(x, whole(x)); }

double sum_magnitudes(const at::Tensor& x, Range range) {
  const float* p = in(x, range);
  return sum_tasks(range.numel, [&](int64_t begin, int64_t end) { return magnitudes(p + begin, end - begin); });
}

double sum_squared_differences(const at::Tensor& x, const at::Tensor& y) {
  TORCH_CHECK(x.numel() == y.numel(), "[kernels] wanted equal lengths, got ", x.numel(), " and ", y.numel());
  const float *p = in(x), *q = in(y);
  return sum_tasks(x.numel(),
                   [&](int64_t begin, int64_t end) { return squared_differences(p + begin, q + begin, end - begin); });
}

}  // namespace thinwire::kernels
