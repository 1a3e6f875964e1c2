// Averaging a slice at a time: instead of all weights now and then, replicas average a part of them all the time.
//
// The flat weights are divided into N slices (thinwire/dp/slicing.h). Every K steps the next slice is launched: its
// mean over the M replicas travels in the background, by an all-reduce or, with a codec, by a compressed one, while
// training goes on; exactly d steps after its launch it is merged into the weights, which have moved since. If the
// exchange is done by then it costs no time at all; otherwise the step waits, so d decides the result, the link does
// not. After K N steps every weight has been averaged once.
//
// Cost: a rank sends 2 (M-1)/M n/N numbers every K steps (n: weights; with a codec: bytes of 2 (M-1) messages of
// n/(N M) numbers), evenly spread over time instead of in bursts, and hides a transfer of up to d steps.
//
// One class, many names:
//
//   sparta        overwrite, waited for                                     (sparse averaging)
//   async_sparta  the same, ten steps late
//   asyncmesh     ema, redrawn slices, ten steps late                       (2601.22442)
//   loscar        delta, ten steps late
//   drip          anchor, one step late, in one bit per number: ours
//
// In step s: the inner update; what is due lands, in the order of launches; then, if s mod K = 0, slice S is launched:
//
//     y_i = x_i[S];  the mean over the replicas of y_i (anchor: of y_i - z[S]) is launched
//
// and d steps later the mean a is merged:
//
//     overwrite     x_i[S] = a
//     delta         x_i[S] += a - y_i
//     ema           e_i = mu e_i + (1 - mu) (x_i[S] - y_i), the first time x_i[S] - y_i;   x_i[S] = a + e_i
//     anchor        m = beta m + a;  z[S] += alpha m;  x_i[S] += z[S] - y_i
//
// overwrite throws away what a replica learnt in those d steps; delta and anchor add the correction to it; ema replaces
// it by what is learnt there on average. Why anchor is the one for codecs: y_i - z is small, and an error in it is
// corrected by the next exchange, while an error in y_i would be an error of the weights.
//
// A slice must land before it is launched again (K N >= d), or its drift would contain an earlier correction, which
// would be added a second time; redrawn slices may share blocks with one in flight, so there every landing adds its
// correction to the y_i of later flights. z and m are equal on all replicas, bit for bit. With a codec both sides keep
// what it lost, per slice; where N changes, launches are left out until nothing is in flight (at least one), and what
// was lost moves to the new slices. A single replica has nothing to average: it is left as it is, unless an outer step
// (alpha, beta) would move it.
//
// Memory beside weights and gradient: two slices a flight; anchor: z (and m with momentum); ema: e; with a codec
// 1 + 1/M times the weights. Threads, failures and checkpoints: as strategy.h says.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/compress/compressed_all_reduce.h"
#include "thinwire/dp/slicing.h"
#include "thinwire/dp/strategy.h"
#include "thinwire/optim/layout.h"

namespace thinwire::dp {

struct SlicesOptions {
  SliceCount slices = 8;                  // N
  int64_t every = 1;                      // K
  Delay delay = 1;                        // d
  std::string merge = "anchor";           // overwrite | delta | ema | anchor
  bool redraw = false;                    // other slices in every cycle
  std::array<double, 2> ema = {.5, .99};  // mu: first for `ema_hold` launches, then by a cosine to the second
  Launches ema_hold = 1000;
  int64_t ema_steps = 30'000;         // launches until mu is the second
  double outer_lr = 1, momentum = 0;  // alpha, beta
  int64_t block = 1024;               // numbers that stay together
  int64_t seed = 0;                   // of the slices
  compress::CodecName codec = {};

  // Launches are counted from 1, over all slices; of `launches` in all, 0 if that is not known.
  double mu(int64_t launch, int64_t launches = 0) const;
};
// BadInput that names the options that do not fit together; or that do not fit flat weights of this length, or a run
// of so many steps (0: unknown).
void check(const SlicesOptions& options);
void check(const SlicesOptions& options, int64_t numel, int64_t planned_steps);

template <class F>
void fields(F&& f, SlicesOptions& o) {
  f("slices", o.slices, at_least(1), "parts the weights are exchanged in (N), or a schedule: \"8, at 10% 4\"");
  f("every", o.every, at_least(1), "steps between two launches (K)");
  f("delay", o.delay, at_least(0),
    "steps from a slice's launch to its landing (d); \"auto\": as few as the link allows");
  f("merge", o.merge, one_of({"overwrite", "delta", "ema", "anchor"}), "what becomes of local progress at a landing");
  f("redraw", o.redraw, any(), "other slices in every cycle; not with anchor or a codec");
  if (o.merge == "ema") {
    f("ema", o.ema, at_least_below(0, 1), "decay of the expected drift (mu): in the first launches, and at last");
    f("ema_hold", o.ema_hold, at_least(0), "launches it stays at the former: a number, or a share of all like \"5%\"");
    f("ema_steps", o.ema_steps, at_least(1), "launches until it is the latter");
  }
  if (o.merge == "anchor") {
    f("outer_lr", o.outer_lr, above_up_to(0, 10), "step of the agreed weights (alpha)");
    f("momentum", o.momentum, at_least_below(0, 1), "outer momentum (beta)");
  } else {
    o.outer_lr = 1, o.momentum = 0;
  }
  f("block", o.block, at_least(1024), "numbers that stay together, a multiple of 1024");
  f("seed", o.seed, at_least(0), "of which blocks make a slice");
  f("codec", o.codec, any(), compress::codec_help());
  check(o);
}

class Slices final : public Strategy {
 public:
  // Collective over groups.sync; x becomes replica 0's. `planned_steps`: of the run, 0 if unknown. BadInput as check().
  Slices(const optim::Layout& layout, Groups groups, optim::RulePtr rule, const SlicesOptions& options, at::Tensor x,
         int64_t planned_steps);

  void step(const optim::Update& update) override;
  void drain() override;
  void finish(at::Tensor x) override;
  at::Tensor consensus(at::Tensor x) override;
  State state() override;
  void load(const State& state) override;

 private:
  // One slice from its launch to its landing.
  struct Flight {
    int64_t launch = 0;  // counted from 1
    std::vector<kernels::Part> parts;
    int64_t numel = 0;
    at::Tensor y_buffer, message_buffer;  // as large as the largest slice
    at::Tensor y, message;                // the slice's part of them; the message becomes the mean
    comm::WorkPtr work;
  };

  void launch(const at::Tensor& x);
  void land(const at::Tensor& x);                  // the oldest flight
  void set_parts(Flight& flight, int64_t launch);  // its parts, and buffers for them
  void reslice(int64_t count);                     // nothing is in flight
  void reset_errors(int64_t count);                // and valid_, for so many slices
  std::string place_in(const Flight& flight, int64_t i) const;

  const optim::Layout layout_;
  const optim::RulePtr rule_;
  const SlicesOptions options_;
  const kernels::Merge merge_;
  const int64_t planned_steps_;
  const Slicing slicing_;
  const bool single_replica_;
  std::vector<compress::Errors> errors_;  // by slice, with a codec, like the next
  std::vector<at::Tensor> valid_;         // ValidCounts of each slice

  at::Tensor z_, m_, e_, jump_;  // where the merge has them
  at::Tensor merged_;            // ema: which blocks have been merged before, one byte each
  at::Tensor consensus_;         // made when first asked for
  int64_t steps_ = 0, count_ = 0;
  bool agreed_ = false;  // nothing happened since finish()
  std::deque<Flight> in_flight_;
  std::vector<Flight> free_;                                   // their memory is used again
  std::unique_ptr<compress::CompressedAllReduce> compressed_;  // with a codec
};

}  // namespace thinwire::dp
