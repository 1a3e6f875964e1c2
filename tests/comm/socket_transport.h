// Messages between processes that share nothing but a connected stream socket a pair: frames (thinwire/comm/frames.h)
// over the least that can carry them. It exists to test frames, and to show that nothing above a Transport needs shared
// memory.
//
// One thread reads all sockets, another one writes, so that send() never blocks.
#pragma once

#include <memory>
#include <vector>

#include "thinwire/comm/framed_transport.h"

namespace thinwire::comm {

// sockets[r] leads to rank r; the one at `rank` is not looked at. They are closed at the end. Blocks until all ranks
// are there; throws PeerLost or Timeout.
std::shared_ptr<FramedTransport> connect_sockets(int rank, const std::vector<int>& sockets, double timeout_s,
                                                 double connect_s = 60, const Identity& identity = {});

}  // namespace thinwire::comm
