// Four ranks average a vector while they could be doing something else (docs/comm.md).
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "thinwire/comm/world.h"

int main() {
  using namespace thinwire;
  comm::run_world(4, [](comm::GroupPtr group) {
    at::Tensor x = at::empty({1000}, at::kFloat).fill_(group->rank());
    comm::WorkPtr work = group->all_reduce_(x, comm::Reduce::mean);
    // ... compute something else; x must not be touched ...
    work->wait();
    if (group->rank() == 0) fmt::print("{} after {} bytes\n", x[0].item<float>(), group->ledger().sent());
  });  // 1.5 after 6000 bytes
}
