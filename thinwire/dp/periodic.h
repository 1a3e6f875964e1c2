// Periodic averaging: replicas train alone for a round of `period` steps, then agree. One class, many names:
//
//   local_sgd       wait for the mean of the weights                                  (1805.09767)
//   slowmo          ... and move there with momentum                                  (1910.00643)
//   diloco          ... with Nesterov momentum, not in units of the learning rate     (2311.08105)
//   delayed_diloco, eager_diloco   the same one round late; eager keeps 1/M of the own progress meanwhile (2502.12996)
//   cocod           the mean one round late, keeping all own progress                 (1906.12043)
//   co2             slowmo one round late, with a staleness penalty and clipped momentum (2401.16265)
//
// With tau = period, gamma = the lr of the last inner step, at the end of a round:
//
//     p_i = x_i - start_i                  local progress
//     P   = mean_i p_i                     delay 0: waited for; delay 1: launched now, used one round later
//     A   = the P that is available
//     v   = beta (gamma / gamma_prev) v + A / Lambda,   clamped to +- phi tau gamma;   Lambda = 1 where A is fresh
//     z  += alpha v                        Nesterov: alpha (beta v + A / Lambda)
//     x_i = start_i = z + w p_i            w > 0 only where p_i is still under way
//
// (average at delay 0: z = mean_i x_i.) z and v are equal on all replicas, bit for bit. The first late boundary has
// nothing to apply: z and v stay. finish() closes a partial round like a whole one, then lands what is in flight as one
// more outer update; x_i = z.
//
// Memory beside weights and gradient: z, v (where beta > 0), the buffer in flight, start_i (where w > 0); with a codec
// 1 + 1/M times the weights for what it lost.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "thinwire/base/options.h"
#include "thinwire/compress/compressed_all_reduce.h"
#include "thinwire/dp/strategy.h"
#include "thinwire/optim/layout.h"

namespace thinwire::dp {

// A share of the own progress: a number, or "1/M" with M replicas.
struct Keep {
  double share = 0;          // [0, 1]
  bool per_replica = false;  // 1/M instead
};
void read(const Value& value, const std::string& name, Keep& keep, const Limit& limit);
Value to_value(const Keep& keep);

struct PeriodicOptions {
  int64_t period = 30;                                    // tau, inner steps a round
  int64_t delay = 0;                                      // rounds between an average's launch and its use, 0 or 1
  std::string outer = "average";                          // average | heavy_ball | nesterov
  double outer_lr = 1;                                    // alpha
  double momentum = 0;                                    // beta
  bool lr_normalised = true;                              // v is kept in units of the inner learning rate
  std::string penalty = "none";                           // Lambda: none | gap | floor
  double clip = std::numeric_limits<double>::infinity();  // phi
  Keep keep = {};                                         // w
  int64_t sync_rounds = 1;         // first rounds of a late strategy that wait: delay 0, Lambda 1, w 0
  compress::CodecName codec = {};  // of the progress; what it loses is added to the next round's
};

template <class F>
void fields(F&& f, PeriodicOptions& o) {
  f("period", o.period, at_least(1), "inner steps between two averages (tau)");
  f("delay", o.delay, between(0, 1), "rounds until an average is used: 0 waits for it, 1 computes meanwhile");
  f("outer", o.outer, one_of({"average", "heavy_ball", "nesterov"}), "how the agreed weights move towards the average");
  if (o.outer != "average") {
    f("outer_lr", o.outer_lr, above_up_to(0, 10), "step of the agreed weights (alpha)");
    f("momentum", o.momentum, at_least_below(0, 1), "outer momentum (beta)");
    f("lr_normalised", o.lr_normalised, any(), "outer momentum in units of the inner learning rate");
    f("clip", o.clip, above(0),
      "most inner learning rates a step that a coordinate of the momentum may move (phi); inf: off");
    f("penalty", o.penalty, one_of({"none", "gap", "floor"}), "what a late average is divided by (Lambda)");
  } else {  // a preset's values that the recipe's outer has no use for
    const PeriodicOptions plain;
    o.outer_lr = plain.outer_lr, o.momentum = plain.momentum, o.lr_normalised = plain.lr_normalised;
    o.clip = plain.clip, o.penalty = plain.penalty;
  }
  if (o.delay == 1) {
    f("keep", o.keep, between(0, 1), "share of the own, still travelling progress that is kept (w), or \"1/M\"");
    f("sync_rounds", o.sync_rounds, at_least(0), "first rounds that wait for their average");
  } else {
    o.keep = {}, o.sync_rounds = 1;
  }
  f("codec", o.codec, any(), compress::codec_help());
}

class Periodic final : public Strategy {
 public:
  Periodic(const optim::Layout& layout, Groups groups, optim::RulePtr rule, const PeriodicOptions& options,
           at::Tensor x);

  void step(const optim::Update& update) override;
  void drain() override;
  void finish(at::Tensor x) override;
  at::Tensor consensus(at::Tensor x) override;
  State state() override;
  void load(const State& state) override;

 private:
  void close_round(at::Tensor x);
  comm::WorkPtr launch();                                       // the mean of flight_
  void land();                                                  // waits for the average in flight
  void move(at::Tensor x, bool apply, bool launch, bool sync);  // the outer update
  double lambda() const;

  const optim::Layout layout_;
  const optim::RulePtr rule_;
  const PeriodicOptions options_;
  const bool average_;
  const double keep_;          // w
  const bool single_replica_;  // one replica that would average with itself: nothing to do

  const at::Tensor valid_;   // of the flat weights' blocks
  compress::Errors errors_;  // with a codec, like the next
  std::unique_ptr<compress::CompressedAllReduce> compressed_;

  at::Tensor z_, v_, flight_, start_;       // v_ and start_ only where the rule needs them
  at::Tensor then_;                         // x when what is in flight left, where a probe asks
  comm::WorkPtr work_;                      // under way
  bool in_flight_ = false;                  // flight_ holds, or will hold, an average that was not used yet
  int64_t inner_ = 0, rounds_ = 0;          // steps of this round, rounds closed
  std::vector<double> gamma_, gamma_prev_;  // by group; gamma_prev_ is 0 before the first outer update
  double last_move_ = 0, largest_move_ = 0;
};

}  // namespace thinwire::dp
