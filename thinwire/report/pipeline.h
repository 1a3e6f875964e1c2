// The pipeline of a run as a picture: a row a stage, blocks for forwards, backwards, weights' gradients and updates,
// and nothing where a stage is idle. The plan and what was recorded are drawn to one scale.
#pragma once

#include <string>

#include "thinwire/report/chart.h"
#include "thinwire/train/run_record.h"

namespace thinwire::report {

double pipeline_height(const train::PipelineRecord& pipeline);
// `picture` is one of the two in `pipeline`; the axis goes from 0 to `seconds`.
std::string pipeline_svg(const train::PipelineRecord& pipeline, const train::PipelinePicture& picture,
                         const std::string& title, double seconds, Size size);

// What the run's schedule does, in a sentence or two; empty for one that has no words yet.
std::string schedule_html(const train::PipelineRecord& pipeline);
// How much of the time stages were idle, by the plan, as it was, and with hop 1; and what they keep.
std::string pipeline_html(const train::RunRecord& run);
// Of a run that begins synchronously: when and how it changes, and how much of the time each part computed.
std::string change_html(const train::RunRecord& run);
// Whether the gradient of the weights is an operation of its own; and what the colours mean, with it or without.
bool has_weights(const train::PipelineRecord& pipeline);
std::string pipeline_legend(bool weights);

}  // namespace thinwire::report
