#include "thinwire/train/stage_module.h"

namespace thinwire::train {
namespace {

// Whether one end of a tied matrix is on a stage and the other is not.
bool parts_tie(const models::Model& model, Units units) {
  return model.tied.defined() && (units.first == 0) != (units.end == model.units.size());
}

}  // namespace

std::vector<std::vector<models::Parameter>> parameters_of(const models::Model& model, Units units, bool tie_apart) {
  std::vector<std::vector<models::Parameter>> all;
  for (size_t unit = units.first; unit < units.end; ++unit) all.push_back(model.units[unit]->parameters);
  if (!parts_tie(model, units)) return all;
  const auto is_tied = [&](const models::Parameter& p) { return p.tensor.is_same(model.tied); };
  if (tie_apart && units.first == 0) std::erase_if(all.front(), is_tied);
  if (!tie_apart && units.first > 0)
    for (const auto& parameter : model.units.front()->parameters)
      if (is_tied(parameter)) all.push_back({parameter});
  return all;
}

std::vector<std::vector<at::Tensor>> tensors_of(const std::vector<std::vector<models::Parameter>>& parameters) {
  std::vector<std::vector<at::Tensor>> units;
  for (const auto& unit : parameters) {
    units.emplace_back();
    for (const auto& parameter : unit) units.back().push_back(parameter.tensor);
  }
  return units;
}

optim::Labels labels_of(const std::vector<std::vector<models::Parameter>>& parameters) {
  optim::Labels labels;
  for (const auto& unit : parameters)
    for (const auto& parameter : unit) {
      labels.names.push_back(parameter.name);
      labels.matrices.push_back(parameter.matrices);
    }
  return labels;
}

pipeline::StageModule stage_module_of(const std::shared_ptr<models::Model>& model, Units units, bool tie_apart) {
  const auto parameters = parameters_of(*model, units, tie_apart);
  pipeline::StageModule module;
  module.parameters = tensors_of(parameters);
  module.labels = labels_of(parameters);
  if (parts_tie(*model, units)) {
    module.tied = model->tied;
    if (!tie_apart && units.first > 0) {  // listed last, and by the first stage as well
      module.labels.duplicates.assign(module.labels.names.size(), false);
      module.labels.duplicates.back() = true;
    }
  }
  module.forward = [=](const at::Tensor& input) {
    at::Tensor x = input;
    for (size_t unit = units.first; unit < units.end; ++unit) x = model->units[unit]->forward(x);
    return x;
  };
  if (units.end == model->units.size()) module.loss = models::cross_entropy;
  return module;
}

}  // namespace thinwire::train
