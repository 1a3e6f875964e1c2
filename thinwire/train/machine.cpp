#include "thinwire/train/machine.h"

#include <torch/version.h>

#include <sstream>
#include <thread>

#include "thinwire/base/read_file.h"

namespace thinwire::train {

Machine this_machine() {
  Machine machine{.cores = static_cast<int>(std::thread::hardware_concurrency()), .cpu = {}, .torch = TORCH_VERSION};
  std::istringstream info(read_file_if_any("/proc/cpuinfo"));
  for (std::string line; machine.cpu.empty() && std::getline(info, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      machine.cpu = line.substr(line.find(": ") + 2);
  return machine;
}

}  // namespace thinwire::train
