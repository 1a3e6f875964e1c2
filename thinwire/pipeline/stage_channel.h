// The channel between two neighbouring stages: activations go down, towards the last stage, and their gradients come
// back up, as messages that travel while both stages compute.
//
// For every microbatch the upstream side sends one activation and receives one gradient of the same shape, the
// downstream side the reverse. Both directions are queues: the k-th recv() gets what the k-th send() of the other side
// sent, so no microbatch number travels. send() never blocks: it keeps the message until the peer has read it.
//
//   pipeline.codec     upstream -> downstream                 downstream -> upstream
//   none               the tensor, n w bytes                  the tensor, n w bytes           (w: bytes of a number)
//   a dense codec      codec bytes(n)                         codec bytes(n)
//   threshold:KEEP     8 bytes (control), then mask + values  values at the activation's places
//
// With a threshold (threshold.h) a gradient has its activation's mask, which both sides have: each keeps a queue of the
// masks of activations sent (or received) whose gradient has not come (or gone) yet. That is enough because every
// schedule does its backwards in the order of its forwards.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <optional>
#include <vector>

#include "thinwire/base/state.h"
#include "thinwire/comm/group.h"
#include "thinwire/compress/codec.h"
#include "thinwire/dp/meter.h"
#include "thinwire/pipeline/activation_codec.h"
#include "thinwire/pipeline/threshold.h"

namespace thinwire::pipeline {

// What a channel carries, the same on both sides: the activation of one microbatch.
struct ActivationSpec {
  std::vector<int64_t> shape;         // rows, time, width
  at::ScalarType dtype = at::kFloat;  // the type the model computes in; what recv() returns
  ActivationCodec codec = {};         // none: as it is
  at::Device device = at::kCPU;
  at::TensorOptions options() const { return at::device(device).dtype(dtype); }
};

// Bytes of one activation on the wire; with a threshold, of one that keeps as many numbers as it is meant to.
int64_t message_bytes(const ActivationSpec& activation);

// One stage's side of a channel. Used by one thread. A lost or stuck peer is comm::PeerLost or comm::Timeout from
// recv(), or from a later send(). It may be destroyed while messages are in flight: they own their memory.
class StageChannel {
 public:
  // `stages` joins the stages of a replica; `peer` is the other side's rank there: activations go to the higher one.
  // The group must carry no other messages between the two ranks. `meter` counts the waits; null: they are not counted.
  StageChannel(comm::GroupPtr stages, int peer, const ActivationSpec& activation, dp::MeterPtr meter = {});

  // Returns at once; x, of the spec's shape, must not change afterwards. With a codec, x must be finite: c10::Error
  // otherwise, naming both stages, before anything is sent.
  void send(const at::Tensor& x);
  // Blocks until the next message is here and returns it decoded, in the spec's type. c10::Error if a codec cannot
  // read it.
  at::Tensor recv();

  // From the next message on, to both sides, they are of another shape; a threshold starts anew. No activation may be
  // without its gradient, and none prefetched: c10::Error. Does not block; what was sent before still arrives.
  void restart(const ActivationSpec& activation);

  // For checkpoints, which are taken while messages are in flight. prefetch() blocks until `count` messages are here
  // that recv() has not returned yet; afterwards, if the other side has sent no more, nothing is in flight in this
  // direction. prefetched() are these messages, in order, without removing them; restore() appends one, in a channel
  // that takes up where another left off.
  void prefetch(int64_t count);
  std::vector<at::Tensor> prefetched() const { return {prefetched_.begin(), prefetched_.end()}; }
  void restore(at::Tensor x) { prefetched_.push_back(std::move(x)); }

  // The rest of what later messages depend on: the threshold and the masks, those of prefetched messages included. Call
  // put() after prefetch(). get() throws BadInput for entries that are missing or do not fit.
  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix);

 private:
  bool upstream() const { return peer_ > stages_->rank(); }  // this side sends activations
  void send_message(at::Tensor message, comm::TrafficKind kind = comm::TrafficKind::payload);
  at::Tensor encoded(const at::Tensor& values);
  void check_finite(bool finite) const;
  at::Tensor from_wire();
  at::Tensor activation_from_wire();
  Mask next_mask();
  void release_sent();

  const comm::GroupPtr stages_;
  const int peer_;
  ActivationSpec activation_;
  const compress::CodecPtr codec_;      // null: as it is, or thresholded
  std::optional<Threshold> threshold_;  // used by the upstream side alone
  struct Sent {
    at::Tensor message;
    comm::WorkPtr work;
  };
  std::deque<Sent> sent_;              // until the other side has read it
  std::vector<at::Tensor> free_;       // memory of messages that were read
  std::deque<at::Tensor> prefetched_;  // received, not yet returned by recv()
  std::deque<Mask> masks_;             // from an activation to its gradient
  at::Tensor incoming_;                // a message to be decoded
  const dp::MeterPtr meter_;
};

}  // namespace thinwire::pipeline
