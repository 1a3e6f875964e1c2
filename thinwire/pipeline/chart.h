// A schedule laid out in time: planned from costs, or recorded from a run; both are the same value and are drawn alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "thinwire/pipeline/schedule.h"

namespace thinwire::pipeline {

struct Block {
  OpKind kind;
  int64_t batch;
  double begin, end;  // seconds, or any unit; equal for what takes no time
};

struct Chart {
  std::vector<std::vector<Block>> stages;  // in the order of time; blocks of a stage do not overlap

  double begin() const;  // of the first block of all; 0 if there is none
  double end() const;    // of the last; 0 if there is none
  // Share of stages x (end - begin) in which nothing was done; 0 if no time passed.
  double bubbles() const;
  // The part of it between two moments; blocks that reach beyond are cut off. Its begin() and end() are again those of
  // its blocks: time in which no stage at all did anything counts in the middle, not at the edges.
  Chart between(double from, double to) const;
};

// Time of one operation of a stage, never below 0. It is asked for what the schedule has: a schedule without W does
// that work in B. Where the last stage does its forward inside B, F of the last stage costs 0 and B more.
using Cost = std::function<double(int stage, const Op& op)>;
// Time that what F or B of a microbatch made takes to the next stage.
using Transfer = std::function<double(int64_t batch)>;

// Every stage does its next operation as soon as it is free and what it needs is there: the activation from the stage
// before for F, the gradient from the stage after for B, each its transfer after it was made. U waits for nothing.
// At least one step, or std::invalid_argument. Operations that take no time are in the chart too.
Chart simulate(const Schedule& schedule, int64_t steps, const Cost& cost, const Transfer& transfer);
Chart simulate(const Schedule& schedule, int64_t steps, const Cost& cost, double transfer);

// The share of time a stage computes in an endless run with a stage's time of `stage_s` (> 0) a microbatch and
// transfers of `transfer_s`: simulated over enough steps to be steady. Fill and drain of an asynchronous run are
// left out, and so is a synchronous beginning; those of a synchronous step come again in every step and count.
//   async_1f1b: the longest loop is F down all stages and B up again, P stage_s + 2 (P-1) transfer_s for w_0 + 1
//   minibatches; how a stage's time is divided between F and B does not matter.
double steady_utilisation(const Schedule& schedule, double stage_s, double transfer_s);

// For a terminal or a pipe, plain ASCII, at most `width` columns (at least 40): the meaning of the marks, then one line
// a stage with the share of time it was busy.
//   0-9 forward (last digit)  a-j its backward  . idle 40.0 %  1 column = 1
//   stage 0  012..a.b.c   60 %
//   stage 1  .01.a2b.c.   60 %     (a and 0 are the same microbatch, b and 1, .. j and 9)
//   stage 2  ..0a1b2c..   60 %
// A column is as long as the shortest block, or a simple fraction of it if this makes all blocks begin and end on
// columns; where that is wider than the terminal, the time is divided evenly. A column shows what takes most of it:
// what is shorter than half a column may be missing, and what takes no time is.
std::string to_text(const Chart& chart, int width = 100);

}  // namespace thinwire::pipeline
