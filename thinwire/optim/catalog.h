// Update rules by name: the [optim] section of a recipe. fields() below says what each option means, its range, and
// which rules use it; an option that a rule does not use is accepted and ignored, so that recipes can change the name
// alone. To add a rule: its name here, a row in catalog.cpp, and its header.
#pragma once

#include <array>
#include <limits>
#include <string>

#include "thinwire/base/options.h"
#include "thinwire/optim/layout.h"
#include "thinwire/optim/rule.h"
#include "thinwire/optim/schedule.h"

namespace thinwire::optim {

// [optim]. Which rules use an option is in fields(). Where a recipe names muon, momentum is 0.95 and betas are 0.9 and
// 0.99 unless it says otherwise; where it names nadamw, as the rule or as muon's rest, betas are 0.99 and 0.999.
struct OptimOptions {
  std::string name = "adamw";                 // sgd | adamw | nadamw | lamb | lars | muon
  std::string rest = "adamw";                 // adamw | nadamw: of what muon does not take
  double lr = 1e-3;                           // (0, 1e3], at the top of the schedule
  std::array<double, 2> betas = {0.9, 0.95};  // [0, 1)
  double eps = 1e-8;                          // (0, 1]
  double momentum = 0.9;                      // [0, 1)
  double momentum_decay = 0.004;              // > 0, inf allowed
  std::string ns_dtype = "float32";           // float32 | bfloat16
  std::array<double, 2> trust = {0.01, 10};   // least and most
  double eta = 0.001;                         // (0, 1e3]
  double weight_decay = 0.1;                  // of matrices; norms and biases have none
  bool bias_correction = true;
  double clip = 1.0;                // norm of the whole gradient, > 0; inf: off
  int64_t warmup_steps = 20;        // >= 0
  std::string schedule = "cosine";  // cosine | constant
  double final_lr = 0.1;            // share of lr, [0, 1]
};

template <class F>
void fields(F&& f, OptimOptions& o) {
  const std::string before = o.name;
  f("name", o.name, one_of({"sgd", "adamw", "nadamw", "lamb", "lars", "muon"}), "the update rule inside each replica");
  if (o.name == "muon" && o.name != before) o.momentum = 0.95, o.betas = {0.9, 0.99};
  if (o.name == "nadamw" && o.name != before) o.betas = {0.99, 0.999};
  const std::string rest = o.rest;
  f("rest", o.rest, one_of({"adamw", "nadamw"}), "the update rule of what is no hidden layer's matrix (muon)");
  if (o.name == "muon" && o.rest == "nadamw" && o.rest != rest) o.betas = {0.99, 0.999};
  f("lr", o.lr, above_up_to(0, 1e3), "learning rate at the top of its schedule");
  f("betas", o.betas, at_least_below(0, 1),
    "decay of the first and second moment (adamw, nadamw, lamb; muon: of what is no matrix)");
  f("eps", o.eps, above_up_to(0, 1), "added to the root of the second moment (adamw, nadamw, lamb)");
  f("momentum", o.momentum, at_least_below(0, 1), "of the gradient (sgd, lars, muon)");
  f("momentum_decay", o.momentum_decay, above(0),
    "how fast momentum grows from half its size to all of it; inf: at once (nadamw)");
  f("ns_dtype", o.ns_dtype, one_of({"float32", "bfloat16"}), "type in which momentum is orthogonalised (muon)");
  f("trust", o.trust, between(0, 1e3), "least and most step of a tensor relative to its norm (lamb)");
  f("eta", o.eta, above_up_to(0, 1e3), "step of a tensor relative to its norm over its gradient's (lars)");
  f("weight_decay", o.weight_decay, between(0, 1e3), "of matrices; norms and biases do not decay");
  f("bias_correction", o.bias_correction, any(), "correct the moments' start at zero (adamw, lamb)");
  f("clip", o.clip, above(0), "largest norm of the whole gradient; inf: no clipping");
  f("warmup_steps", o.warmup_steps, at_least(0), "steps over which lr grows from 0");
  f("schedule", o.schedule, one_of({"cosine", "constant"}), "of lr after warm-up; with train.seconds always constant");
  f("final_lr", o.final_lr, between(0, 1), "share of lr that a cosine ends on");
}

// Both check the options first: BadInput that starts with the key.
// `over_replica` adds up over all ranks that hold parts of the replica (clipping), `over_shards` over those that hold
// parts of the same tensors (layer-wise rules). The rule clips first, unless options.clip is infinite.
RulePtr make_rule(const OptimOptions& options, const Layout& layout, OverShards over_replica = {},
                  OverShards over_shards = {});

// The learning rate over the run. `steps`: how many there will be, 0 if unknown: then it is constant after warm-up.
Schedule make_schedule(const OptimOptions& options, int64_t steps);

}  // namespace thinwire::optim
