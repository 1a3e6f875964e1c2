#include "thinwire/train/stages.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "thinwire/base/errors.h"
#include "thinwire/pipeline/partition.h"

namespace thinwire::train {

std::map<std::string, at::Tensor> by_name(const models::Model& model, const at::Tensor& whole) {
  const auto layout = optim::make_layout(models::parameters_by_unit(model));
  std::map<std::string, at::Tensor> parts;
  size_t next = 0;
  for (const auto& unit : model.units)
    for (const auto& parameter : unit->parameters) {
      const optim::Piece& piece = layout.pieces[next++];
      parts[parameter.name] = whole.narrow(0, piece.at, piece.numel).view(parameter.tensor.sizes());
    }
  return parts;
}

int64_t sync_steps_of(const Recipe& recipe) {
  return recipe.pipeline.asynchronous() ? recipe.pipeline.sync_steps.of(recipe.planned_steps()) : 0;
}

void check_lateness(const Recipe& recipe) {
  const auto& o = recipe.pipeline;
  const bool owns_rule = dp::traits_of(recipe.strategy).owns_rule;
  if (o.preset == "steady") {
    const auto needs = [](const char* what, const std::string& got) {
      throw BadInput("pipeline.preset = \"steady\" needs {}, got {}", what, got);
    };
    if (!o.asynchronous()) needs("pipeline.schedule = \"async_1f1b\"", fmt::format("\"{}\"", o.schedule));
    if (!o.stash) needs("pipeline.stash = true", "false");
    if (recipe.optim.name != "muon") needs("optim.name = \"muon\"", fmt::format("\"{}\"", recipe.optim.name));
    if (owns_rule) needs("a strategy that takes an update rule", fmt::format("\"{}\"", recipe.strategy.name));
  }
  if (!o.asynchronous()) return;
  if (!o.stash && (o.predict > 0 || o.rate_power > 0 || !o.sync_steps.none()))
    throw BadInput("pipeline.{} needs pipeline.stash = true, got false", o.predict > 0      ? "predict"
                                                                         : o.rate_power > 0 ? "rate_power"
                                                                                            : "sync_steps");
  if (o.predict > 0 && owns_rule)
    throw BadInput("pipeline.predict needs a strategy that takes an update rule, got \"{}\", which is one",
                   recipe.strategy.name);
  sync_steps_of(recipe);
}

pipeline::Schedule schedule_of(const Recipe& recipe) {
  const auto& o = recipe.pipeline;
  const bool parts = !o.asynchronous() || !o.sync_steps.none();
  if (parts && recipe.train.batch % o.microbatches != 0)
    throw BadInput("pipeline.microbatches must divide train.batch, got {} and {}", o.microbatches, recipe.train.batch);
  auto schedule = pipeline::make_schedule(o.schedule, static_cast<int>(recipe.workers.stages),
                                          o.asynchronous() ? 1 : o.microbatches,
                                          o.asynchronous() && !o.hop.automatic ? o.hop.count : 1);
  return starting_with(std::move(schedule), sync_steps_of(recipe), o.sync_schedule, o.microbatches);
}

pipeline::ActivationSpec activation_spec_of(const Recipe& recipe) {
  return {.shape = {recipe.train.batch / schedule_of(recipe).microbatches, recipe.model.context, recipe.model.width},
          .dtype = compute_dtype(recipe.train),
          .codec = recipe.pipeline.codec};
}

void check_stages(const Recipe& recipe, const models::Model& model) {
  schedule_of(recipe);
  partition_of(recipe, model);
  if (!recipe.model.tied) return;
  if (recipe.pipeline.asynchronous() && recipe.pipeline.tie == "no")
    throw BadInput(
        "model.tied = true with an asynchronous pipeline needs pipeline.tie = \"delayed\": embedding and "
        "head are on different stages, and their matrix is updated late at one of them");
  if (!recipe.pipeline.asynchronous() && recipe.strategy.name != "all_reduce")
    throw BadInput(
        "model.tied = true with pipeline.schedule = \"{}\" needs strategy.name = \"all_reduce\", got "
        "\"{}\": others would let the copies of the matrix at the two ends part",
        recipe.pipeline.schedule, recipe.strategy.name);
}

std::vector<int64_t> partition_of(const Recipe& recipe, const models::Model& model) {
  const auto stages = static_cast<int>(recipe.workers.stages);
  std::vector<pipeline::UnitCost> costs;
  for (const auto& unit : model.units) {
    const auto forward = static_cast<double>(unit->work(recipe.model.context));
    costs.push_back({forward, 2 * forward});
  }
  auto balanced = pipeline::partition(costs, stages);
  if (recipe.pipeline.cut == "estimated" || recipe.pipeline.cut == "measured") return balanced;
  return pipeline::partition_from_text(recipe.pipeline.cut, stages, std::ssize(model.units));
}

Units units_of(const std::vector<int64_t>& cut, int stage) {
  size_t first = 0;
  for (int j = 0; j < stage; ++j) first += static_cast<size_t>(cut[j]);
  return {first, first + static_cast<size_t>(cut[stage])};
}

std::vector<optim::Layout> stage_layouts(const Recipe& recipe, const models::Model& model) {
  std::vector<optim::Layout> layouts;
  const auto cut = partition_of(recipe, model);
  for (int stage = 0; stage < static_cast<int>(cut.size()); ++stage)
    layouts.push_back(
        optim::make_layout(tensors_of(parameters_of(model, units_of(cut, stage), recipe.pipeline.asynchronous()))));
  return layouts;
}

namespace {

std::string tied_name(const models::Model& model) {
  for (const auto& parameter : model.units.front()->parameters)
    if (parameter.tensor.is_same(model.tied)) return parameter.name;
  return "";
}

// f(name, its part of `weights`) for every parameter of a stage.
template <class F>
void for_parts(const Recipe& recipe, const models::Model& model, int stage, const at::Tensor& weights, F&& f) {
  const auto parameters =
      parameters_of(model, units_of(partition_of(recipe, model), stage), recipe.pipeline.asynchronous());
  const auto layout = optim::make_layout(tensors_of(parameters));
  size_t next = 0;
  for (const auto& unit : parameters)
    for (const auto& parameter : unit) {
      const optim::Piece& piece = layout.pieces[next++];
      f(parameter.name, weights.narrow(0, piece.at, piece.numel).view(parameter.tensor.sizes()));
    }
}

void check_row(const at::Tensor& weights, int64_t numel, const std::string& whose) {
  TORCH_CHECK(weights.dim() == 1 && weights.numel() == numel && weights.scalar_type() == at::kFloat, whose,
              " should have ", numel, " floats in a row, has ", weights.scalar_type(), " ", weights.sizes());
}

}  // namespace

at::Tensor gather_stages(const Recipe& recipe, const models::Model& model, const at::Tensor& tied,
                         const std::function<at::Tensor(int stage, int64_t numel)>& part) {
  at::Tensor whole = at::zeros({optim::make_layout(models::parameters_by_unit(model)).numel}, at::kFloat);
  const auto places = by_name(model, whole);
  if (tied.defined()) {
    TORCH_CHECK(model.tied.defined(), "a tied matrix was saved, and the model has none");
    at::Tensor place = places.at(tied_name(model));
    check_row(tied, optim::make_layout({{place}}).numel, "the tied matrix");
    place.copy_(tied.narrow(0, 0, place.numel()).view(place.sizes()));
  }
  const auto layouts = stage_layouts(recipe, model);
  for (int stage = 0; stage < std::ssize(layouts); ++stage) {
    const at::Tensor weights = part(stage, layouts[stage].numel);
    check_row(weights, layouts[stage].numel, fmt::format("stage {}", stage));
    for_parts(recipe, model, stage, weights,
              [&](const std::string& name, const at::Tensor& from) { at::Tensor(places.at(name)).copy_(from); });
  }
  return whole;
}

at::Tensor slice_stage(const Recipe& recipe, const models::Model& model, const at::Tensor& whole, int stage) {
  const auto places = by_name(model, whole);
  at::Tensor part = at::zeros({stage_layouts(recipe, model)[stage].numel}, at::kFloat);
  for_parts(recipe, model, stage, part, [&](const std::string& name, at::Tensor into) { into.copy_(places.at(name)); });
  return part;
}

at::Tensor tied_part(const models::Model& model, const at::Tensor& whole) {
  const at::Tensor place = by_name(model, whole).at(tied_name(model));
  at::Tensor part = at::zeros({optim::make_layout({{place}}).numel}, at::kFloat);
  part.narrow(0, 0, place.numel()).copy_(place.view(-1));
  return part;
}

}  // namespace thinwire::train
