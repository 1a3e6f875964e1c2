// thinwire train: one run.
#include <fmt/format.h>

#include <charconv>

#include "cli/arguments.h"
#include "cli/shell.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "thinwire/base/errors.h"
#include "thinwire/report/report.h"
#include "thinwire/train/metrics.h"

namespace thinwire::cli {
namespace {

std::string sent_text(const train::Result& result, int64_t replicas) {
  const std::string wire = megabytes_text(result.wire_bytes);
  if (!result.stage_bytes) return wire + " sent by a replica";
  const std::string stages = megabytes_text(*result.stage_bytes);
  if (replicas == 1) return stages + " sent by a stage to its neighbours";
  return fmt::format("{} sent by a stage to other replicas and {} to its neighbours", wire, stages);
}

// What was trained is not lost because of a page about it.
void write_page(const std::filesystem::path& dir) {
  try {
    report::write(dir / "report.html", {dir});
  } catch (const std::exception& error) {
    fmt::print(stderr, "thinwire: training is done, but there is no report: {}\n", one_line(error));
  }
}

// The step that --resume=step-40 names; none where it names nothing.
std::optional<int64_t> step_of(const std::string& resume) {
  constexpr std::string_view kNewest = "newest", kPrefix = "step-";
  if (resume.empty() || resume == kNewest) return {};
  int64_t step = -1;
  const char* end = resume.data() + resume.size();
  if (!resume.starts_with(kPrefix) || std::from_chars(resume.data() + kPrefix.size(), end, step).ptr != end || step < 0)
    throw BadInput("--resume={} should name a checkpoint, like --resume=step-40", resume);
  return step;
}

void train_verb(const Arguments& arguments, const std::string& resumed, const std::string& from, Ranks& ranks) {
  const bool resume = !resumed.empty();
  const auto step = step_of(resumed);
  if (resume && arguments.dir.empty()) throw BadInput("--resume needs --dir, the directory of the run to go on with");
  train::RecipeText text;
  train::Recipe recipe;
  ranks.together([&] {
    text = arguments.text(), recipe = train::make_recipe(text);
    if (ranks.is_rank0()) ranks.check_number(recipe);
  });
  const auto dir =
      ranks.directory(arguments.directory(text.name + "-" + recipe.strategy.name, /*claim=*/ranks.is_rank0()));
  const RemovedIfEmpty refused(arguments.dir.empty() && ranks.is_rank0() ? dir : "");
  auto observer = ranks.observer(arguments.observer(recipe.strategy.name, /*schedule=*/true));
  const std::string command = arguments.command("train") + (from.empty() ? "" : " --from " + shell_word(from));
  const Signals signals(ranks.is_rank0()
                            ? "thinwire: stopping after this step, with a checkpoint; a second signal ends it at once\n"
                            : nullptr,
                        ranks.joined());
  const auto result = ranks.run(recipe,
                                {.dir = dir,
                                 .resume = resume,
                                 .step = step,
                                 .from = from,
                                 .stop = &Signals::stop(),
                                 .save = &Signals::save(),
                                 .command = command},
                                *observer);
  observer.reset();  // the live line goes before the last words
  if (!ranks.is_rank0()) return;
  if (result.finished) write_page(dir);
  if (arguments.json) {
    fmt::print("{}\n", train::to_json(result, result.finished ? "done" : "stopped").dump());
  } else if (result.finished) {
    fmt::print("done: held-out loss {:.4f} after {} steps, {} tokens in {:.1f} s\n", result.val_loss, result.steps,
               count_text(static_cast<double>(result.tokens)), result.seconds);
    fmt::print("      {} tokens/s, utilisation {:.0f} %, {:.1f} s waited for the wire, {}\n",
               count_text(result.tokens_per_s), 100 * result.utilisation, result.exposed_s,
               sent_text(result, recipe.workers.replicas));
    if (result.sync && result.sync->utilisation_after)
      fmt::print("      utilisation {:.0f} % in the {} synchronous steps at the beginning, {:.0f} % after them\n",
                 100 * result.sync->utilisation, result.sync->steps, 100 * *result.sync->utilisation_after);
    if (result.update_s > 0)
      fmt::print("      {} took {:.0f} % of the computing\n", recipe.optim.name,
                 100 * result.update_s / result.compute_s);
    if (result.noise_scale)
      fmt::print("      batch size worth using: about {} sequences; this run took {} a step\n",
                 count_text(*result.noise_scale), recipe.workers.replicas * recipe.train.batch);
    if (result.skipped > 0)
      fmt::print("      {} updates were left out: loss or gradients were not finite\n", result.skipped);
    fmt::print("      weights {} in {}\n", result.weights_hash, (dir / "model.safetensors").string());
    fmt::print("      report in {}\n", (dir / "report.html").string());
  } else {
    fmt::print("stopped after step {}; go on with: {} --dir {} --resume\n", result.steps, command,
               shell_word(dir.string()));
  }
}

}  // namespace

void add_train(CLI::App& app, Ranks& ranks) {
  auto* verb = app.add_subcommand("train", "train a model as a recipe says");
  auto arguments = std::make_shared<Arguments>();
  auto resume = std::make_shared<std::string>();
  auto from = std::make_shared<std::string>();
  arguments->add_to(*verb);
  verb->add_flag("--resume{newest}", *resume,
                 "go on from the newest checkpoint in --dir, or from --resume=step-40; start there if there is none");
  verb->add_option(
          "--from", *from,
          "begin with the weights, moments and step of a run's newest checkpoint, or of this one; the recipe may "
          "differ in all but model and optim.name")
      ->type_name("RUN|CHECKPOINT");
  verb->footer(
      "A recipe says what is trained, on what, how and for how long; `thinwire keys` lists all it can say.\n"
      "Replicas are threads of this process, joined by an emulated link where link.replicas asks for one.\n"
      "So are the stages of a replica, where workers.stages cuts the model into some; link.stages joins them.\n"
      "Under mpirun, or torchrun with -m thinwire, each is a process, and all together are as many as those.\n"
      "\n"
      "The run directory gets the complete recipe, metrics.jsonl, checkpoints and, at the end,\n"
      "model.safetensors and report.html. On a terminal a live line shows step, loss, tokens a second,\n"
      "utilisation (the share of time spent computing; the rest was waiting for the wire), what a replica has\n"
      "sent, and the time left.\n"
      "Ctrl-C (or SIGTERM, SIGHUP) stops after a checkpoint; the same command with --resume goes on as if\n"
      "nothing had happened. SIGUSR1 saves a checkpoint at once; train.save_minutes and train.save_every save by\n"
      "themselves.\n"
      "\n"
      "Examples:\n"
      "  thinwire train recipes/tiny.toml\n"
      "  thinwire train recipes/demo.toml strategy.name=co2 strategy.period=24 link.replicas=30mbit/50ms\n"
      "  thinwire train recipes/demo.toml workers.stages=4 workers.replicas=1 link.stages=100mbit/2ms pipeline.hop=2\n"
      "  thinwire train recipes/demo.toml data.path=my/texts train.steps=2000 train.save_every=200 --dir runs/mine\n"
      "  thinwire train recipes/demo.toml ... --dir runs/mine --resume\n"
      "  thinwire train recipes/demo.toml workers.stages=2 workers.replicas=2 pipeline.hop=auto link.stages=1gbit/5ms\n"
      "  thinwire train recipes/demo.toml workers.stages=3 ... --from runs/mine --dir runs/wider");
  verb->callback([=, &ranks] { train_verb(*arguments, *resume, *from, ranks); });
}

}  // namespace thinwire::cli
