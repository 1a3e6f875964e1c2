// The [pipeline] section of a recipe. It matters where workers.stages is more than 1. What the options do is in
// schedule.h and stage.h; fields() below says it in a line each. Which options exist depends on the schedule: hop,
// stash, tie and what goes against lateness are of async_1f1b, microbatches of the others and of its synchronous steps.
#pragma once

#include <optional>
#include <string>

#include "thinwire/base/options.h"
#include "thinwire/pipeline/activation_codec.h"
#include "thinwire/pipeline/schedule.h"

namespace thinwire::pipeline {

// Minibatches a stage is further ahead than the one after it, or to be measured before the run starts.
struct Hop {
  int64_t count = 1;       // >= 1; 1 where it is still to be measured
  bool automatic = false;  // train/resolve_auto.h makes it a number
};
// As an option: a number or "auto". BadInput that starts with `name`.
void read(const Value& value, const std::string& name, Hop& hop, const Limit& limit);
Value to_value(const Hop& hop);

// Steps of a synchronous beginning, or their share of all steps: 200 or "10%".
struct SyncSteps {
  int64_t count = 0;
  std::optional<double> share = {};

  bool none() const { return share ? *share == 0 : count == 0; }
  // Of so many planned steps. BadInput where a share is wanted of a number that is not known (0).
  int64_t of(int64_t planned) const;
};
void read(const Value& value, const std::string& name, SyncSteps& steps, const Limit& limit);
Value to_value(const SyncSteps& steps);

// A plain value; make_schedule() and stage.h check what they use.
struct PipelineOptions {
  std::string preset = "none";          // none | steady: fields() below says what it sets
  std::string schedule = "async_1f1b";  // gpipe | 1f1b | zero_bubble_h1 | async_1f1b
  Hop hop = {};                         // 1..64
  bool stash = true;                    // backward uses the version that forward used
  int64_t discount_steps = 7000;        // >= 1, without stash
  std::string tie = "no";               // no | delayed: tied_weights.h
  double predict = 0;                   // 0..4, with stash: weight_stash.h
  double rate_power = 0;                // 0..4, with stash: stage.h
  SyncSteps sync_steps = {};            // with stash
  std::string sync_schedule = "1f1b";   // of these steps: gpipe | 1f1b | zero_bubble_h1
  int64_t microbatches = 4;             // >= 1, must divide the batch; of synchronous steps
  ActivationCodec codec = {};           // of activations and their gradients
  std::string cut = "estimated";        // estimated | measured | "2,3,2": partition.h

  bool asynchronous() const { return schedule == "async_1f1b"; }
};

template <class F>
void fields(F&& f, PipelineOptions& o) {
  const std::string before = o.preset;
  f("preset", o.preset, one_of({"none", "steady"}),
    "\"steady\": predict, rate_power, sync_steps and optim.rest so that late updates cost little");
  if (o.preset == "steady" && o.preset != before) o.predict = 1, o.rate_power = 0.5, o.sync_steps.share = 0.1;
  f("schedule", o.schedule, one_of(schedule_names()), "in which order a stage does forwards, backwards and updates");
  if (o.asynchronous()) {
    f("hop", o.hop, between(1, 64),
      "minibatches a stage is ahead of the next; 2 hides transfers of half a stage's "
      "time; or \"auto\"");
    f("stash", o.stash, any(), "backward uses the weights that forward used; false: the newest, and smaller steps");
    if (!o.stash) f("discount_steps", o.discount_steps, at_least(1), "steps over which those steps grow to full size");
    f("tie", o.tie, one_of({"no", "delayed"}), "how a tied embedding and head are kept alike (model.tied)");
    f("predict", o.predict, between(0, 4),
      "how far weights are moved along their last update, times the delay; 0: not");
    f("rate_power", o.rate_power, between(0, 4),
      "lr of a stage that is w updates late is divided by (1 + w) to this power");
    f("sync_steps", o.sync_steps, at_least(0),
      "first steps that go by sync_schedule: a number, or a share like \"10%\"");
    if (!o.sync_steps.none())
      f("sync_schedule", o.sync_schedule, one_of(synchronous_names()), "in which order stages work in those steps");
  }
  if (!o.asynchronous() || !o.sync_steps.none())
    f("microbatches", o.microbatches, between(1, 1e6), "parts a batch is divided into in synchronous steps");
  f("codec", o.codec, any(),
    "of activations and their gradients between stages: none, bf16, half, int8, .., or threshold:KEEP");
  if (o.codec.keep()) f("renew", o.codec.renew, at_least(1), "messages after which a threshold is found anew");
  f("cut", o.cut, any(), "units of each stage like \"2,3,2\", or balanced by \"estimated\" or \"measured\" cost");
}

}  // namespace thinwire::pipeline
