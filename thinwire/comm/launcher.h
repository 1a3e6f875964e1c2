// Which launcher has started this process as one of several, by the variables it leaves in the environment.
//
// A pure function of the environment, so that a program can choose its transport (c10d.h, mpi/mpi.h) before it touches
// either, and so that a launcher it was not built for is an error in words, not `size` programs that each train alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace thinwire::comm {

struct Launcher {
  enum class Kind { torchrun, mpi };
  Kind kind = Kind::mpi;
  std::string variable = {};  // by which it was recognised: "OMPI_COMM_WORLD_SIZE"
  int size = 1;               // processes it has started
  int rank = 0;               // of this one, as far as the environment says
};

// The launchers that have started more than one process, the one nearest to this process first: a torchrun may have
// been started by srun. Empty: this process was started by hand. `variable` is the environment (std::getenv, or a fake
// in tests): a value, or null. BadInput that names the variable where a number is none.
std::vector<Launcher> find_launchers(const std::function<const char*(const char*)>& variable);

}  // namespace thinwire::comm
