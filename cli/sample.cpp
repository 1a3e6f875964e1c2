// thinwire sample: text from a trained model.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/flags.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "cli/utf8.h"
#include "cli/verbs.h"
#include "thinwire/base/printable.h"
#include "thinwire/train/generate.h"
#include "thinwire/train/inspect.h"

namespace thinwire::cli {
namespace {

struct Sample {
  std::string run, prompt;
  train::GenerateOptions generate;
  bool json = false;
};

void print_json(const Sample& asked, const train::Trained& trained, const std::string& added, int64_t tokens) {
  const nlohmann::ordered_json line = {{"event", "sample"},
                                       {"prompt", asked.prompt},
                                       {"text", added},
                                       {"tokens", tokens},
                                       {"seed", asked.generate.seed},
                                       {"from", trained.from.string()},
                                       {"finished", trained.finished},
                                       {"weights_hash", trained.weights_hash}};
  fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void sample_verb(const Sample& asked) {
  check_flags(asked.generate);
  auto trained = train::load_trained(asked.run);
  at::set_num_threads(static_cast<int>(trained.recipe.train.threads));  // the last bit may depend on it
  if (!trained.finished && !train::is_checkpoint(asked.run) && !asked.json)
    fmt::print(stderr, "thinwire: {} is not finished: these are the weights of {}\n", printable(asked.run),
               printable(trained.from.string()));

  const bool terminal = stdout_is_terminal() && !asked.json;
  Utf8Repair repair;
  std::string added;
  auto show = [&](std::string_view bytes) {
    const std::string text = terminal ? repair(bytes) : std::string(bytes);
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  };
  const Signals signals;
  if (!asked.json && !show(asked.prompt)) return;
  train::generate(*trained.model, trained.recipe.model.context, asked.prompt, asked.generate, [&](char byte) {
    added += byte;
    return (asked.json || show({&byte, 1})) && !Signals::stop();
  });
  if (asked.json) return print_json(asked, trained, added, std::ssize(added));
  if (terminal) fmt::print("{}{}", repair.rest(), added.ends_with('\n') ? "" : "\n");
}

}  // namespace

void add_sample(CLI::App& app) {
  auto* verb = app.add_subcommand("sample", "text from a trained model");
  auto asked = std::make_shared<Sample>();
  verb->add_option("run", asked->run, "a run directory, or a checkpoint in it")->required()->type_name("RUN");
  verb->add_option("--prompt", asked->prompt, "what the text starts with; without: a new line")->type_name("TEXT");
  add_flags(*verb, asked->generate);
  verb->add_flag("--json", asked->json, "print one JSON object, at the end");
  verb->footer(
      "The weights are those of model.safetensors, which a run writes at its end; of a run that is not\n"
      "finished, those its replicas agreed on last, from the newest checkpoint. A token is a byte.\n"
      "Weights that do not have the hash written down for them are refused.\n"
      "The same weights, prompt and flags give the same text. Ctrl-C ends it.\n"
      "\n"
      "On a terminal, what is not UTF-8 or could upset the terminal is replaced; in a pipe the bytes\n"
      "come as they are.\n"
      "\n"
      "Examples:\n"
      "  thinwire sample runs/mine --prompt \"def main(\"\n"
      "  thinwire sample runs/mine --tokens 1000 --temperature 0.5 --top-k 20 --seed 7 > text.txt\n"
      "  thinwire sample runs/mine/checkpoints/step-200 --temperature 0");
  verb->callback([=] { sample_verb(*asked); });
}

}  // namespace thinwire::cli
