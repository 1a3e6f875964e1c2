// Where a rank stands among replicas and stages, and over which groups it talks.
//
// rank = replica * stages + stage. A rank has one link to the other replicas and one to its neighbours in the pipeline.
#pragma once

#include "thinwire/comm/mail_group.h"
#include "thinwire/train/recipe.h"

namespace thinwire::train {

struct Mesh {
  int replica = 0, stage = 0, replicas = 1, stages = 1;
  std::shared_ptr<comm::MailGroup> bare;  // all ranks, as fast as it goes: for what is not training
  // The same stage of every replica: over link.replicas, and bare.
  comm::GroupPtr wire, across;
  // The stages of this replica: over link.stages, and bare. Null where there is one stage.
  comm::GroupPtr along, bare_along;

  bool leads() const { return bare->rank() == 0; }
  bool last_stage() const { return stage == stages - 1; }
};

// Collective. Exchanges over the emulated links are entered in `trace`.
Mesh make_mesh(const Recipe& recipe, const std::shared_ptr<comm::MailGroup>& bare, const TracePtr& trace);

}  // namespace thinwire::train
