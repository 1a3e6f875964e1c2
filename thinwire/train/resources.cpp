#include "thinwire/train/resources.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"
#include "thinwire/data/text.h"
#include "thinwire/dp/traits.h"

namespace thinwire::train {
namespace {

constexpr double kGB = 1e9;

// Vectors as long as the weights that a rule keeps.
int64_t moments_of(const std::string& rule) {
  if (rule == "adamw" || rule == "nadamw" || rule == "lamb") return 2;
  return 1;
}

// ... and that a strategy keeps beside weights and gradients, at least: moments and errors where it is its own rule.
int64_t kept_by(const dp::StrategyOptions& options) { return dp::traits_of(options).owns_rule ? 3 : 0; }

// Activations of one token that backward wants back, in numbers: of a block about 14 vectors of the model's width and
// one of the attention's sums a head; of the head logits, their softmax and its gradient.
double numbers_a_token(const models::ModelOptions& o, double layers) {
  return layers * (14.0 * static_cast<double>(o.width) + static_cast<double>(o.heads)) + 3.0 * data::kVocabulary;
}

// The number in a file of one, or `otherwise`: "max" means no limit.
double number_in(const std::string& path, double otherwise) {
  std::istringstream file(read_file_if_any(path));
  double number = 0;
  return file >> number ? number : otherwise;
}

double limit(int resource) {
  rlimit limits{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limits) != 0 || limits.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<double>::infinity();
  return static_cast<double>(limits.rlim_cur);
}

}  // namespace

Resources needed(const Recipe& recipe, int64_t ranks) {
  const auto model = models::make_model(recipe.model, data::kVocabulary, {});
  const double stages = static_cast<double>(recipe.workers.stages);
  const double weights = static_cast<double>(model->numel()) / stages;
  const double vectors = static_cast<double>(2 + moments_of(recipe.optim.name) + kept_by(recipe.strategy));
  const double tokens = static_cast<double>(recipe.train.batch) * static_cast<double>(recipe.model.context);
  const double layers = static_cast<double>(recipe.model.layers) / stages;
  const double a_number = recipe.train.dtype == "bfloat16" ? 2 : 4;
  const double a_rank = 4 * weights * vectors + a_number * tokens * numbers_a_token(recipe.model, layers);
  return {.bytes = static_cast<double>(ranks) * a_rank, .threads = ranks * (recipe.train.threads + 1)};
}

Resources available() {
  struct sysinfo info {};
  sysinfo(&info);
  Resources here{.bytes = static_cast<double>(info.totalram) * info.mem_unit,
                 .threads = static_cast<int64_t>(number_in("/proc/sys/kernel/threads-max", 1e9))};
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    here.bytes = std::min(here.bytes, number_in(file, here.bytes));
  here.bytes = std::min(here.bytes, limit(RLIMIT_AS));
  auto at_most = [&](double n) { here.threads = static_cast<int64_t>(std::min(static_cast<double>(here.threads), n)); };
  for (const char* file : {"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"}) at_most(number_in(file, 1e9));
  at_most(limit(RLIMIT_NPROC));
  at_most(number_in("/proc/sys/vm/max_map_count", 1e9) / 2);  // a thread's stack takes two maps
  return here;
}

void check_resources(const Recipe& recipe, int64_t ranks) {
  if (recipe.train.force) return;
  const Resources wanted = needed(recipe, ranks), here = available();
  if (wanted.bytes > here.bytes)
    throw BadInput(
        "this run needs at least {:.1f} GB of memory, this machine has {:.1f} GB (train.force=true tries it)",
        wanted.bytes / kGB, here.bytes / kGB);
  if (wanted.threads > here.threads)
    throw BadInput("this run needs {} threads, this machine allows {} (train.force=true tries it)", wanted.threads,
                   here.threads);
}

}  // namespace thinwire::train
