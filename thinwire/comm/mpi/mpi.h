// Ranks as processes that MPI has started: the transport over MPI, for mpirun and srun.
//
// All of MPI is called by one thread that this starts, from its beginning to its end: so the least that every MPI
// grants a program with threads (MPI_THREAD_FUNNELED) is enough, and no thread spins while a rank computes. It looks
// for messages when there is something to send, and from time to time; the pauses grow to half a millisecond where
// nothing comes. Where the program has started MPI itself, before, it must have been granted MPI_THREAD_MULTIPLE.
//
// MPI does not say that a process has died: mpirun notices it, says which, and ends all others. A rank that throws is
// PeerLost on the others, a stuck one a Timeout, and then MPI_Abort ends it too.
#pragma once

#include <string>

#include "thinwire/comm/identity.h"
#include "thinwire/comm/transport.h"

namespace thinwire::comm {

struct MpiOptions {
  double timeout_s = 300;  // how long a rank waits for a message before it throws Timeout; Transport::set_timeout
  double connect_s = 300;  // how long until all ranks have joined
  Identity identity = {};
};

// Collective over all processes that MPI has started. An error where Thinwire was built without MPI. Once a process.
TransportPtr mpi_transport(const MpiOptions& options = {});

// "Open MPI v4.1.4 ..."; empty where Thinwire was built without.
std::string mpi_version();

}  // namespace thinwire::comm
