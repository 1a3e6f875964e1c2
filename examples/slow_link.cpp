// An all-reduce over a link that does not exist (docs/net.md).
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "thinwire/comm/world.h"
#include "thinwire/net/emulated_transport.h"

int main() {
  using namespace thinwire;
  net::Link link;
  from_text("100mbit/20ms", link);
  comm::run_world(4, [&](std::shared_ptr<comm::TransportGroup> world) {
    comm::GroupPtr group = world->with_transport(std::make_shared<net::EmulatedTransport>(world->transport(), link));
    at::Tensor x = at::empty({1'000'000}, at::kFloat).fill_(1);
    world->barrier();  // without the link: start together
    const auto start = Clock::now();
    group->all_reduce_(x, comm::Reduce::sum)->wait();
    if (group->rank() == 0) fmt::print("{:.2f} s over {}\n", seconds_since(start), to_text(link));  // about 0.52 s
  });
}
