#include "thinwire/compress/rms_mean.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "thinwire/kernels/reduce.h"

namespace thinwire::compress {
namespace {

int64_t chunk_of(int64_t n, int64_t m) {
  TORCH_CHECK(m >= 1, "[compress.rms_mean] a group has at least one rank, got ", m);
  const int64_t unit = m * std::lcm(m, int64_t{8});
  return (n + unit - 1) / unit * unit / m;
}

int64_t total(const std::vector<Interval>& stretches) {
  int64_t n = 0;
  for (const auto& stretch : stretches) n += stretch.numel;
  return n;
}

float* data(const at::Tensor& t) { return t.mutable_data_ptr<float>(); }

// error += value; returns its RMS, the scale it will be sent with.
float add_to(at::Tensor value, at::Tensor error) {
  error.add_(value);
  return static_cast<float>(std::sqrt(kernels::sum_squares(error) / static_cast<double>(error.numel())));
}

void encode(float* c, int64_t n, float scale, uint8_t* message) {
  std::memcpy(message, &scale, 4);
  std::memset(message + 4, 0, n / 8);
  for (int64_t i = 0; i < n; ++i) {
    const bool plus = c[i] >= 0;
    if (plus) message[4 + i / 8] |= 1 << (7 - i % 8);
    c[i] -= plus ? scale : -scale;
  }
}

float decoded(const uint8_t* message, int64_t i) {
  float scale;
  std::memcpy(&scale, message, 4);
  return (message[4 + i / 8] >> (7 - i % 8)) & 1 ? scale : -scale;
}

}  // namespace

RmsMean::RmsMean(comm::GroupPtr group, std::vector<Interval> stretches, bool carry_padding)
    : group_(std::move(group)),
      stretches_(std::move(stretches)),
      n_(total(stretches_)),
      chunk_(chunk_of(n_, group_->size())),
      carry_padding_(carry_padding) {
  const int64_t m = group_->size(), bytes = 4 + chunk_ / 8;
  padded_ = at::zeros({m * chunk_}, at::kFloat);
  worker_error_ = at::zeros({m * chunk_}, at::kFloat);
  server_error_ = at::zeros({chunk_}, at::kFloat);
  mean_chunk_ = at::zeros({chunk_}, at::kFloat);
  sent_ = at::zeros({m * bytes}, at::kByte), received_ = at::zeros({m * bytes}, at::kByte);
  answer_ = at::zeros({bytes}, at::kByte), answers_ = at::zeros({m * bytes}, at::kByte);
}

void RmsMean::mean_(at::Tensor x) {
  const int64_t m = group_->size(), bytes = 4 + chunk_ / 8;
  if (m == 1 || n_ == 0) return;
  auto each = [&](auto&& copy) {
    int64_t at = 0;
    for (const auto& stretch : stretches_) {
      copy(padded_.narrow(0, at, stretch.numel), x.narrow(0, stretch.at, stretch.numel));
      at += stretch.numel;
    }
  };
  each([](at::Tensor own, at::Tensor theirs) { own.copy_(theirs); });
  if (!carry_padding_) padded_.narrow(0, n_, padded_.numel() - n_).zero_();
  worker_scale = add_to(padded_, worker_error_);
  TORCH_CHECK(std::isfinite(worker_scale), "[compress.rms_mean] a number is not finite");
  for (int64_t k = 0; k < m; ++k)
    encode(data(worker_error_) + k * chunk_, chunk_, worker_scale, sent_.mutable_data_ptr<uint8_t>() + k * bytes);
  group_->all_to_all(received_, sent_)->wait();

  float* mean = data(mean_chunk_);
  const auto* received = received_.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < chunk_; ++i) {
    float sum = 0;
    for (int64_t r = 0; r < m; ++r) sum += decoded(received + r * bytes, i);
    mean[i] = sum / static_cast<float>(m);
  }
  server_scale = add_to(mean_chunk_, server_error_);
  encode(data(server_error_), chunk_, server_scale, answer_.mutable_data_ptr<uint8_t>());
  group_->all_gather(answers_, answer_)->wait();

  float* out = data(padded_);
  const auto* answers = answers_.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < m * chunk_; ++i) out[i] = decoded(answers + i / chunk_ * bytes, i % chunk_);
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
