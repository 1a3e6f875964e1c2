// One rank's view of a run, however it was launched; and the launcher that needs none: ranks as threads of this
// process.
//
// A rank knows of the others only what they send. Whether they are threads, processes or other machines cannot be seen
// from here, but for two facts that decide where files go: which rank this is, and whether all see one disk. So a
// trainer is one function, rank_main(World&), that runs on every rank under every launcher:
//
//   run_threads(4, rank_main);                                                  // threads
//   World world{TransportGroup::world(c10d_transport(name))}; rank_main(world); // a process of torchrun
//   World world{TransportGroup::world(mpi_transport())}; rank_main(world);      // a process of mpirun or srun
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/comm/transport_group.h"

namespace thinwire::comm {

struct World {
  std::shared_ptr<TransportGroup> group;  // all ranks, without an emulated link
  bool shares_disk = true;                // what one rank writes, the others find under the same path

  int rank() const { return group->rank(); }
  int size() const { return group->size(); }
  bool is_rank0() const { return rank() == 0; }

  // At the end of a rank's work, or after a failure that the others know of: waits for the exchanges in flight and ends
  // the background thread. Nothing may be started afterwards.
  void close() const { group->executor().stop(); }

  // All of these are collective and blocking, and count as control traffic.
  std::string broadcast_bytes(std::string bytes, int root = 0) const;   // root's
  std::vector<std::string> gather_bytes(const std::string& own) const;  // by rank, on rank 0; elsewhere nothing
  // What must be added to times of each rank's clock to get rank 0's, by rank, on rank 0; elsewhere nothing.
  std::vector<Clock::duration> clock_offsets() const;
  // Does `work` on every rank and waits for all; if it throws on any, all throw: that rank its own exception, the
  // others FailedElsewhere. So no rank goes on alone after a failure that only one of them can see (a full disk).
  // `work` must not communicate.
  void together(const std::function<void()>& work) const;
};

struct WorldOptions {
  double timeout_s = 300;  // how long a rank waits for a message before it throws Timeout
  int threads = 1;         // torch threads of each rank, >= 1
};

// Runs rank_main(world) on `size` >= 1 threads and returns when all have ended. If one throws, every other rank that
// waits gets PeerLost naming it, and run_threads throws what the first one threw. A rank that is stuck in its own code
// cannot be ended: the others time out, and run_threads goes on waiting for it. torch's default generator is shared by
// these threads: use named generators (base/random.h).
void run_threads(int size, const std::function<void(World&)>& rank_main, const WorldOptions& options = {});

// The same where a rank needs only the group of all.
inline void run_world(int size, const std::function<void(std::shared_ptr<TransportGroup>)>& rank_main,
                      const WorldOptions& options = {}) {
  run_threads(
      size, [&](World& world) { rank_main(world.group); }, options);
}

}  // namespace thinwire::comm
