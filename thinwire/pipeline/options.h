// The [pipeline] section of a recipe. It matters where workers.stages is more than 1.
#pragma once

#include <string>

#include "thinwire/base/options.h"
#include "thinwire/pipeline/activation_codec.h"
#include "thinwire/pipeline/schedule.h"

namespace thinwire::pipeline {

// Minibatches a stage is further ahead than the one after it, or to be measured before the run starts.
struct Hop {
  int64_t count = 1;
  bool automatic = false;
};
void read(const Value& value, const std::string& name, Hop& hop, const Limit& limit);
Value to_value(const Hop& hop);

struct PipelineOptions {
  std::string schedule = "async_1f1b";
  Hop hop = {};
  bool stash = true;
  int64_t discount_steps = 7000;
  std::string tie = "no";
  int64_t microbatches = 4;
  ActivationCodec codec = {};
  std::string cut = "estimated";

  bool asynchronous() const { return schedule == "async_1f1b"; }
};

template <class F>
void fields(F&& f, PipelineOptions& o) {
  f("schedule", o.schedule, one_of(schedule_names()), "in which order a stage does forwards, backwards and updates");
  if (o.asynchronous()) {
    f("hop", o.hop, between(1, 64),
      "minibatches a stage is ahead of the next; 2 hides transfers of half a stage's "
      "time; or \"auto\"");
    f("stash", o.stash, any(), "backward uses the weights that forward used; false: the newest, and smaller steps");
    if (!o.stash) f("discount_steps", o.discount_steps, at_least(1), "steps over which those steps grow to full size");
    f("tie", o.tie, one_of({"no", "delayed"}), "how a tied embedding and head are kept alike (model.tied)");
  } else {
    f("microbatches", o.microbatches, between(1, 1e6), "parts a batch is cut into");
  }
  f("codec", o.codec, any(),
    "of activations and their gradients between stages: none, bf16, half, int8, .., or threshold:KEEP");
  if (o.codec.keep()) f("renew", o.codec.renew, at_least(1), "messages after which a threshold is found anew");
  f("cut", o.cut, any(), "units of each stage like \"2,3,2\", or balanced by \"estimated\" or \"measured\" cost");
}

}  // namespace thinwire::pipeline
