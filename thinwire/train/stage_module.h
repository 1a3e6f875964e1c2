// The part of a model that a pipeline stage computes.
//
// A tied matrix whose two ends are on different stages is listed by both; or, where it is a group of its own
// (tie_apart), by none of them.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/models/model.h"
#include "thinwire/pipeline/stage.h"

namespace thinwire::train {

struct Units {
  size_t first, end;  // [first, end) of a model's
};

// What a stage of these units holds, unit by unit; a tied matrix that the last stage lists is a unit more.
std::vector<std::vector<models::Parameter>> parameters_of(const models::Model& model, Units units,
                                                          bool tie_apart = false);
// As flat weights (thinwire/optim/flat.h) want them.
std::vector<std::vector<at::Tensor>> tensors_of(const std::vector<std::vector<models::Parameter>>& parameters);
optim::Labels labels_of(const std::vector<std::vector<models::Parameter>>& parameters);

// With the loss where the last unit is among them. It keeps the model alive.
pipeline::StageModule stage_module_of(const std::shared_ptr<models::Model>& model, Units units, bool tie_apart = false);

}  // namespace thinwire::train
