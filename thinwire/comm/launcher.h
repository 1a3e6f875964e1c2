// Which launcher has started this process as one of several, by the variables it leaves in the environment.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace thinwire::comm {

struct Launcher {
  enum class Kind { torchrun, mpi };
  Kind kind = Kind::mpi;
  std::string variable = {};  // that told: "OMPI_COMM_WORLD_SIZE"
  int size = 1;               // processes it has started
  int rank = 0;               // of this one, as far as the environment says
};

// Those that have started more than one process, the one nearest to this process first: a torchrun may have been
// started by srun. `variable` is the environment: a value, or null. BadInput where a number is none.
std::vector<Launcher> find_launchers(const std::function<const char*(const char*)>& variable);

}  // namespace thinwire::comm
