#include "thinwire/pipeline/stage_channel.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <cmath>

#include "thinwire/kernels/threshold.h"

namespace thinwire::pipeline {
namespace {

compress::CodecPtr dense_codec(const ActivationCodec& codec) {
  return codec.text == "none" || codec.keep() ? nullptr : compress::make_codec(codec.text);
}

std::optional<Threshold> threshold_of(const ActivationCodec& codec) {
  if (const auto keep = codec.keep()) return Threshold(*keep, codec.renew);
  return {};
}

}  // namespace

int64_t message_bytes(const ActivationSpec& activation) {
  const int64_t n = c10::multiply_integers(activation.shape),
                each = static_cast<int64_t>(c10::elementSize(activation.dtype));
  if (const auto keep = activation.codec.keep())
    return kHeadBytes + mask_bytes(n) + each * static_cast<int64_t>(std::ceil(*keep * static_cast<double>(n)));
  const auto codec = dense_codec(activation.codec);
  return codec ? codec->bytes(n) : each * n;
}

StageChannel::StageChannel(comm::GroupPtr stages, int peer, const ActivationSpec& activation, dp::MeterPtr meter)
    : stages_(std::move(stages)),
      peer_(peer),
      activation_(activation),
      codec_(dense_codec(activation.codec)),
      threshold_(threshold_of(activation.codec)),
      meter_(meter ? std::move(meter) : std::make_shared<dp::Meter>()) {}

void StageChannel::send(const at::Tensor& x) {
  TORCH_CHECK(x.sizes() == at::IntArrayRef(activation_.shape), "[pipeline.channel] wanted ",
              at::IntArrayRef(activation_.shape), ", got ", x.sizes());
  release_sent();
  if (!codec_ && !threshold_) return send_message(x.contiguous());
  const at::Tensor values = x.contiguous().to(at::kFloat);
  if (codec_) return send_message(encoded(values));
  check_finite(kernels::count_reaching(values, kernels::kNotFinite) == 0);
  if (!upstream()) return send_message(pick(x, next_mask()));
  auto messages = threshold_->encode(x);
  send_message(std::move(messages.head), comm::TrafficKind::control);
  send_message(std::move(messages.body));
  masks_.push_back(std::move(messages.mask));
}

void StageChannel::send_message(at::Tensor message, comm::TrafficKind kind) {
  auto work = stages_->send(message, peer_, kind);
  sent_.push_back({std::move(message), std::move(work)});
}

at::Tensor StageChannel::encoded(const at::Tensor& values) {
  if (free_.empty()) free_.push_back(at::empty({codec_->bytes(values.numel())}, values.options().dtype(at::kByte)));
  at::Tensor message = std::move(free_.back());
  free_.pop_back();
  check_finite(codec_->encode(values.view(-1), {}, message) < 0);
  return message;
}

void StageChannel::check_finite(bool finite) const {
  TORCH_CHECK(finite, "[pipeline.channel] what stage ", stages_->rank(), " sends to stage ", peer_,
              " is not finite: try a smaller optim.lr, or optim.clip");
}

void StageChannel::release_sent() {
  for (; !sent_.empty() && sent_.front().work->done(); sent_.pop_front()) {
    sent_.front().work->wait();  // throws what went wrong
    const auto bytes = codec_ ? codec_->bytes(c10::multiply_integers(activation_.shape)) : 0;
    if (codec_ && sent_.front().message.numel() == bytes) free_.push_back(std::move(sent_.front().message));
  }
}

Mask StageChannel::next_mask() {
  TORCH_CHECK(!masks_.empty(), "[pipeline.channel] a gradient between stages ", stages_->rank(), " and ", peer_,
              " has no activation");
  Mask mask = std::move(masks_.front());
  masks_.pop_front();
  return mask;
}

at::Tensor StageChannel::activation_from_wire() {
  const int64_t n = c10::multiply_integers(activation_.shape);
  const auto bytes = activation_.options().dtype(at::kByte);
  const at::Tensor head = at::empty({kHeadBytes}, bytes);
  meter_->wait(*stages_->recv(head, peer_, comm::TrafficKind::control));
  const at::Tensor body = at::empty({body_bytes(head, n, activation_.dtype)}, bytes);
  meter_->wait(*stages_->recv(body, peer_));
  auto [x, mask] = decode(head, body, activation_.shape, activation_.dtype);
  masks_.push_back(std::move(mask));
  return x;
}

at::Tensor StageChannel::from_wire() {
  if (threshold_ && !upstream()) return activation_from_wire();
  if (threshold_) {
    const Mask mask = next_mask();
    const at::Tensor values = at::empty({mask.count}, activation_.options());
    meter_->wait(*stages_->recv(values, peer_));
    return spread(values, mask, activation_.shape);
  }
  at::Tensor x = at::empty(activation_.shape, activation_.options().dtype(codec_ ? at::kFloat : activation_.dtype));
  if (codec_ && !incoming_.defined()) incoming_ = at::empty({codec_->bytes(x.numel())}, x.options().dtype(at::kByte));
  meter_->wait(*stages_->recv(codec_ ? incoming_ : x, peer_));
  if (!codec_) return x;
  codec_->decode(incoming_, x.view(-1));
  return x.to(activation_.dtype);
}

at::Tensor StageChannel::recv() {
  if (!prefetched_.empty()) {
    at::Tensor x = std::move(prefetched_.front());
    prefetched_.pop_front();
    return x;
  }
  return from_wire();
}

void StageChannel::restart(const ActivationSpec& activation) {
  TORCH_CHECK(masks_.empty() && prefetched_.empty(), "[pipeline.channel] between stages ", stages_->rank(), " and ",
              peer_, " something is in flight");
  activation_ = activation;
  threshold_.reset();
  if (const auto keep = activation.codec.keep()) threshold_.emplace(*keep, activation.codec.renew);
  free_.clear();
  incoming_ = at::Tensor();
}

void StageChannel::prefetch(int64_t count) {
  while (std::ssize(prefetched_) < count) prefetched_.push_back(from_wire());
}

void StageChannel::put(State& state, const std::string& prefix) const {
  if (!threshold_) return;
  if (upstream()) threshold_->put(state, prefix);
  thinwire::put(state, prefix + "masks", std::ssize(masks_), Scope::per_replica);
  for (size_t k = 0; k < masks_.size(); ++k)
    state[fmt::format("{}mask.{}", prefix, k)] = {masks_[k].bits, Scope::per_replica};
}

void StageChannel::get(const State& state, const std::string& prefix) {
  if (!threshold_) return;
  if (upstream()) threshold_->get(state, prefix);
  const int64_t n = c10::multiply_integers(activation_.shape);
  masks_.clear();
  for (int64_t k = 0, masks = get_int(state, prefix + "masks", 0); k < masks; ++k) {
    const at::Tensor bits = at::empty({mask_bytes(n)}, activation_.options().dtype(at::kByte));
    thinwire::get(state, fmt::format("{}mask.{}", prefix, k), bits);
    masks_.push_back(mask_of(bits, n));
  }
}

}  // namespace thinwire::pipeline
