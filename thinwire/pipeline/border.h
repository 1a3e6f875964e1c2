// Where two stages meet: activations go down, their gradients come up, as messages that travel while both compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <vector>

#include "thinwire/base/state.h"
#include "thinwire/base/trace.h"
#include "thinwire/comm/group.h"
#include "thinwire/compress/codec.h"

namespace thinwire::pipeline {

// What travels: rows, time, width of a microbatch, in the type the model computes in; and what makes it small.
struct Parcel {
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  compress::CodecName codec = {};  // none: as it is
};

// One stage's side of a border. Both sides send and receive; the k-th received is the k-th that was sent.
class Border {
 public:
  // `along` joins the stages of a replica; `peer` is the neighbour's rank there.
  Border(comm::GroupPtr along, int peer, const Parcel& parcel);

  // Returns at once. x must not change afterwards.
  void send(const at::Tensor& x);
  // Waits for the next one.
  at::Tensor receive();
  // The next `count` ones, from the wire but still to be received: nothing is in the mail any more.
  void take_in(int64_t count);
  // Those that were taken in, of which there are `count`; and put back.
  std::vector<at::Tensor> taken_in() const { return {waiting_.begin(), waiting_.end()}; }
  void put_back(at::Tensor x) { waiting_.push_back(std::move(x)); }

  double exposed_s() const { return exposed_s_; }
  void record(TracePtr trace) { trace_ = std::move(trace); }

 private:
  at::Tensor from_wire();
  void forget_sent();

  const comm::GroupPtr along_;
  const int peer_;
  const Parcel parcel_;
  const compress::CodecPtr codec_;  // null: as it is
  struct Sent {
    at::Tensor message;
    comm::WorkPtr work;
  };
  std::deque<Sent> sent_;           // until it was read at the other end
  std::vector<at::Tensor> free_;    // messages' memory
  std::deque<at::Tensor> waiting_;  // taken in
  at::Tensor incoming_;             // a message to be decoded
  double exposed_s_ = 0;
  TracePtr trace_;
};

}  // namespace thinwire::pipeline
