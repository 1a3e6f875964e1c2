#include "thinwire/comm/launcher.h"

#include <charconv>
#include <string_view>

#include "thinwire/base/errors.h"

namespace thinwire::comm {
namespace {

struct Trace {
  Launcher::Kind kind;
  const char *size, *rank;
};
constexpr Trace kTraces[] = {
    {Launcher::Kind::torchrun, "WORLD_SIZE", "RANK"},
    {Launcher::Kind::mpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {Launcher::Kind::mpi, "PMI_SIZE", "PMI_RANK"},
    {Launcher::Kind::mpi, "SLURM_NTASKS", "SLURM_PROCID"},
};

}  // namespace

std::vector<Launcher> find_launchers(const std::function<const char*(const char*)>& variable) {
  const auto number = [&](const char* name, int otherwise) {
    const char* value = variable(name);
    if (!value || !*value) return otherwise;
    const std::string_view text = value;
    int n = 0;
    const auto [end, error] = std::from_chars(text.begin(), text.end(), n);
    if (error != std::errc{} || end != text.end() || n < 0)
      throw BadInput("{}={} in the environment is not a number of processes", name, value);
    return n;
  };
  std::vector<Launcher> found;
  for (const Trace& trace : kTraces)
    if (const int size = number(trace.size, 1); size > 1)
      found.push_back({.kind = trace.kind, .variable = trace.size, .size = size, .rank = number(trace.rank, 0)});
  return found;
}

}  // namespace thinwire::comm
