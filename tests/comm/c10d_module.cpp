// rank_by_c10d: what rank_cases.cpp knows, for a process that torchrun has started (torchrun_rank.py).
#include <ATen/Parallel.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "tests/comm/rank_main.h"
#include "thinwire/base/errors.h"
#include "thinwire/comm/c10d.h"

namespace py = pybind11;

PYBIND11_MODULE(rank_by_c10d, m) {
  using namespace thinwire;
  // Whether it failed, and what it says. `say` gets it before this rank takes its leave.
  m.def("run",
        [](const std::string& group, double timeout_s, const std::vector<std::string>& words, const py::function& say) {
          py::gil_scoped_release unlocked;
          at::set_num_threads(1);
          comm::World world{.group = comm::TransportGroup::world(comm::c10d_transport(group, {.timeout_s = timeout_s})),
                            .shares_disk = false};
          const comm::Said said = comm::run_rank_main(world, words);
          {
            py::gil_scoped_acquire lock;
            say(said.text);
          }
          world.close();
          return said.failed;
        });
  // What joining this group throws.
  m.def("refusal", [](const std::string& group) -> std::string {
    try {
      comm::c10d_transport(group);
      return "no error";
    } catch (const std::exception& error) {
      return one_line(error);
    }
  });
}
