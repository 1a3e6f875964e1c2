// Where two stages meet: activations go down, their gradients come up, as messages that travel while both compute.
//
// Where activations are thresholded (threshold.h) a gradient is cut to the places of its activation. Backwards go in
// the order of forwards, so each side keeps the masks in a row: of activations that it has sent, or that have arrived,
// and whose gradient has not yet come, or gone.
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

// What travels: rows, time, width of a microbatch, in the type the model computes in; and what makes it small.
struct ActivationSpec {
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  ActivationCodec codec = {};  // none: as it is
  at::Device device = at::kCPU;
  at::TensorOptions options() const { return at::device(device).dtype(dtype); }
};

// Bytes of one activation on the wire; with a threshold, of one that keeps as many numbers as it is meant to.
int64_t message_bytes(const ActivationSpec& activation);

// One stage's side of a channel. Both sides send and receive; the k-th received is the k-th that was sent.
class StageChannel {
 public:
  // `stages` joins the stages of a replica; `peer` is the neighbour's rank there: activations go to the higher one.
  // `meter` counts its waits; null: nobody does.
  StageChannel(comm::GroupPtr stages, int peer, const ActivationSpec& activation, dp::MeterPtr meter = {});

  // Returns at once. x must not change afterwards. With a codec, x must be finite.
  void send(const at::Tensor& x);
  // Waits for the next one. c10::Error if a codec cannot read it.
  at::Tensor recv();
  // The next `count` ones, from the wire but still to be received: nothing is under way any more.
  void take_in(int64_t count);
  // Those that were taken in, of which there are `count`; and put back.
  std::vector<at::Tensor> taken_in() const { return {waiting_.begin(), waiting_.end()}; }
  void put_back(at::Tensor x) { waiting_.push_back(std::move(x)); }

  // From the next message on, to both sides, they are of another shape; a threshold starts anew. No activation may be
  // without its gradient. Nothing is waited for.
  void restart(const ActivationSpec& activation);

  // What decides later messages, but for those that were taken in: the threshold and the masks, theirs included. Call
  // put() after take_in().
  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix);

 private:
  bool upstream() const { return peer_ > stages_->rank(); }  // this side sends activations
  void post(at::Tensor message, comm::TrafficKind kind = comm::TrafficKind::payload);
  at::Tensor encoded(const at::Tensor& values);
  void check_finite(bool finite) const;
  at::Tensor from_wire();
  at::Tensor activation_from_wire();
  Mask next_mask();
  void forget_sent();

  const comm::GroupPtr stages_;
  const int peer_;
  ActivationSpec activation_;
  const compress::CodecPtr codec_;      // null: as it is, or thresholded
  std::optional<Threshold> threshold_;  // only the upstream side ever asks it
  struct Sent {
    at::Tensor message;
    comm::WorkPtr work;
  };
  std::deque<Sent> sent_;           // until it was read at the other end
  std::vector<at::Tensor> free_;    // messages' memory
  std::deque<at::Tensor> waiting_;  // taken in
  std::deque<Mask> masks_;          // from an activation to its gradient
  at::Tensor incoming_;             // a message to be decoded
  const dp::MeterPtr meter_;
};

}  // namespace thinwire::pipeline
