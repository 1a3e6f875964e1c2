// thinwire: text to Recipe to one call. Exit codes: 0 done (or stopped and resumable), 1 failed, 2 wrong use.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "cli/help.h"
#include "cli/verbs.h"
#include "thinwire/base/did_you_mean.h"
#include "thinwire/base/errors.h"
#include "thinwire/train/version.h"

namespace thinwire::cli {
namespace {

std::atomic<bool> stop_flag = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  stop_flag = true;
  std::signal(signal, SIG_DFL);
}

void check_verb(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> names;
  for (const auto* verb : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(verb->get_name());
  if (argc < 2 || argv[1][0] == '-' || std::ranges::find(names, argv[1]) != names.end()) return;
  const std::string hint = did_you_mean(argv[1], names);
  throw BadInput("there is no verb '{}'{}", argv[1], hint.empty() ? " (thinwire --help tells more)" : hint);
}

}  // namespace

const std::atomic<bool>& stop_requested() { return stop_flag; }

int main(int argc, char** argv) {
  CLI::App app("thinwire trains neural networks across thin, slow or distant links.", "thinwire");
  app.set_help_flag("-h,--help", "show this help and exit");
  app.set_version_flag("--version", "thinwire " + train::version(), "show the version and exit");
  app.require_subcommand(1);
  app.formatter(help_layout());
  app.footer(
      "Start here:\n"
      "  thinwire compare recipes/demo.toml --strategies all_reduce,diloco,co2\n"
      "  thinwire train recipes/tiny.toml strategy.name=co2 link.replicas=100mbit/20ms\n"
      "Ctrl-C stops a run after a checkpoint; `train --dir DIR --resume` goes on with it.\n"
      "`thinwire VERB --help` explains a verb, with examples; `thinwire doctor` looks at this machine.");
  add_train(app);
  add_compare(app);
  add_keys(app);
  add_report(app);
  add_sample(app);
  add_info(app);
  add_bench(app);
  add_doctor(app);
  add_completion(app);
  for (auto* verb : app.get_subcommands([](const CLI::App*) { return true; })) verb->group("Verbs");

  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    check_verb(app, argc, argv);
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "stdout");
    if (std::ferror(stdout)) throw std::runtime_error("stdout: not all could be written");  // flushed before, in vain
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::fprintf(stderr, "thinwire: %s (thinwire --help tells more)\n", one_line(error).c_str());
    return 2;
  } catch (const BadInput& error) {
    std::fprintf(stderr, "thinwire: %s\n", one_line(error).c_str());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "thinwire: %s\n", one_line(error).c_str());
    return 1;
  }
}

}  // namespace thinwire::cli

int main(int argc, char** argv) { return thinwire::cli::main(argc, argv); }
