// Ranks as processes that torch.distributed has joined: the transport over a c10d process group, and its world.
//
// The group must be Gloo's, of C++, and used by nothing else: it is made by the launcher (python/thinwire/__main__.py)
// and found here by its name. Only tagged send and recv are used; collectives are those of transport_group.h, so
// results are the same bits as everywhere. Every pair of ranks keeps a window of receives posted, of which each takes a
// packet of the stream (frames.h): Gloo sends nothing before the other side is ready for it, so a receive that is
// posted late would cost a round trip more.
//
// A process that ends without a goodbye is PeerLost on all others as soon as its connections close; one that is stuck
// is a Timeout. Gloo's own timeout ends all connections of a rank, so it is never used.
#pragma once

#include <string>

#include "thinwire/comm/identity.h"
#include "thinwire/comm/transport.h"

namespace thinwire::comm {

struct C10dOptions {
  double timeout_s = 300;  // how long a rank waits for a message before it throws Timeout; Transport::set_timeout
  double connect_s = 300;  // how long until all ranks have joined
  Identity identity = {};
};

// Collective. An error where no group has that name, where it is not Gloo's, or where it is implemented in Python:
// those need the interpreter's lock in every call, which the caller's thread may hold.
TransportPtr c10d_transport(const std::string& group_name, const C10dOptions& options = {});

}  // namespace thinwire::comm
