#include "thinwire/train/mesh.h"

#include <c10/util/Exception.h>

#include "thinwire/net/emulated_transport.h"

namespace thinwire::train {

MeshShape shape_of(const Recipe& recipe) {
  return {static_cast<int>(recipe.workers.replicas), static_cast<int>(recipe.workers.stages),
          static_cast<int>(recipe.workers.shards)};
}

Mesh make_mesh(const Recipe& recipe, const comm::World& world, const TracePtr& trace) {
  Mesh mesh;
  mesh.shape = shape_of(recipe);
  TORCH_CHECK(mesh.shape.ranks() == world.size(), "[train] the recipe asks for ", mesh.shape.replicas, " replicas x ",
              mesh.shape.stages, " stages x ", mesh.shape.shards, " shards = ", mesh.shape.ranks(),
              " ranks, there are ", world.size());
  mesh.at = mesh.shape.of(world.rank());
  const auto& group = world.group;
  auto with_link = [&](const net::Link& link) {
    if (link.none()) return group->with_transport(group->transport());
    return group->with_transport(std::make_shared<net::EmulatedTransport>(group->transport(), link, recipe.train.seed));
  };
  auto replicas = with_link(recipe.link.replicas);
  mesh.control = with_link(recipe.link.control);
  mesh.replica_group = replicas, mesh.replica_control = mesh.control;
  if (mesh.shape.stages > 1) {
    mesh.replica_group = replicas->split(mesh.at.stage, mesh.at.replica);
    mesh.replica_control = mesh.control->split(mesh.at.stage, mesh.at.replica);
    mesh.pipeline_group = with_link(recipe.link.stages)->split(mesh.at.replica, mesh.at.stage);
    mesh.pipeline_control = mesh.control->split(mesh.at.replica, mesh.at.stage);
  }
  replicas->record(trace);
  return mesh;
}

}  // namespace thinwire::train
