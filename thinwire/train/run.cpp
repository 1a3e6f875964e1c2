#include "thinwire/train/run.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <fstream>

#include "thinwire/base/clock.h"
#include "thinwire/base/errors.h"
#include "thinwire/comm/world.h"
#include "thinwire/train/checkpoint.h"
#include "thinwire/train/control.h"
#include "thinwire/train/cutting.h"
#include "thinwire/train/machine.h"
#include "thinwire/train/metrics.h"
#include "thinwire/train/noise_scale.h"
#include "thinwire/train/pipeline_record.h"
#include "thinwire/train/safetensors.h"
#include "thinwire/train/settle.h"
#include "thinwire/train/timeline.h"

namespace thinwire::train {
namespace fs = std::filesystem;
namespace {

// Means over the ranks of numbers that each of them knows of itself.
std::vector<double> means(comm::Group& bare, const std::vector<double>& mine) {
  at::Tensor values = at::empty({static_cast<int64_t>(mine.size())}, at::kDouble);
  std::ranges::copy(mine, values.mutable_data_ptr<double>());
  bare.all_reduce_(values, comm::Reduce::mean, comm::Kind::control)->wait();
  const double* p = values.const_data_ptr<double>();
  return {p, p + mine.size()};
}

// Writes a small file so that it is whole or not there.
void write_aside(const fs::path& path, const std::string& text) {
  const fs::path aside = path.parent_path() / ("." + path.filename().string() + ".tmp");
  {
    std::ofstream file(aside);
    file << text << std::flush;
    TORCH_CHECK(file, "[train] could not write ", aside.string(), ": is the disk full?");
  }
  fs::rename(aside, path);
}

// What one rank does from start to end.
class Rank {
 public:
  Rank(const Recipe& recipe, const std::vector<std::string>& notes, const RunOptions& options, Observer& observer,
       std::shared_ptr<const data::Text> text, const std::shared_ptr<comm::MailGroup>& bare,
       const std::vector<TracePtr>& traces)
      : recipe_(recipe),
        notes_(notes),
        options_(options),
        observer_(observer),
        text_(std::move(text)),
        bare_(bare),
        mesh_(make_mesh(recipe, bare, traces[bare->rank()])),
        traces_(traces),
        origin_(origin_of(options)),
        worker_(make_worker(recipe, text_, mesh_, origin_ ? &*origin_ : nullptr)),
        control_(bare_) {
    worker_->record(traces_[bare_->rank()]);
  }

  Result run() {
    resume();
    Metrics metrics(leads() && !options_.dir.empty() ? options_.dir / "metrics.jsonl" : fs::path(), step_);
    metrics_ = &metrics;
    if (leads())
      observer_.started(recipe_, {.parameters = worker_->model().numel(),
                                  .from_step = step_,
                                  .planned_steps = recipe_.planned_steps(),
                                  .text_bytes = text_->train.numel(),
                                  .text_files = text_->files,
                                  .origin = origin_ ? origin_->from : fs::path(),
                                  .notes = notes_});
    train();
    if (stopped_from_outside_) {
      save();
      return result(false);
    }
    save();  // before finish(): a finished run can be looked at, and gone on with, as it was
    return finish();
  }

 private:
  bool leads() const { return bare_->rank() == 0; }

  void resume() {
    if (origin_) step_ = first_ = origin_->step;
    if (!options_.resume || newest_checkpoint(options_.dir) < 0) return;
    step_ = newest_checkpoint(options_.dir);
    const fs::path folder = options_.dir / "checkpoints" / fmt::format("step-{}", step_);
    auto loaded = load_checkpoint(folder, mesh_.replica, mesh_.stage);
    const auto stored = parse_recipe(loaded.facts.value("recipe", std::string()), (folder / "manifest.json").string());
    if (auto difference = first_difference(make_recipe(stored), recipe_))
      throw BadInput("{} is of another recipe: {}", folder.string(), *difference);
    if (loaded.facts.value("step", int64_t{-1}) != step_)
      throw BadInput("{} is of step {}: was it renamed?", folder.string(), loaded.facts.value("step", int64_t{-1}));
    if (loaded.facts.value("text_hash", uint64_t{0}) != text_->hash)
      throw BadInput("{}: the text in {} is not the one this run was trained on", folder.string(), recipe_.data.path);
    first_ = loaded.facts.value("first_step", int64_t{0});
    worker_->load(loaded.state);
    noise_.get(loaded.state, "noise.");
    bare_->barrier();  // nobody writes before everybody could read
  }

  // Only a run that has nothing of its own to go on with begins with another.
  std::optional<Origin> origin_of(const RunOptions& options) const {
    if (options.from.empty() || (options.resume && newest_checkpoint(options.dir) >= 0)) return {};
    return read_origin(find_origin(options.from, recipe_), mesh_.replica);
  }

  // Rank 0's clock decides for all; the others follow by its tally.
  bool wants_to_stop() {
    if (!leads()) return false;
    if (options_.stop && options_.stop->load()) return true;
    return recipe_.train.seconds > 0 && worker_->costs().seconds >= recipe_.train.seconds;
  }

  void train() {
    const int64_t planned = recipe_.planned_steps();
    bool stop = recipe_.train.seconds > 0 && all_agree_time_is_up();
    while (!stop && (planned == 0 || step_ < planned)) {
      worker_->watch(recipe_.train.eval_every > 0 && (step_ + 1) % recipe_.train.eval_every == 0);
      const auto loss = worker_->step(++step_);
      control_.tell(step_, wants_to_stop(), loss, worker_->costs(), worker_->norms());
      const auto told = Clock::now();
      stop = report(1 + worker_->lead());
      worker_->waited(seconds_since(told));
      if (due(recipe_.train.eval_every)) stop |= report(0), evaluate();
      if (due(recipe_.train.save_every)) stop |= report(0), save();
    }
    worker_->watch(false);
    const auto begin = Clock::now();
    worker_->drain();
    drain_s_ = seconds_since(begin);
    stop |= report(0);
    stopped_from_outside_ = stop && asked_from_outside();
  }

  bool due(int64_t every) const { return every > 0 && step_ % every == 0; }

  // A resumed run whose seconds were used up before does no further step.
  bool all_agree_time_is_up() {
    return means(*bare_, {leads() && worker_->costs().seconds >= recipe_.train.seconds ? 1.0 : 0.0})[0] > 0;
  }

  bool asked_from_outside() {
    const int64_t planned = recipe_.planned_steps();
    if (planned > 0 && step_ >= planned) return false;  // the wish came with the last step: it is done anyway
    return means(*bare_, {leads() && options_.stop && options_.stop->load() ? 1.0 : 0.0})[0] > 0;
  }

  // Takes note of all tallies but the newest `behind`; whether one of them says stop.
  bool report(int behind) {
    bool stop = false;
    while (auto tally = control_.next(behind)) {
      stop |= tally->stop;
      const auto batch = static_cast<double>(recipe_.train.batch);
      noise_.add(tally->norms.local, tally->norms.mean, batch, batch * mesh_.replicas);
      if (!leads()) continue;
      const int64_t planned = recipe_.planned_steps();
      const double share = planned > 0 ? static_cast<double>(tally->step) / static_cast<double>(planned)
                                       : std::min(1.0, tally->costs.seconds / recipe_.train.seconds);
      const Progress progress{.step = tally->step,
                              .tokens = (tally->step - first_) * recipe_.tokens_per_step(),
                              .loss = tally->loss,
                              .lr = worker_->schedule().at(tally->step),
                              .seconds = tally->costs.seconds,
                              .compute_s = tally->costs.compute_s,
                              .exposed_s = tally->costs.exposed_s,
                              .wire_bytes = tally->wire_bytes,
                              .share = share,
                              .noise_scale = noise_.batch()};
      metrics_->write(to_json(progress));
      observer_.progressed(progress);
    }
    return stop;
  }

  double evaluate(bool final = false) {
    const Evaluation evaluation{.step = step_,
                                .val_loss = worker_->evaluate(),
                                .consensus_distance = worker_->consensus_distance(),
                                .prediction_error = worker_->prediction_error(),
                                .final = final};
    if (leads()) {
      metrics_->write(to_json(evaluation));
      observer_.evaluated(evaluation);
    }
    return evaluation.val_loss;
  }

  void save() {
    if (options_.dir.empty() || step_ == saved_) return;
    State state = worker_->state();
    noise_.put(state, "noise.");
    save_checkpoint(options_.dir, step_, state,
                    {{"recipe", to_toml(recipe_)}, {"step", step_}, {"first_step", first_}, {"text_hash", text_->hash}},
                    recipe_.train.keep_checkpoints, *bare_, mesh_.stages);
    saved_ = step_;
    if (leads()) observer_.saved(step_);
  }

  Result finish() {
    const int64_t sent_before = mesh_.wire->ledger().sent();
    const auto start = Clock::now();
    worker_->finish();
    const double seconds = drain_s_ + seconds_since(start);
    const double sent = static_cast<double>(mesh_.wire->ledger().sent() - sent_before);
    Result done = result(true);
    done.val_loss = evaluate(/*final=*/true);
    const auto mean = means(*bare_, {seconds, sent});
    done.finish_s = mean[0];
    done.finish_bytes = mean[1];
    const at::Tensor agreed = worker_->agreed();  // all ranks: it may take an exchange
    if (leads() && !options_.dir.empty()) {
      write_model(agreed);
      write_record(done);
    }
    return done;
  }

  // result.json, timeline.json and pipeline.json: what the report needs beside recipe and metrics.
  void write_record(const Result& done) {
    auto record = to_json(done, "done");
    const Machine machine = this_machine();
    record["parameters"] = worker_->model().numel();
    record["replicas"] = recipe_.workers.replicas;
    record["link"] = to_text(recipe_.link.replicas);
    if (mesh_.stages > 1) record["stages"] = mesh_.stages;
    if (text_->entropy) record["entropy"] = *text_->entropy;
    record["machine"] = {{"cores", machine.cores}, {"cpu", machine.cpu}};
    record["command"] = options_.command;
    write_aside(options_.dir / "result.json", record.dump(2) + "\n");
    const bool periodic = dp::family_of(recipe_.strategy.name) == dp::Family::periodic;
    const int64_t period = periodic ? recipe_.strategy.periodic.period : 1;
    const int64_t shown = std::clamp<int64_t>(3 * period, 12, 60);
    write_aside(options_.dir / "timeline.json", timeline(traces_, step_, shown).dump() + "\n");
    if (mesh_.stages == 1) return;
    if (const auto pipeline = pipeline_record(recipe_, traces_, step_))
      write_aside(options_.dir / "pipeline.json", to_json(*pipeline).dump() + "\n");
  }

  Result result(bool finished) {
    const Costs& costs = worker_->costs();
    const auto mean = means(
        *bare_, {costs.seconds, costs.compute_s, costs.exposed_s, static_cast<double>(costs.wire_bytes),
                 static_cast<double>(worker_->setup_bytes()), costs.update_s, static_cast<double>(costs.stage_bytes)});
    Result r{.strategy = recipe_.strategy.name, .finished = finished, .steps = step_};
    r.tokens = (step_ - first_) * recipe_.tokens_per_step();
    r.seconds = mean[0];
    r.compute_s = mean[1];
    r.exposed_s = mean[2];
    r.wire_bytes = mean[3];
    r.setup_bytes = mean[4];
    r.update_s = mean[5];
    if (mesh_.stages > 1) r.stage_bytes = mean[6];
    const double busy = r.compute_s + r.exposed_s;
    r.utilisation = busy > 0 ? r.compute_s / busy : 1;
    r.tokens_per_s = r.seconds > 0 ? static_cast<double>(r.tokens) / r.seconds : 0;
    r.noise_scale = noise_.batch();
    const at::Tensor agreed = worker_->agreed();
    if (leads()) r.weights_hash = optim::weights_hash(worker_->layout(), agreed);
    return r;
  }

  // The product: the agreed weights under the model's own names.
  void write_model(const at::Tensor& weights) {
    const fs::path aside = options_.dir / ".model.safetensors.tmp";
    write_safetensors(aside, by_name(worker_->model(), weights), {{"format", "pt"}});
    fs::rename(aside, options_.dir / "model.safetensors");
  }

  const Recipe& recipe_;
  const std::vector<std::string>& notes_;
  const RunOptions& options_;
  Observer& observer_;
  const std::shared_ptr<const data::Text> text_;
  const std::shared_ptr<comm::MailGroup> bare_;
  const Mesh mesh_;
  const std::vector<TracePtr>& traces_;  // of all ranks
  const std::optional<Origin> origin_;
  const std::unique_ptr<Worker> worker_;
  Control control_;
  NoiseScale noise_;
  Metrics* metrics_ = nullptr;
  int64_t step_ = 0, saved_ = -1;
  int64_t first_ = 0;   // steps that another run did before this one
  double drain_s_ = 0;  // waiting for what the last step left under way
  bool stopped_from_outside_ = false;
};

// Numbers that do not fit together fail here, once, before anything is written.
void check(const Recipe& recipe) {
  const auto model = models::make_model(recipe.model, data::kVocabulary, recipe.train.seed);
  if (recipe.workers.stages > 1) check_stages(recipe, *model);
  if (dp::family_of(recipe.strategy.name) != dp::Family::slices) return;
  for (const auto& layout : stage_layouts(recipe, *model))
    dp::check(recipe.strategy.slices, layout.numel, recipe.planned_steps());
}

// Whether the run directory is free, or holds a run to go on with.
void check_directory(const RunOptions& options) {
  if (options.dir.empty()) return;
  if (fs::exists(options.dir) && !fs::is_directory(options.dir))
    throw BadInput("{} is not a directory", options.dir.string());
  fs::remove(options.dir / ".recipe.toml.tmp");  // of a run that was killed at its very start
  if (!fs::exists(options.dir) || fs::is_empty(options.dir)) return;
  if (!options.resume)
    throw BadInput("{} exists and is not empty: choose another --dir, or go on with it by --resume",
                   options.dir.string());
  if (!fs::exists(options.dir / "recipe.toml"))
    throw BadInput("{} holds no run: there is no recipe.toml in it", options.dir.string());
}

// Makes the run directory ready; nothing that is there is overwritten.
void prepare(const Recipe& recipe, const RunOptions& options) {
  if (options.dir.empty()) return;
  const fs::path stored = options.dir / "recipe.toml";
  if (fs::exists(stored)) {
    if (auto difference = first_difference(make_recipe(read_recipe(stored)), recipe))
      throw BadInput("{} was started with another recipe: {}", options.dir.string(), *difference);
    return;
  }
  fs::create_directories(options.dir);
  write_aside(stored, to_toml(recipe));
}

}  // namespace

Result run(const Recipe& asked, const RunOptions& options, Observer& observer) {
  check(asked);
  check_directory(options);
  if (!options.from.empty()) check_origin(options.from, asked);
  const Settled settled = settle(asked, options);
  const Recipe& recipe = settled.recipe;
  const auto text = data::load_text(recipe.data, recipe.model.context);
  prepare(recipe, options);
  Result result;
  std::vector<TracePtr> traces;
  for (int64_t i = 0; i < recipe.ranks(); ++i) traces.push_back(std::make_shared<Trace>(4096));
  comm::run_world(static_cast<int>(recipe.ranks()),
                  [&](std::shared_ptr<comm::MailGroup> bare) {
                    Result own = Rank(recipe, settled.notes, options, observer, text, bare, traces).run();
                    if (bare->rank() == 0) result = own;
                  },
                  {.timeout_s = recipe.train.timeout, .threads = static_cast<int>(recipe.train.threads)});
  return result;
}

}  // namespace thinwire::train
