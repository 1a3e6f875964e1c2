// How a recipe's model is partitioned into stages, and how the stages' weights become a model again. One stage is a
// partition, too.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "thinwire/pipeline/schedule.h"
#include "thinwire/train/recipe.h"
#include "thinwire/train/stage_module.h"

namespace thinwire::train {

// Every parameter's part of whole flat weights, in its shape, by its name.
std::map<std::string, at::Tensor> by_name(const models::Model& model, const at::Tensor& whole);

// Steps of its synchronous beginning.
int64_t sync_steps_of(const Recipe& recipe);

// BadInput unless the options of [pipeline] that are against lateness fit each other, [optim] and [strategy].
void check_lateness(const Recipe& recipe);

// The schedule that a recipe asks for; hop = "auto", which resolve_auto() turns into a number, counts as 1. BadInput
// for numbers that do not fit together.
pipeline::Schedule schedule_of(const Recipe& recipe);

// What travels between stages.
pipeline::ActivationSpec activation_spec_of(const Recipe& recipe);

// BadInput if the stages that a recipe asks for do not fit the rest of it.
void check_stages(const Recipe& recipe, const models::Model& model);

// How many units each stage takes, as pipeline.cut says; for "measured", which resolve_auto() turns into numbers, an
// estimate.
std::vector<int64_t> partition_of(const Recipe& recipe, const models::Model& model);
Units units_of(const std::vector<int64_t>& cut, int stage);

// Of the flat weights of each stage.
std::vector<optim::Layout> stage_layouts(const Recipe& recipe, const models::Model& model);

// The flat weights of the whole model, from those of each stage and, where it is a group of its own, of a tied matrix.
at::Tensor gather_stages(const Recipe& recipe, const models::Model& model, const at::Tensor& tied,
                         const std::function<at::Tensor(int stage, int64_t numel)>& part);

// And the other way round: one stage's part of whole flat weights, and the tied matrix of it.
at::Tensor slice_stage(const Recipe& recipe, const models::Model& model, const at::Tensor& whole, int stage);
at::Tensor tied_part(const models::Model& model, const at::Tensor& whole);

}  // namespace thinwire::train
