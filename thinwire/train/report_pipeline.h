// The pipeline of a run as a picture: a row a stage, blocks for forwards, backwards, weights' gradients and updates,
// and nothing where a stage is idle. The plan and what was recorded are drawn to one scale.
#pragma once

#include <string>

#include "thinwire/train/report_chart.h"
#include "thinwire/train/run_record.h"

namespace thinwire::train {

double pipeline_height(const PipelineRecord& pipeline);
// `picture` is one of the two in `pipeline`; the axis goes from 0 to `seconds`.
std::string pipeline_svg(const PipelineRecord& pipeline, const PipelinePicture& picture, const std::string& title,
                         double seconds, Size size);

// What the run's schedule does, in a sentence or two; empty for one that has no words yet.
std::string schedule_html(const PipelineRecord& pipeline);
// How much of the time stages were idle, by the plan, as it was, and with hop 1; and what they keep.
std::string pipeline_html(const RunRecord& run);
// Whether the gradient of the weights is an operation of its own; and what the colours mean, with it or without.
bool has_weights(const PipelineRecord& pipeline);
std::string pipeline_legend(bool weights);

}  // namespace thinwire::train
