// thinwire._C: the verbs of the program, for a process that Python has started. Only names and text cross over,
// so nothing here depends on how torch hands its objects over.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/version.h>

#include "cli/verbs.h"
#include "thinwire/comm/c10d.h"

namespace py = pybind11;

namespace {

// Its text is kept: the Python object it holds must not be let go without the interpreter's lock.
std::string name_of_group(const py::function& make_group) {
  py::gil_scoped_acquire lock;
  try {
    return make_group().cast<std::string>();
  } catch (const py::error_already_set& error) {
    throw std::runtime_error(error.what());
  }
}

std::pair<int, std::string> run(std::vector<std::string> words, const py::function& make_group) {
  using namespace thinwire;
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const cli::Door door{.kind = comm::Launcher::Kind::torchrun, .join = [&](const comm::Identity& identity) {
                         return comm::c10d_transport(name_of_group(make_group), {.identity = identity});
                       }};
  py::gil_scoped_release unlocked;
  const auto [code, error] = cli::run(static_cast<int>(words.size()), argv.data(), door);
  return {code, error};
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.attr("torch_version") = TORCH_VERSION;
  m.def("run", &run, py::arg("argv"), py::arg("make_group"),
        "Carries out a command line, the program's name first. Returns the exit code and what went wrong. make_group() "
        "is called where torchrun has started several processes: it joins them in a Gloo process group and returns the "
        "group's name.");
}
