// A recipe: everything that decides what a run computes, in one struct.
//
// In TOML it has a section for each owner of options ([model], [data], [optim], [strategy], [workers],
// [pipeline], [link], [train]); the keys are the fields those options declare. Unknown sections and keys are errors
// with the nearest name. Beside them, [compare.NAME] holds keys that `thinwire compare` uses for strategy or schedule
// NAME only ("optim.lr = 0.002").
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/base/options.h"
#include "thinwire/data/text.h"
#include "thinwire/dp/catalog.h"
#include "thinwire/models/model.h"
#include "thinwire/net/link.h"
#include "thinwire/optim/catalog.h"
#include "thinwire/pipeline/options.h"

namespace thinwire::train {

// [workers]: how many ranks, and what each is.
struct WorkersOptions {
  int64_t replicas = 4;                      // 1..256
  int64_t stages = 1, shards = 1, zero = 0;  // of each replica; the last two are for later versions
};
template <class F>
void fields(F&& f, WorkersOptions& o) {
  f("replicas", o.replicas, between(1, 256), "copies of the model that train side by side");
  f("stages", o.stages, between(1, 64), "parts of the model, each on a rank of its own: see [pipeline]");
  f("shards", o.shards, between(1, 1), "ranks that share one replica; only 1 in this version");
  f("zero", o.zero, between(0, 0), "what those ranks share; only 0 in this version");
}

// [link]: emulated links (net/link.h); they change no weight.
struct LinkOptions {
  net::Link replicas, stages, control;
};
template <class F>
void fields(F&& f, LinkOptions& o) {
  f("replicas", o.replicas, any(),
    "emulated link of each replica, \"rate/latency\" like \"100mbit/20ms\" (docs/net.md has more), or \"none\"");
  f("stages", o.stages, any(), "emulated link of each rank to the stages before and after it, likewise");
  f("control", o.control, any(), "emulated link of what is not training (progress, evaluation, stopping), likewise");
}

// [train]: how long, how much at a time, and what is kept.
struct TrainOptions {
  int64_t steps = 200, tokens = 0;  // one of these three decides the length; the others are 0
  double seconds = 0;
  int64_t batch = 8;                              // sequences a replica and step
  int64_t seed = 1;                               // of initial weights and data
  int64_t threads = 1;                            // of a rank
  int64_t eval_every = 50;                        // steps; 0: only at the end
  int64_t eval_windows = 64;                      // sequences
  int64_t save_every = 0;                         // steps; 0: by the clock alone
  double save_minutes = 10;                       // 0: by steps alone
  int64_t keep_checkpoints = 2;                   // >= 1
  double timeout = 300;                           // seconds until a silent rank is a Timeout
  bool force = false;                             // start even if the machine seems too small
  std::string on_divergence = "stop";             // stop | skip
  std::string device = "cpu", dtype = "float32";  // dtype: float32 | bfloat16, of forward and backward
};
template <class F>
void fields(F&& f, TrainOptions& o) {
  f("tokens", o.tokens, between(0, 1e18), "tokens of all replicas to train on, instead of steps; 0: not used");
  f("seconds", o.seconds, between(0, 1e9), "seconds of training, instead of steps; 0: not used");
  if (o.tokens == 0 && o.seconds == 0)
    f("steps", o.steps, at_least(1), "updates of every replica");
  else
    o.steps = 0;
  f("batch", o.batch, between(1, 1e6), "sequences a replica takes in a step");
  f("seed", o.seed, at_least(0), "of initial weights and data");
  f("threads", o.threads, between(1, 1024), "CPU threads of a rank; part of what decides the last bit");
  f("eval_every", o.eval_every, at_least(0), "steps between evaluations; 0: only at the end");
  f("eval_windows", o.eval_windows, between(1, 1e6), "held-out sequences an evaluation reads");
  f("save_every", o.save_every, at_least(0),
    "steps between checkpoints; 0: only as save_minutes says, at the end and when stopped");
  f("save_minutes", o.save_minutes, between(0, 1e6), "minutes between checkpoints; 0: only as save_every says");
  f("keep_checkpoints", o.keep_checkpoints, at_least(1), "newest checkpoints that are kept");
  f("timeout", o.timeout, above_up_to(0, 1e6), "seconds after which a silent rank counts as stuck");
  f("force", o.force, any(), "start even if this machine seems to have too little memory or too few threads");
  f("on_divergence", o.on_divergence, one_of({"stop", "skip"}),
    "a loss or gradient that is not finite: stop, or skip that update (of all replicas where they average gradients)");
  f("device", o.device, one_of({"cpu"}), "where it computes");
  f("dtype", o.dtype, one_of({"float32", "bfloat16"}),
    "of forward and backward; weights and all other state stay float32");
}

// What a model computes in.
inline at::ScalarType compute_dtype(const TrainOptions& o) {
  return o.dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

// A value: two equal recipes give the same weights. Made by make_recipe(), or by filling in the structs; run() checks.
struct Recipe {
  models::ModelOptions model;
  data::DataOptions data;
  optim::OptimOptions optim;
  dp::StrategyOptions strategy;
  WorkersOptions workers;
  pipeline::PipelineOptions pipeline;
  LinkOptions link;
  TrainOptions train;

  // Derived numbers.
  int64_t ranks() const { return workers.replicas * workers.stages * workers.shards; }
  int64_t tokens_per_step() const { return workers.replicas * train.batch * model.context; }
  // How many steps there will be, 0 if the clock decides.
  int64_t planned_steps() const;
};

// f(section name, options struct) for every section, in the order they are written: the one list of sections, from
// which reading, writing, help and comparing are made.
template <class F, class R>
void sections(F&& f, R& recipe) {
  f("model", recipe.model);
  f("data", recipe.data);
  f("optim", recipe.optim);
  f("strategy", recipe.strategy);
  f("workers", recipe.workers);
  f("pipeline", recipe.pipeline);
  f("link", recipe.link);
  f("train", recipe.train);
}

// A recipe as text says it, before anything is checked.
struct RecipeText {
  std::string name;                                              // for messages and folders: the file's stem
  std::map<std::string, Table> sections;                         // section -> key -> value
  std::map<std::string, std::map<std::string, Table>> per_name;  // [compare.NAME]
};

// BadInput with file and line if it is not TOML, or holds something a recipe cannot.
RecipeText read_recipe(const std::filesystem::path& path);
RecipeText parse_recipe(std::string_view toml, const std::string& path);
// "section.key=value"; the value is TOML, or a bare word. Setting one of train.steps, tokens, seconds unsets the
// others, unless it is set to 0. Setting a name (strategy.name=all_reduce) drops the keys that only the name before
// had.
void set_key(RecipeText& text, std::string_view assignment);
// All of them, names first, so that their order does not matter.
void set_keys(RecipeText& text, const std::vector<std::string>& assignments);

// Checks everything: BadInput that starts with the key, or that names the keys that do not fit together. Paths become
// absolute, and an empty data.path what it stands for.
Recipe make_recipe(const RecipeText& text);
// What `thinwire compare` compares; and what may be: strategies, or schedules of a pipeline and their presets.
enum class Compared { strategies, schedules };
std::vector<std::string> names_of(Compared what);
// The recipe for one of the names `all` of a comparison. Keys of [strategy] (or [pipeline]) that it does not have are
// left out; a key that neither one of `all` nor the recipe itself has is BadInput.
Recipe make_recipe_for(const RecipeText& text, Compared what, const std::string& name,
                       const std::vector<std::string>& all);

// Complete: every default is written out, with its meaning. Reading it gives the recipe back.
std::string to_toml(const Recipe& recipe);

// The first key in which they differ, with both values: "optim.lr is 0.001 there and 0.002 here". Links, timeouts, when
// checkpoints are saved and where the text lies decide no weight: a run may be resumed with others.
enum class Keys { all, that_decide_weights };
std::optional<std::string> first_difference(const Recipe& there, const Recipe& here, Keys keys = Keys::all);

}  // namespace thinwire::train
