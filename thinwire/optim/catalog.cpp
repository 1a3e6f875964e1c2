#include "thinwire/optim/catalog.h"

#include <cmath>

#include "thinwire/base/errors.h"
#include "thinwire/optim/adamw.h"
#include "thinwire/optim/clip.h"
#include "thinwire/optim/lamb.h"
#include "thinwire/optim/lars.h"
#include "thinwire/optim/muon.h"
#include "thinwire/optim/nadamw.h"
#include "thinwire/optim/sgd.h"

namespace thinwire::optim {
namespace {

NadamwOptions nadamw_options(const OptimOptions& o) { return {o.betas, o.eps, o.weight_decay, o.momentum_decay}; }

MuonOptions muon_options(const OptimOptions& o) {
  MuonOptions muon{.momentum = o.momentum,
                   .weight_decay = o.weight_decay,
                   .ns_dtype = o.ns_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat,
                   .adamw = {o.betas, o.eps, o.weight_decay, o.bias_correction}};
  if (o.rest == "nadamw") muon.nadamw = nadamw_options(o);
  return muon;
}

}  // namespace

RulePtr make_rule(const OptimOptions& o, const Layout& layout, OverShards over_replica, OverShards over_shards) {
  check_fields("optim", o);
  if (o.trust[0] > o.trust[1])
    throw BadInput("optim.trust wants the smaller number first, got {} and {}", o.trust[0], o.trust[1]);
  RulePtr rule;
  if (o.name == "sgd")
    rule = std::make_unique<Sgd>(layout, SgdOptions{o.momentum, o.weight_decay});
  else if (o.name == "nadamw")
    rule = std::make_unique<Nadamw>(layout, nadamw_options(o));
  else if (o.name == "lamb")
    rule = std::make_unique<Lamb>(layout, LambOptions{o.betas, o.eps, o.weight_decay, o.bias_correction, o.trust},
                                  std::move(over_shards));
  else if (o.name == "lars")
    rule = std::make_unique<Lars>(layout, LarsOptions{o.momentum, o.weight_decay, o.eta}, std::move(over_shards));
  else if (o.name == "muon")
    rule = std::make_unique<Muon>(layout, muon_options(o));
  else
    rule = std::make_unique<Adamw>(layout, AdamwOptions{o.betas, o.eps, o.weight_decay, o.bias_correction});
  if (std::isinf(o.clip)) return rule;
  return std::make_unique<Clip>(std::move(rule), layout, o.clip, std::move(over_replica));
}

Schedule make_schedule(const OptimOptions& o, int64_t steps) {
  check_fields("optim", o);
  return {.lr = o.lr,
          .warmup_steps = o.warmup_steps,
          .cosine = o.schedule == "cosine",
          .final_lr = o.final_lr,
          .steps = steps};
}

}  // namespace thinwire::optim
