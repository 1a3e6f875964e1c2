// The program `thinwire`: ranks are threads of this process, or processes that MPI has started.
#include "cli/verbs.h"
#include "thinwire/comm/mpi/mpi.h"

int main(int argc, char** argv) {
  using namespace thinwire;
  const auto join = [](const comm::Identity& identity) { return comm::mpi_transport({.identity = identity}); };
  return cli::run(argc, argv, {.kind = comm::Launcher::Kind::mpi, .join = join, .about = comm::mpi_version()}).code;
}
