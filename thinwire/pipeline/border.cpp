#include "thinwire/pipeline/border.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <span>

namespace thinwire::pipeline {
namespace {

std::span<uint8_t> bytes_of(const at::Tensor& message) {
  return {message.mutable_data_ptr<uint8_t>(), static_cast<size_t>(message.numel())};
}

}  // namespace

Border::Border(comm::GroupPtr along, int peer, const Parcel& parcel)
    : along_(std::move(along)),
      peer_(peer),
      parcel_(parcel),
      codec_(parcel.codec.text == "none" ? nullptr : compress::make_codec(parcel.codec.text)) {}

void Border::send(const at::Tensor& x) {
  TORCH_CHECK(x.sizes() == at::IntArrayRef(parcel_.shape), "[pipeline.border] wanted ", at::IntArrayRef(parcel_.shape),
              ", got ", x.sizes());
  forget_sent();
  at::Tensor message = x.contiguous();
  if (codec_) {
    const at::Tensor values = message.to(at::kFloat);
    const int64_t n = values.numel();
    if (free_.empty()) free_.push_back(at::empty({codec_->bytes(n)}, at::kByte));
    message = std::move(free_.back());
    free_.pop_back();
    const int64_t bad = codec_->encode(values.const_data_ptr<float>(), nullptr, n, {}, bytes_of(message));
    TORCH_CHECK(bad < 0, "[pipeline.border] what stage ", along_->rank(), " sends to stage ", peer_,
                " is not finite: try a smaller optim.lr, or optim.clip");
  }
  auto work = along_->send(message, peer_);
  sent_.push_back({std::move(message), std::move(work)});
}

void Border::forget_sent() {
  for (; !sent_.empty() && sent_.front().work->done(); sent_.pop_front()) {
    sent_.front().work->wait();  // throws what went wrong
    if (codec_) free_.push_back(std::move(sent_.front().message));
  }
}

at::Tensor Border::from_wire() {
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

}  // namespace thinwire::pipeline
