// thinwire doctor: what this build and this machine can do, what they cannot, and what to do about it.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <link.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "cli/show.h"
#include "cli/verbs.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"
#include "thinwire/base/version.h"
#include "thinwire/train/machine.h"
#include "thinwire/train/measure.h"
#include "thinwire/train/recipe.h"

namespace thinwire::cli {
namespace {

namespace fs = std::filesystem;

enum class Verdict { ok, note, problem };
constexpr const char* kVerdicts[] = {"ok", "note", "problem"};

struct Finding {
  std::string what, value;
  Verdict verdict = Verdict::ok;
  std::string advice = {};  // what it means or what to do, unless all is well
};

Finding compiler() {
#if defined(__clang__)
  const std::string name = "Clang " __clang_version__;
#else
  const std::string name = "GCC " __VERSION__;
#endif
#if defined(__OPTIMIZE__)
  return {"compiler", name + ", optimised"};
#else
  return {"compiler", name + ", not optimised", Verdict::note, "slow; build with -DCMAKE_BUILD_TYPE=Release"};
#endif
}

Finding libtorch() {
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        const std::string name = info->dlpi_name;
        if (name.find("libtorch_cpu") != std::string::npos) *static_cast<std::string*>(found) = name;
        return 0;
      },
      &path);
  return {"LibTorch", fmt::format("{} in {}", TORCH_VERSION, fs::path(path).parent_path().string())};
}

// CPU time that a container may use, in cores; 0: no limit.
double cpu_quota() {
  std::istringstream file(read_file_if_any("/sys/fs/cgroup/cpu.max"));
  double quota = 0, period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 0;
}

Finding cpu() {
  const auto machine = train::this_machine();
  const std::string name = machine.cpu.empty() ? "unknown CPU" : machine.cpu;
  const double quota = cpu_quota();
  Finding found{"CPU", fmt::format("{}, {} cores", name, machine.cores)};
  if (quota > 0 && quota < machine.cores) {
    found.verdict = Verdict::note;
    found.advice = fmt::format("a limit allows {:.1f} of them at a time; replicas beyond that take turns", quota);
  }
  return found;
}

Finding features() {
  std::string list;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) list += "avx2 ";
  if (__builtin_cpu_supports("avx512f")) list += "avx512f ";
#endif
  const std::string clone = train::kernel_clone();
  Finding found{"CPU features", fmt::format("{}(kernels: {})", list.empty() ? "no avx2 " : list, clone)};
  if (clone == "default" || clone == "plain") {
    found.verdict = Verdict::note;
    found.advice = clone == "plain" ? "this build has one version of the kernels; GCC on x86-64 makes faster ones"
                                    : "kernels run without wide vectors; results are the same";
  }
  return found;
}

Finding threads() {
  const char* set = std::getenv("OMP_NUM_THREADS");
  return {"threads", fmt::format("{} by default, OMP_NUM_THREADS {}; a rank of a run uses train.threads",
                                 at::get_num_threads(), set && *set ? set : "not set")};
}

Finding mpi(const Door& door) {
  if (door.kind == comm::Launcher::Kind::torchrun)
    return {"MPI", "not in the Python module", Verdict::note,
            "torchrun -m thinwire needs none; mpirun starts the program"};
  if (!door.about.empty()) return {"MPI", "built in: " + door.about};
  return {"MPI", "not built in", Verdict::note,
          "ranks are threads of one process, or processes of torchrun -m thinwire; mpirun needs a build with MPI"};
}

Finding cuda() {
  std::error_code ignored;
  const bool present = fs::exists("/proc/driver/nvidia/version", ignored);
  return {"CUDA", "not built in this version", Verdict::note,
          present ? "an NVIDIA driver is here, but training is on the CPU"
                  : "no NVIDIA driver here; training is on the CPU"};
}

Finding disk() {
  std::error_code error;
  const auto space = fs::space(".", error);
  if (error) return {"disk", error.message(), Verdict::problem, "work in a folder that can be read"};
  const double free = static_cast<double>(space.available);
  Finding found{"disk", fmt::format("{:.1f} GB free here", free / 1e9)};
  if (free < 100e6)
    found.verdict = Verdict::problem, found.advice = "too little for checkpoints; make room, or use --dir elsewhere";
  else if (free < 2e9)
    found.verdict = Verdict::note, found.advice = "a checkpoint takes up to 16 bytes a parameter and replica";
  return found;
}

Finding runs() {
  std::error_code ignored;
  const bool exists = fs::exists("runs", ignored);
  if (exists && !fs::is_directory("runs", ignored))
    return {"runs/", "is not a folder", Verdict::problem, "runs are kept there: move it away, or use --dir"};
  if (::access(exists ? "runs" : ".", W_OK | X_OK) != 0)
    return {"runs/", "cannot be written", Verdict::problem, "work in a folder of your own, or use --dir"};
  return {"runs/", exists ? "can be written" : "can be made here"};
}

Finding text() {
  try {
    return {"text", fmt::format("Python's sources in {}", train::make_recipe({}).data.path)};
  } catch (const BadInput& error) {
    return {"text", "no Python sources found", Verdict::problem,
            "recipes without data.path have nothing to read: install Python 3, or set data.path=FILE"};
  }
}

Finding clock() {
  const auto time = train::measure_time_keeping();
  Finding found{"clock", fmt::format("ticks of {:.0f} ns; a sleep of 1 ms ends {:.2f} ms late, at worst {:.2f} ms",
                                     1e9 * time.tick_s, 1e3 * time.late_s, 1e3 * time.worst_s)};
  if (time.late_s > 1e-3) {
    found.verdict = Verdict::note;
    found.advice = "emulated links are slower by that on every message: the machine is busy, or its timer is coarse";
  }
  return found;
}

std::string coloured(Verdict verdict) {
  constexpr const char* colours[] = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};
  const std::string word = fmt::format("{:<8}", kVerdicts[static_cast<int>(verdict)]);
  return wants_colour() ? colours[static_cast<int>(verdict)] + word + "\x1b[0m" : word;
}

void doctor_verb(bool json, const Door& door) {
  const auto version = [] { return Finding{"thinwire", thinwire::version()}; };
  const auto messages = [&] { return mpi(door); };
  int problems = 0;
  for (const std::function<Finding()>& look : std::initializer_list<std::function<Finding()>>{
           version, compiler, libtorch, cpu, features, threads, messages, cuda, disk, runs, text, clock}) {
    const Finding f = look();
    problems += f.verdict == Verdict::problem;
    if (json) {
      nlohmann::ordered_json line = {{"event", "check"},
                                     {"what", f.what},
                                     {"value", f.value},
                                     {"verdict", kVerdicts[static_cast<int>(f.verdict)]}};
      if (!f.advice.empty()) line["advice"] = f.advice;
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{}{:<14}{}\n", coloured(f.verdict), f.what, f.value);
      if (!f.advice.empty()) fmt::print("{:22}{}\n", "", f.advice);
    }
    std::fflush(stdout);
  }
  if (problems > 0) throw std::runtime_error(fmt::format("{} problem{} found", problems, problems == 1 ? "" : "s"));
}

}  // namespace

void add_doctor(CLI::App& app, const Door& door) {
  auto* verb = app.add_subcommand("doctor", "what works on this machine, what does not, and what to do about it");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "print one JSON object a line");
  verb->footer(
      "Each line is ok, a note (good to know, nothing is broken) or a problem, with what to do below it.\n"
      "The exit code is 1 if there is a problem. It looks at the folder it is called in: that is where\n"
      "runs are kept. Nothing is written.\n"
      "\n"
      "Examples:\n"
      "  thinwire doctor\n"
      "  thinwire doctor --json");
  verb->callback([=] { doctor_verb(*json, door); });
}

}  // namespace thinwire::cli
