// The program, behind whichever door: text to Recipe to one call.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "cli/help.h"
#include "cli/verbs.h"
#include "thinwire/base/did_you_mean.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/options.h"
#include "thinwire/base/version.h"
#include "thinwire/comm/errors.h"

namespace thinwire::cli {
namespace {

void check_verb(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> names;
  for (const auto* verb : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(verb->get_name());
  if (argc < 2 || argv[1][0] == '-' || std::ranges::find(names, argv[1]) != names.end()) return;
  const std::string hint = did_you_mean(argv[1], names);
  throw BadInput("there is no verb '{}'{}", argv[1], hint.empty() ? " (thinwire --help tells more)" : hint);
}

void parse_and_run(int argc, char** argv, Ranks& ranks) {
  CLI::App app("thinwire trains neural networks across thin, slow or distant links.", "thinwire");
  app.set_help_flag("-h,--help", "show this help and exit");
  app.set_version_flag("--version", "thinwire " + thinwire::version(), "show the version and exit");
  app.require_subcommand(1);
  app.formatter(help_layout());
  app.footer(
      "Start here:\n"
      "  thinwire compare recipes/demo.toml --strategies all_reduce,diloco,co2\n"
      "  thinwire train recipes/tiny.toml strategy.name=co2 link.replicas=100mbit/20ms\n"
      "Ctrl-C stops a run after a checkpoint; `train --dir DIR --resume` goes on with it.\n"
      "`thinwire VERB --help` explains a verb, with examples; `thinwire doctor` looks at this machine.");
  add_train(app, ranks);
  add_compare(app, ranks);
  add_keys(app);
  add_report(app);
  add_sample(app);
  add_info(app);
  add_bench(app);
  add_doctor(app, ranks.door());
  add_completion(app);
  for (auto* verb : app.get_subcommands([](const CLI::App*) { return true; })) verb->group("Verbs");

  const bool collective = argc > 1 && (argv[1] == std::string_view("train") || argv[1] == std::string_view("compare"));
  if (!collective && !ranks.is_rank0()) return;
  check_verb(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw BadInput("{} (thinwire --help tells more)", one_line(error));
    if (ranks.is_rank0()) app.exit(error);  // --help, --version
  }
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "stdout");
  if (std::ferror(stdout)) throw std::runtime_error("stdout: not all could be written");  // flushed before, in vain
}

// Where stdout is closed (`>&-`), the first file that is opened would get its number, and progress would go there.
void open_standard_files() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) == -1 && ::open("/dev/null", O_RDWR) == -1) std::abort();
}

// One line a rank; but what went wrong on another one, which says so itself, is repeated by rank 0 alone.
Outcome failed(Ranks& ranks, int code, const std::string& why, bool told_elsewhere) {
  ranks.fail(why);
  const std::string error = ranks.name() + why;
  if (!told_elsewhere || ranks.is_rank0()) std::fprintf(stderr, "thinwire: %s\n", error.c_str());
  return {code, error};
}

Outcome run_here(int argc, char** argv, Ranks& ranks) {
  try {
    parse_and_run(argc, argv, ranks);
    return {};
  } catch (const BadInput& error) {
    // What all were asked for alike is said by rank 0; a launcher ends all ranks as soon as one has failed.
    if (!ranks.joined() && !ranks.is_rank0()) return {};
    return failed(ranks, 2, one_line(error), false);
  } catch (const comm::FailedElsewhere& error) {
    return failed(ranks, error.bad_input ? 2 : 1, one_line(error), true);
  } catch (const std::exception& error) {
    return failed(ranks, 1, one_line(error), false);
  }
}

}  // namespace

Outcome run(int argc, char** argv, const Door& door) {
  open_standard_files();
  std::signal(SIGPIPE, SIG_IGN);
  try {
    Ranks ranks(door, [](const char* name) { return std::getenv(name); });
    return run_here(argc, argv, ranks);
  } catch (const std::exception& error) {  // no launcher, or one that cannot be joined
    std::fprintf(stderr, "thinwire: %s\n", one_line(error).c_str());
    return {2, one_line(error)};
  }
}

}  // namespace thinwire::cli
