#include "thinwire/pipeline/border.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <cmath>
#include <span>

#include "thinwire/kernels/threshold.h"

namespace thinwire::pipeline {
namespace {

std::span<uint8_t> bytes_of(const at::Tensor& message) {
  return {message.mutable_data_ptr<uint8_t>(), static_cast<size_t>(message.numel())};
}

compress::CodecPtr dense_codec(const BorderCodec& codec) {
  return codec.text == "none" || codec.keep() ? nullptr : compress::make_codec(codec.text);
}

std::optional<Threshold> threshold_of(const BorderCodec& codec) {
  if (const auto keep = codec.keep()) return Threshold(*keep, codec.renew);
  return {};
}

}  // namespace

int64_t message_bytes(const Parcel& parcel) {
  const int64_t n = c10::multiply_integers(parcel.shape), each = static_cast<int64_t>(c10::elementSize(parcel.dtype));
  if (const auto keep = parcel.codec.keep())
    return kHeadBytes + mask_bytes(n) + each * static_cast<int64_t>(std::ceil(*keep * static_cast<double>(n)));
  const auto codec = dense_codec(parcel.codec);
  return codec ? codec->bytes(n) : each * n;
}

Border::Border(comm::GroupPtr along, int peer, const Parcel& parcel)
    : along_(std::move(along)),
      peer_(peer),
      parcel_(parcel),
      codec_(dense_codec(parcel.codec)),
      threshold_(threshold_of(parcel.codec)) {}

void Border::send(const at::Tensor& x) {
  TORCH_CHECK(x.sizes() == at::IntArrayRef(parcel_.shape), "[pipeline.border] wanted ", at::IntArrayRef(parcel_.shape),
              ", got ", x.sizes());
  forget_sent();
  if (!codec_ && !threshold_) return post(x.contiguous());
  const at::Tensor values = x.contiguous().to(at::kFloat);
  if (codec_) return post(encoded(values));
  check_finite(kernels::count_reaching(values.const_data_ptr<float>(), values.numel(), kernels::kNotFinite) == 0);
  if (!upstream()) return post(pick(x, next_mask()));
  auto letters = threshold_->encode(x);
  post(std::move(letters.head), comm::Kind::control);
  post(std::move(letters.body));
  masks_.push_back(std::move(letters.mask));
}

void Border::post(at::Tensor message, comm::Kind kind) {
  auto work = along_->send(message, peer_, kind);
  sent_.push_back({std::move(message), std::move(work)});
}

at::Tensor Border::encoded(const at::Tensor& values) {
  const int64_t n = values.numel();
  if (free_.empty()) free_.push_back(at::empty({codec_->bytes(n)}, at::kByte));
  at::Tensor message = std::move(free_.back());
  free_.pop_back();
  check_finite(codec_->encode(values.const_data_ptr<float>(), nullptr, n, {}, bytes_of(message)) < 0);
  return message;
}

void Border::check_finite(bool finite) const {
  TORCH_CHECK(finite, "[pipeline.border] what stage ", along_->rank(), " sends to stage ", peer_,
              " is not finite: try a smaller optim.lr, or optim.clip");
}

void Border::forget_sent() {
  for (; !sent_.empty() && sent_.front().work->done(); sent_.pop_front()) {
    sent_.front().work->wait();  // throws what went wrong
    if (codec_) free_.push_back(std::move(sent_.front().message));
  }
}

Mask Border::next_mask() {
  TORCH_CHECK(!masks_.empty(), "[pipeline.border] a gradient between stages ", along_->rank(), " and ", peer_,
              " has no activation");
  Mask mask = std::move(masks_.front());
  masks_.pop_front();
  return mask;
}

at::Tensor Border::activation_from_wire() {
  const int64_t n = c10::multiply_integers(parcel_.shape);
  const at::Tensor head = at::empty({kHeadBytes}, at::kByte);
  along_->receive(head, peer_, comm::Kind::control)->wait();
  const at::Tensor body = at::empty({body_bytes(head, n, parcel_.dtype)}, at::kByte);
  along_->receive(body, peer_)->wait();
  auto [x, mask] = decode(head, body, parcel_.shape, parcel_.dtype);
  masks_.push_back(std::move(mask));
  return x;
}

at::Tensor Border::from_wire() {
  if (threshold_ && !upstream()) return activation_from_wire();
  if (threshold_) {
    const Mask mask = next_mask();
    const at::Tensor values = at::empty({mask.count}, parcel_.dtype);
    along_->receive(values, peer_)->wait();
    return spread(values, mask, parcel_.shape);
  }
  at::Tensor x = at::empty(parcel_.shape, codec_ ? at::kFloat : parcel_.dtype);
  if (codec_ && !incoming_.defined()) incoming_ = at::empty({codec_->bytes(x.numel())}, at::kByte);
  along_->receive(codec_ ? incoming_ : x, peer_)->wait();
  if (!codec_) return x;
  codec_->decode(bytes_of(incoming_), x.mutable_data_ptr<float>(), x.numel(), {}, /*add=*/false);
  return x.to(parcel_.dtype);
}

at::Tensor Border::receive() {
  if (!waiting_.empty()) {
    at::Tensor x = std::move(waiting_.front());
    waiting_.pop_front();
    return x;
  }
  const auto begin = Clock::now();
  at::Tensor x = from_wire();
  const auto end = Clock::now();
  exposed_s_ += seconds_between(begin, end);
  if (trace_) trace_->add(Doing::wait, begin, end);
  return x;
}

void Border::take_in(int64_t count) {
  while (std::ssize(waiting_) < count) waiting_.push_back(from_wire());
}

void Border::put(State& state, const std::string& prefix) const {
  if (!threshold_) return;
  if (upstream()) threshold_->put(state, prefix);
  thinwire::put(state, prefix + "masks", std::ssize(masks_), Scope::per_replica);
  for (size_t k = 0; k < masks_.size(); ++k)
    state[fmt::format("{}mask.{}", prefix, k)] = {masks_[k].bits, Scope::per_replica};
}

void Border::get(const State& state, const std::string& prefix) {
  if (!threshold_) return;
  if (upstream()) threshold_->get(state, prefix);
  const int64_t n = c10::multiply_integers(parcel_.shape);
  masks_.clear();
  for (int64_t k = 0; k < get_int(state, prefix + "masks"); ++k) {
    const at::Tensor bits = at::empty({mask_bytes(n)}, at::kByte);
    thinwire::get(state, fmt::format("{}mask.{}", prefix, k), bits);
    masks_.push_back(mask_of(bits, n));
  }
}

}  // namespace thinwire::pipeline
