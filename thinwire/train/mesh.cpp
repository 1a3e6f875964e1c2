#include "thinwire/train/mesh.h"

#include "thinwire/net/emulated_mail.h"

namespace thinwire::train {

Mesh make_mesh(const Recipe& recipe, const std::shared_ptr<comm::MailGroup>& bare, const TracePtr& trace) {
  Mesh mesh;
  mesh.stages = static_cast<int>(recipe.workers.stages), mesh.replicas = static_cast<int>(recipe.workers.replicas);
  mesh.stage = bare->rank() % mesh.stages, mesh.replica = bare->rank() / mesh.stages;
  mesh.bare = bare;
  auto over = [&](const net::Link& link) {
    return link.none() ? bare->over(bare->mail())
                       : bare->over(std::make_shared<net::EmulatedMail>(bare->mail(), link, recipe.train.seed));
  };
  auto wire = over(recipe.link.replicas);
  mesh.wire = wire, mesh.across = bare;
  if (mesh.stages > 1) {
    mesh.wire = wire->split(mesh.stage, mesh.replica);
    mesh.across = bare->split(mesh.stage, mesh.replica);
    mesh.along = over(recipe.link.stages)->split(mesh.replica, mesh.stage);
    mesh.bare_along = bare->split(mesh.replica, mesh.stage);
  }
  wire->record(trace);
  return mesh;
}

}  // namespace thinwire::train
