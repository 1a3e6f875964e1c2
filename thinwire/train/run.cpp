#include "thinwire/train/run.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <system_error>
#include <thread>

#include "thinwire/base/atomic_file.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/printable.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/safetensors.h"
#include "thinwire/comm/errors.h"
#include "thinwire/comm/keep_alive.h"
#include "thinwire/comm/world.h"
#include "thinwire/train/control.h"
#include "thinwire/train/json_fields.h"
#include "thinwire/train/machine.h"
#include "thinwire/train/metrics.h"
#include "thinwire/train/noise_scale.h"
#include "thinwire/train/pipeline_record.h"
#include "thinwire/train/resolve_auto.h"
#include "thinwire/train/resources.h"
#include "thinwire/train/resume.h"
#include "thinwire/train/run_directory.h"
#include "thinwire/train/stages.h"
#include "thinwire/train/sums.h"
#include "thinwire/train/timeline.h"

namespace thinwire::train {
namespace fs = std::filesystem;
namespace {

// Pauses before a failed save is tried again.
constexpr double kRetryAfter_s[] = {0.5, 2};

// What one rank does from start to end.
class Rank {
 public:
  Rank(const Recipe& recipe, const std::vector<std::string>& notes, const RunOptions& options, Observer& observer,
       std::shared_ptr<const data::Text> text, const comm::World& world)
      : recipe_(recipe),
        notes_(notes),
        options_(options),
        observer_(observer),
        text_(std::move(text)),
        world_(world),
        trace_(std::make_shared<Trace>(4096)),
        mesh_(make_mesh(recipe, world, trace_)),
        resumed_(step_to_resume(options, world)),
        warm_start_(warm_start()),
        worker_(make_worker(recipe, text_, mesh_, warm_start_ ? &*warm_start_ : nullptr)),
        control_(mesh_.control, worker_->lead(), expected_step_seconds()),
        sync_steps_(mesh_.shape.stages > 1 ? sync_steps_of(recipe) : 0) {
    worker_->record(trace_);
  }

  Result run() {
    resume();
    Metrics metrics(is_rank0() && !options_.dir.empty() ? options_.dir / "metrics.jsonl" : fs::path(), step_);
    metrics_ = &metrics;
    if (is_rank0())
      observer_.started(recipe_, {.parameters = worker_->model().numel(),
                                  .from_step = step_,
                                  .planned_steps = recipe_.planned_steps(),
                                  .text_bytes = text_->train.numel(),
                                  .text_files = text_->files,
                                  .warm_start = warm_start_ ? warm_start_->from : fs::path(),
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
  bool is_rank0() const { return world_.is_rank0(); }

  // To within a factor of some, the same on all ranks: 6 operations a weight and token, and what a step costs anyway.
  double expected_step_seconds() const {
    const double operations = 6.0 * static_cast<double>(worker_->model().numel()) *
                              static_cast<double>(recipe_.train.batch * recipe_.model.context);
    return 0.001 + operations / static_cast<double>(mesh_.shape.stages * recipe_.train.threads) / 40e9;
  }

  void resume() {
    if (warm_start_) step_ = first_ = warm_start_->step;
    if (resumed_ < 0) return;
    step_ = saved_ = resumed_;
    const fs::path folder = checkpoint::folder_of(options_.dir, step_);
    const std::string place = (folder / "manifest.json").string();
    checkpoint::Loaded loaded;
    world_.together([&] { loaded = read_checkpoint(options_.dir, step_, mesh_.at); });
    const auto stored = parse_recipe(text_of(loaded.facts, "recipe", place), place);
    if (auto difference = first_difference(make_recipe(stored), recipe_, Keys::that_decide_weights))
      throw BadInput("{} is of another recipe: {}", folder.string(), *difference);
    if (const int64_t of = whole_of(loaded.facts, "step", place); of != step_)
      throw BadInput("{} is of step {}: was it renamed?", folder.string(), of);
    if (const auto hash = loaded.facts.find("text_hash"); hash == loaded.facts.end() || *hash != text_->hash)
      throw BadInput("{}: the text in {} is not the one this run was trained on", folder.string(), recipe_.data.path);
    first_ = whole_of(loaded.facts, "first_step", place);
    note_other_machine("CPU", text_of(loaded.facts, "cpu", place), machine_.cpu);
    note_other_machine("torch", text_of(loaded.facts, "torch", place), machine_.torch);
    try {
      worker_->load(loaded.state);
      noise_.get(loaded.state, "noise.");
    } catch (const BadInput& error) {
      throw BadInput("{}: {}", folder.string(), error.what());
    }
    world_.group->barrier();  // no rank writes before all have read
  }

  // The arithmetic is the same everywhere; the order of a sum inside a library's kernel need not be.
  void note_other_machine(const char* what, const std::string& before, const std::string& here) {
    if (before.empty() || before == here) return;
    notes_.push_back(
        fmt::format("the run so far had another {} ({}, here {}): the weights may differ in the last bits "
                    "from those of a run that stayed there",
                    what, printable(before), here));
  }

  // Only a run that has nothing of its own to go on with begins with another.
  std::optional<WarmStart> warm_start() const {
    if (options_.from.empty() || resumed_ >= 0) return {};
    return read_warm_start(find_warm_start(options_.from, recipe_), mesh_.at.replica);
  }

  // Rank 0's clock decides for all; the others follow by what it posts.
  bool wants_to_stop() {
    if (!is_rank0()) return false;
    if (options_.stop && options_.stop->load()) return true;
    return recipe_.train.seconds > 0 && worker_->costs().seconds >= recipe_.train.seconds;
  }

  // Likewise. Said once: the others hear it some steps later, all at the same one.
  bool wants_to_save() {
    if (!is_rank0() || save_asked_) return false;
    const bool now = options_.save && options_.save->exchange(false);
    const double minutes = recipe_.train.save_minutes;
    save_asked_ = now || (minutes > 0 && seconds_since(saved_at_) >= 60 * minutes);
    return save_asked_;
  }

  void train() {
    const int64_t planned = recipe_.planned_steps();
    bool stop = recipe_.train.seconds > 0 && all_agree_time_is_up();
    while (!stop && (planned == 0 || step_ < planned)) {
      worker_->measure_staleness(recipe_.train.eval_every > 0 && (step_ + 1) % recipe_.train.eval_every == 0);
      const auto loss = worker_->step(++step_);
      keep_change();
      control_.post(step_, wants_to_stop(), wants_to_save(), loss, worker_->costs(), worker_->norms());
      const auto posted = Clock::now();
      stop = report(/*all=*/false);
      worker_->waited(seconds_since(posted));
      if (due(recipe_.train.eval_every)) stop |= report(true), evaluate();
      if (due(recipe_.train.save_every) || save_agreed_) stop |= report(true), save();
    }
    worker_->measure_staleness(false);
    const auto begin = Clock::now();
    worker_->drain();
    drain_s_ = seconds_since(begin);
    stop |= report(true);
    stopped_from_outside_ = stop && asked_from_outside();
  }

  // Later steps will push the change of schedule out of the trace.
  void keep_change() {
    if (sync_steps_ == 0 || step_ != steps_to_see_change(recipe_)) return;
    change_ = std::make_shared<Trace>(1024);
    for (int kind = 0; kind < kTraceKinds; ++kind)
      for (const Interval& i : trace_->of(static_cast<TraceKind>(kind)))
        change_->add(static_cast<TraceKind>(kind), i.begin, i.end, i.number);
  }

  bool due(int64_t every) const { return every > 0 && step_ % every == 0; }

  // A resumed run whose seconds were used up before does no further step.
  bool all_agree_time_is_up() {
    return means_over(*mesh_.control,
                      {is_rank0() && worker_->costs().seconds >= recipe_.train.seconds ? 1.0 : 0.0})[0] > 0;
  }

  bool asked_from_outside() {
    const int64_t planned = recipe_.planned_steps();
    if (planned > 0 && step_ >= planned) return false;  // the wish came with the last step: it is done anyway
    return means_over(*mesh_.control, {is_rank0() && options_.stop && options_.stop->load() ? 1.0 : 0.0})[0] > 0;
  }

  // Takes note of the steps whose figures are due, or of all; whether one of them says stop.
  bool report(bool all) {
    bool stop = false;
    while (auto stats = all ? control_.next_of_all() : control_.next()) {
      stop |= stats->stop;
      save_agreed_ |= stats->save;
      const auto batch = static_cast<double>(recipe_.train.batch);
      noise_.add(stats->norms.local, stats->norms.mean, batch, batch * mesh_.shape.replicas);
      if (!is_rank0()) continue;
      const int64_t planned = recipe_.planned_steps();
      const double share = planned > 0 ? static_cast<double>(stats->step) / static_cast<double>(planned)
                                       : std::min(1.0, stats->costs.seconds / recipe_.train.seconds);
      const Progress progress{.step = stats->step,
                              .tokens = (stats->step - first_) * recipe_.tokens_per_step(),
                              .loss = stats->loss,
                              .lr = worker_->schedule().at(stats->step),
                              .seconds = stats->costs.seconds,
                              .compute_s = stats->costs.compute_s,
                              .exposed_s = stats->costs.exposed_s,
                              .wire_bytes = stats->wire_bytes,
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
    if (is_rank0()) {
      metrics_->write(to_json(evaluation));
      observer_.evaluated(evaluation);
    }
    return evaluation.val_loss;
  }

  // A checkpoint of a run that has diverged would take the place of one that is worth going on from. Collective.
  void check_finite(const State& state) {
    if (sums_over(*mesh_.control, {is_finite(state) ? 0.0 : 1.0})[0] == 0) return;
    throw std::runtime_error(fmt::format(
        "weights or optimizer state are no longer finite after step {}, so they were not saved{}: try a smaller "
        "optim.lr, or optim.clip",
        step_, saved_ >= 0 ? fmt::format("; the checkpoint of step {} is whole", saved_) : ""));
  }

  void save() {
    save_agreed_ = save_asked_ = false;
    if (options_.dir.empty() || step_ == saved_) return;
    auto [state, agreed] = worker_->state();
    check_finite(state);
    noise_.put(state, "noise.");
    const nlohmann::json facts = {{"recipe", to_toml(recipe_)}, {"step", step_},
                                  {"first_step", first_},       {"text_hash", text_->hash},
                                  {"agreed", agreed},           {"cpu", machine_.cpu},
                                  {"torch", machine_.torch},    {"threads", recipe_.train.threads}};
    const comm::KeepAlive slow_disk(world_.group->transport());
    const auto attempt = [&] {
      world_.together([&] { metrics_->sync(); });
      checkpoint::save(options_.dir, step_, state, facts, recipe_.train.keep_checkpoints, world_, mesh_.shape);
    };
    retry(attempt, [&] { return fmt::format("the checkpoint of step {}", step_); });
    saved_ = step_;
    saved_at_ = Clock::now();
    if (is_rank0()) observer_.saved(step_);
  }

  // A disk that is full, or does not answer, may do better in a moment. Collective, or on one rank alone: if `write`
  // throws on one rank of several, it does on all.
  template <class Write, class Name>
  void retry(const Write& write, const Name& name) {
    for (const double pause_s : kRetryAfter_s) {
      try {
        return write();
      } catch (const comm::FailedElsewhere& error) {
        if (error.bad_input) throw;
        warn_of(error, name());
      } catch (const std::system_error& error) {
        warn_of(error, name());
      }
      std::this_thread::sleep_for(to_duration(pause_s));
    }
    try {
      write();
    } catch (const std::system_error& error) {
      throw std::runtime_error(
          fmt::format("{} could not be saved in {} attempts: {}{}", name(), std::size(kRetryAfter_s) + 1,
                      one_line(error), saved_ >= 0 ? fmt::format("; the checkpoint of step {} is whole", saved_) : ""));
    }
  }

  void warn_of(const std::exception& error, const std::string& what) {
    if (is_rank0()) observer_.warned(fmt::format("{} could not be saved, trying again: {}", what, one_line(error)));
  }

  Result finish() {
    const int64_t sent_before = mesh_.replica_group->ledger().sent();
    const auto start = Clock::now();
    worker_->finish();
    const double seconds = drain_s_ + seconds_since(start);
    const double sent = static_cast<double>(mesh_.replica_group->ledger().sent() - sent_before);
    Result done = result(true);
    done.val_loss = evaluate(/*final=*/true);
    const auto mean = means_over(*mesh_.control, {seconds, sent});
    done.finish_s = mean[0];
    done.finish_bytes = mean[1];
    const at::Tensor agreed = worker_->agreed();  // all ranks: it may take an exchange
    const auto traces = gather_traces(world_, *trace_);
    const auto change = change_ ? gather_traces(world_, *change_) : traces;
    if (is_rank0() && !options_.dir.empty()) {
      const comm::KeepAlive slow_disk(world_.group->transport());
      retry([&] { metrics_->sync(), write_model(agreed), write_record(done, traces, change); },
            [] { return std::string("the result"); });
    }
    return done;
  }

  // result.json, timeline.json and pipeline.json: what the report needs beside recipe and metrics.
  void write_record(const Result& done, const std::vector<TracePtr>& traces, const std::vector<TracePtr>& change) {
    auto record = to_json(done, "done");
    record["parameters"] = worker_->model().numel();
    record["replicas"] = recipe_.workers.replicas;
    record["link"] = to_text(recipe_.link.replicas);
    if (mesh_.shape.stages > 1) record["stages"] = mesh_.shape.stages;
    if (text_->entropy) record["entropy"] = *text_->entropy;
    record["machine"] = {{"cores", machine_.cores}, {"cpu", machine_.cpu}};
    record["command"] = options_.command;
    write_file(options_.dir / "result.json",
               {record.dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n"});
    const int64_t shown = std::clamp<int64_t>(3 * dp::traits_of(recipe_.strategy).round_steps, 12, 60);
    write_file(options_.dir / "timeline.json", {timeline(traces, step_, shown).dump(), "\n"});
    if (mesh_.shape.stages == 1) return;
    if (const auto pipeline = pipeline_record(recipe_, traces, step_, change))
      write_file(options_.dir / "pipeline.json", {to_json(*pipeline).dump(), "\n"});
  }

  Result result(bool finished) {
    const Costs& costs = worker_->costs();
    const auto mean =
        means_over(*mesh_.control,
                   {costs.seconds, costs.compute_s, costs.exposed_s, static_cast<double>(costs.wire_bytes),
                    static_cast<double>(worker_->setup_bytes()), costs.update_s, static_cast<double>(costs.stage_bytes),
                    static_cast<double>(world_.group->ledger().sent() + mesh_.control->ledger().sent()),
                    costs.sync_seconds, costs.sync_exposed_s});
    Result r{.strategy = recipe_.strategy.name, .finished = finished, .steps = step_};
    r.tokens = (step_ - first_) * recipe_.tokens_per_step();
    r.seconds = mean[0];
    r.compute_s = mean[1];
    r.exposed_s = mean[2];
    r.wire_bytes = mean[3];
    r.setup_bytes = mean[4];
    r.update_s = mean[5];
    if (mesh_.shape.stages > 1) r.stage_bytes = mean[6];
    r.control_bytes = mean[7];
    const double busy = r.compute_s + r.exposed_s;
    r.utilisation = busy > 0 ? r.compute_s / busy : 1;
    r.tokens_per_s = r.seconds > 0 ? static_cast<double>(r.tokens) / r.seconds : 0;
    r.noise_scale = noise_.batch();
    if (sync_steps_ > 0 && mean[8] > 0) {
      r.sync = {.steps = std::min(sync_steps_, step_), .seconds = mean[8], .utilisation = 1 - mean[9] / mean[8]};
      if (busy > mean[8]) r.sync->utilisation_after = 1 - (r.exposed_s - mean[9]) / (busy - mean[8]);
    }
    r.skipped = static_cast<int64_t>(sums_over(*mesh_.control, {static_cast<double>(costs.skipped)})[0]);
    const at::Tensor agreed = worker_->agreed();
    if (is_rank0()) r.weights_hash = optim::weights_hash(worker_->layout(), agreed);
    return r;
  }

  // The product: the agreed weights under the model's own names.
  void write_model(const at::Tensor& weights) {
    checkpoint::write_safetensors(options_.dir / "model.safetensors", by_name(worker_->model(), weights),
                                  {{"format", "pt"}});
  }

  const Recipe& recipe_;
  std::vector<std::string> notes_;
  const Machine machine_ = this_machine();
  const RunOptions& options_;
  Observer& observer_;
  const std::shared_ptr<const data::Text> text_;
  const comm::World& world_;
  const TracePtr trace_;
  const Mesh mesh_;
  const int64_t resumed_;  // the checkpoint to go on from, -1 if none
  const std::optional<WarmStart> warm_start_;
  const std::unique_ptr<Worker> worker_;
  Control control_;
  const int64_t sync_steps_;  // of a pipeline that begins with synchronous ones
  TracePtr change_;           // the trace as it was soon after them
  NoiseScale noise_;
  Metrics* metrics_ = nullptr;
  int64_t step_ = 0, saved_ = -1;
  int64_t first_ = 0;   // steps that another run did before this one
  double drain_s_ = 0;  // waiting for what the last step left under way
  bool stopped_from_outside_ = false;
  bool save_asked_ = false, save_agreed_ = false;  // by rank 0; by what all have seen of it
  Clock::time_point saved_at_ = Clock::now();
};

// Ranks that are threads of one process; more would be a typing error.
constexpr int64_t kMostRanks = 1024;

// Numbers that do not fit together fail here, once, before anything is written.
void check(const Recipe& recipe) {
  const auto model = models::make_model(recipe.model, data::kVocabulary, {});
  check_lateness(recipe);
  if (recipe.workers.stages > 1) check_stages(recipe, *model);
  if (recipe.workers.stages > 1 && recipe.train.on_divergence == "skip")
    throw BadInput("train.on_divergence = \"skip\" is for replicas in one piece: workers.stages must be 1, got {}",
                   recipe.workers.stages);
  for (const auto& layout : stage_layouts(recipe, *model))
    dp::check(recipe.strategy, layout.numel, recipe.planned_steps());
}

// What rank 0 was asked to do, on all ranks; each reads its own text where they share no disk.
Recipe agreed_recipe(const Recipe& asked, const comm::World& world) {
  Recipe recipe = make_recipe(parse_recipe(world.broadcast_bytes(to_toml(asked)), "the recipe of rank 0"));
  if (!world.shares_disk) recipe.data.path = asked.data.path;
  return recipe;
}

// BadInput that names the first rank whose text is not rank 0's.
void check_same_text(const data::Text& text, const comm::World& world) {
  const at::Tensor own = at::full({1}, std::bit_cast<int64_t>(text.hash), at::kLong);
  const at::Tensor all = at::empty({world.size()}, at::kLong);
  world.group->all_gather(all, own, comm::TrafficKind::control)->wait();
  const auto* hashes = all.const_data_ptr<int64_t>();
  for (int rank = 1; rank < world.size(); ++rank)
    if (hashes[rank] != hashes[0])
      throw BadInput("rank {} reads another text than rank 0: data.path must lead to the same files everywhere", rank);
}

}  // namespace

Result run_rank(const Recipe& asked, const RunOptions& given, Observer& observer, comm::World& world) {
  RunOptions options = given;
  Recipe recipe = agreed_recipe(asked, world);
  world.group->transport()->set_timeout(recipe.train.timeout);
  if (world.shares_disk) options.dir = world.broadcast_bytes(options.dir.string());
  const bool keeps_house = world.is_rank0() || !world.shares_disk;
  std::optional<RunDirectory> directory;
  bool resumed = false;
  world.together([&] {
    check(recipe);  // on all ranks, so that none waits for it
    if (!keeps_house) return;
    directory.emplace(options.dir, options.resume);
    if (!options.from.empty()) check_warm_start(options.from, recipe);
    const auto stored = directory->stored();
    if (stored) keep_resolved(recipe, *stored), resumed = true;
  });
  recipe = agreed_recipe(recipe, world);
  Resolved resolved = resolve_auto(recipe, options, world);
  std::shared_ptr<const data::Text> text;
  world.together([&] { text = data::load_text(resolved.recipe.data, recipe.model.context); });
  check_same_text(*text, world);
  world.together([&] {
    if (keeps_house) directory->prepare(resolved.recipe);
  });
  if (keeps_house && !directory->note().empty()) resolved.notes.push_back(directory->note());
  if (resumed && checkpoint::newest(options.dir) < 0)
    resolved.notes.push_back(
        fmt::format("{} has no checkpoint yet: training starts again from its beginning", options.dir.string()));
  return Rank(resolved.recipe, resolved.notes, options, observer, text, world).run();
}

Result run(const Recipe& recipe, const RunOptions& options, Observer& observer) {
  if (recipe.ranks() > kMostRanks)
    throw BadInput("workers: {} replicas x {} stages are {} ranks; as threads of one process there can be {}",
                   recipe.workers.replicas, recipe.workers.stages, recipe.ranks(), kMostRanks);
  check_resources(recipe, recipe.ranks());
  Result result;
  comm::run_threads(static_cast<int>(recipe.ranks()),
                    [&](comm::World& world) {
                      Result own = run_rank(recipe, options, observer, world);
                      if (world.is_rank0()) result = std::move(own);
                    },
                    {.timeout_s = recipe.train.timeout, .threads = static_cast<int>(recipe.train.threads)});
  return result;
}

}  // namespace thinwire::train
