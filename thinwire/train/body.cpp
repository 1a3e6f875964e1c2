#include "thinwire/train/body.h"

namespace thinwire::train {

optim::Labels labels_of(const models::Model& model, size_t first_unit, size_t end_unit) {
  optim::Labels labels;
  for (size_t unit = first_unit; unit < end_unit; ++unit)
    for (const auto& parameter : model.units[unit]->parameters) {
      labels.names.push_back(parameter.name);
      labels.matrices.push_back(parameter.matrices);
    }
  return labels;
}

pipeline::Body body_of(const std::shared_ptr<models::Model>& model, size_t first_unit, size_t end_unit) {
  const auto all = models::parameters_by_unit(*model);
  pipeline::Body body;
  body.parameters.assign(all.begin() + static_cast<int64_t>(first_unit), all.begin() + static_cast<int64_t>(end_unit));
  body.labels = labels_of(*model, first_unit, end_unit);
  body.forward = [=](const at::Tensor& input) {
    at::Tensor x = input;
    for (size_t unit = first_unit; unit < end_unit; ++unit) x = model->units[unit]->forward(x);
    return x;
  };
  if (end_unit == model->units.size()) body.loss = models::cross_entropy;
  return body;
}

}  // namespace thinwire::train
