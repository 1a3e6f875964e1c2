// The part of a model that a pipeline stage computes.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/models/model.h"
#include "thinwire/pipeline/stage.h"

namespace thinwire::train {

optim::Labels labels_of(const models::Model& model, size_t first_unit, size_t end_unit);

// Units [first, end) of the model, which it keeps alive; with the loss where the last unit is among them.
pipeline::Body body_of(const std::shared_ptr<models::Model>& model, size_t first_unit, size_t end_unit);

}  // namespace thinwire::train
