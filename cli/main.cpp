// thinwire: text to Recipe to one call. Exit codes: 0 done (or stopped and resumable), 1 failed, 2 wrong use.
#include <csignal>
#include <cstdio>

#include "cli/verbs.h"
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

}  // namespace

const std::atomic<bool>& stop_requested() { return stop_flag; }

int main(int argc, char** argv) {
  CLI::App app("thinwire trains neural networks across thin, slow or distant links.", "thinwire");
  app.set_version_flag("--version", "thinwire " + train::version());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Start here:\n"
      "  thinwire compare recipes/demo.toml --strategies all_reduce,diloco,co2\n"
      "  thinwire train recipes/tiny.toml strategy.name=co2 link.replicas=100mbit/20ms\n"
      "Ctrl-C stops a run after a checkpoint; `train --dir DIR --resume` goes on with it.");
  add_train(app);
  add_compare(app);
  add_keys(app);

  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    app.parse(argc, argv);
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
