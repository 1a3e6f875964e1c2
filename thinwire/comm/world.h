// A world of ranks that are threads of this process: no launcher, no sockets.
#pragma once

#include <functional>
#include <memory>

#include "thinwire/comm/mail_group.h"

namespace thinwire::comm {

struct WorldOptions {
  double timeout_s = 300;  // how long a rank waits for a message before it throws Timeout
  int threads = 1;         // torch threads of each rank, >= 1
};

// Runs rank_main(group) on `size` threads and returns when all have ended. If one throws, every other rank that waits
// gets PeerLost naming it, and run_world throws what the first one threw. A rank that is stuck in its own code cannot
// be ended: the others time out, and run_world goes on waiting for it.
void run_world(int size, const std::function<void(std::shared_ptr<MailGroup>)>& rank_main,
               const WorldOptions& options = {});

}  // namespace thinwire::comm
