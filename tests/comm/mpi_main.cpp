// rank_by_mpi FOLDER TIMEOUT WORDS..., under mpirun: does what rank_cases.cpp knows by these words, and writes what it
// says to FOLDER/RANK. rank_by_mpi --threads SIZE FOLDER WORDS...: the same by threads.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "tests/comm/rank_main.h"
#include "thinwire/base/errors.h"
#include "thinwire/comm/mpi/mpi.h"

namespace {

void write(const std::filesystem::path& folder, int rank, const std::string& text) {
  std::ofstream(folder / std::to_string(rank)) << text << std::flush;
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace thinwire::comm;
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.at(0) == "--threads") {
    const auto texts = run_as_threads(std::stoi(words.at(1)), {words.begin() + 3, words.end()});
    for (int rank = 0; rank < std::ssize(texts); ++rank) write(words.at(2), rank, texts[rank]);
    return 0;
  }
  at::set_num_threads(1);
  World world{.group = TransportGroup::world(mpi_transport({.timeout_s = std::stod(words.at(1))})),
              .shares_disk = false};
  const Said said = run_rank_main(world, {words.begin() + 2, words.end()});
  write(words.at(0), world.rank(), said.text);
  world.close();
  return said.failed;
} catch (const std::exception& error) {
  fmt::print(stderr, "rank_by_mpi: {}\n", thinwire::one_line(error));
  return 1;
}
