#include "thinwire/compress/rms_mean.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <numeric>

#include "thinwire/kernels/one_scale.h"
#include "thinwire/kernels/reduce.h"

namespace thinwire::compress {
namespace {

int64_t chunk_of(int64_t n, int64_t m) {
  TORCH_CHECK(m >= 1, "[compress.rms_mean] a group has at least one rank, got ", m);
  const int64_t unit = m * std::lcm(m, int64_t{8});
  return (n + unit - 1) / unit * unit / m;
}

int64_t total(const std::vector<kernels::Range>& ranges) {
  int64_t n = 0;
  for (const auto& range : ranges) n += range.numel;
  return n;
}

// error += value; returns its RMS, the scale it will be sent with.
float add_to(at::Tensor value, at::Tensor error) {
  error.add_(value);
  return static_cast<float>(std::sqrt(kernels::sum_squares(error) / static_cast<double>(error.numel())));
}

}  // namespace

RmsMean::RmsMean(comm::GroupPtr group, std::vector<kernels::Range> ranges, bool carry_padding,
                 at::TensorOptions options)
    : group_(std::move(group)),
      ranges_(std::move(ranges)),
      n_(total(ranges_)),
      chunk_(chunk_of(n_, group_->size())),
      carry_padding_(carry_padding) {
  const int64_t m = group_->size(), bytes = kernels::one_scale_bytes(chunk_);
  padded_ = at::zeros({m * chunk_}, options);
  worker_error_ = at::zeros({m * chunk_}, options);
  server_error_ = at::zeros({chunk_}, options);
  mean_chunk_ = at::zeros({chunk_}, options);
  auto messages = [&](int64_t count) { return at::zeros({count * bytes}, options.dtype(at::kByte)); };
  sent_ = messages(m), received_ = messages(m), answer_ = messages(1), answers_ = messages(m);
}

void RmsMean::mean_(at::Tensor x) {
  const int64_t m = group_->size();
  if (m == 1 || n_ == 0) return;
  auto each = [&](auto&& copy) {
    int64_t at = 0;
    for (const auto& range : ranges_) {
      copy(padded_.narrow(0, at, range.numel), x.narrow(0, range.at, range.numel));
      at += range.numel;
    }
  };
  each([](at::Tensor own, at::Tensor theirs) { own.copy_(theirs); });
  if (!carry_padding_) padded_.narrow(0, n_, padded_.numel() - n_).zero_();
  worker_scale = add_to(padded_, worker_error_);
  TORCH_CHECK(std::isfinite(worker_scale), "[compress.rms_mean] a number is not finite");
  kernels::one_scale_encode(worker_error_, worker_scale, m, sent_);
  group_->all_to_all(received_, sent_)->wait();

  kernels::one_scale_mean(received_, m, mean_chunk_);
  server_scale = add_to(mean_chunk_, server_error_);
  kernels::one_scale_encode(server_error_, server_scale, 1, answer_);
  group_->all_gather(answers_, answer_)->wait();

  kernels::one_scale_decode(answers_, m, padded_);
  each([](at::Tensor own, at::Tensor theirs) { theirs.copy_(own); });
}

void RmsMean::reset() { worker_error_.zero_(), server_error_.zero_(); }

void RmsMean::put(State& state, const std::string& prefix) const {
  state[prefix + "worker_error"] = {worker_error_, Scope::per_replica};
  state[prefix + "server_error"] = {server_error_, Scope::per_replica};
  state[prefix + "padded"] = {padded_, Scope::per_replica};
}

void RmsMean::get(const State& state, const std::string& prefix) {
  thinwire::get(state, prefix + "worker_error", worker_error_);
  thinwire::get(state, prefix + "server_error", server_error_);
  thinwire::get(state, prefix + "padded", padded_);
}

}  // namespace thinwire::compress
