// A rank's place among replicas, stages and shards, and the groups it communicates over: a device mesh.
#pragma once

#include "thinwire/base/trace.h"
#include "thinwire/comm/coordinates.h"
#include "thinwire/comm/world.h"
#include "thinwire/train/recipe.h"

namespace thinwire::train {

using comm::Coordinates;
using comm::MeshShape;
MeshShape shape_of(const Recipe& recipe);  // [workers]

// A rank has one link to the other replicas and one to its neighbours in the pipeline; each has an uplink and a ledger
// of its own. Groups share the world's transport and executor.
struct Mesh {
  MeshShape shape;
  Coordinates at;                                 // of this rank
  std::shared_ptr<comm::TransportGroup> control;  // all ranks, over link.control: for what is not training
  // The same stage of every replica: over link.replicas, and over link.control.
  comm::GroupPtr replica_group, replica_control;
  // The stages of this replica: over link.stages, and over link.control. Null where there is one stage.
  comm::GroupPtr pipeline_group, pipeline_control;

  bool is_rank0() const { return control->rank() == 0; }
  bool last_stage() const { return at.stage == shape.stages - 1; }
};

// Collective, blocking. Exchanges between replicas are entered in `trace`. c10::Error if the recipe asks for another
// number of ranks than the world has.
Mesh make_mesh(const Recipe& recipe, const comm::World& world, const TracePtr& trace);

}  // namespace thinwire::train
