// Where no MPI was found when Thinwire was built.
#include "thinwire/base/errors.h"
#include "thinwire/comm/mpi/mpi.h"

namespace thinwire::comm {

TransportPtr mpi_transport(const MpiOptions&) {
  throw BadInput(
      "this thinwire was built without MPI: install one (Debian: libopenmpi-dev openmpi-bin) and build again, or use "
      "torchrun -m thinwire");
}

std::string mpi_version() { return ""; }

}  // namespace thinwire::comm
