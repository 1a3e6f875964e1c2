#include "thinwire/comm/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "thinwire/base/errors.h"

namespace thinwire::comm {
namespace {

std::vector<Launcher> found_in(const std::map<std::string, std::string>& variables) {
  return find_launchers([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launcher, IsNotThereWithoutItsVariables) {
  EXPECT_TRUE(found_in({}).empty());
  EXPECT_TRUE(found_in({{"RANK", "3"}, {"WORLD_SIZE", ""}}).empty());
}

TEST(Launcher, OfOneProcessIsNone) {
  EXPECT_TRUE(found_in({{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"SLURM_NTASKS", "1"}, {"PMI_SIZE", "0"}}).empty());
}

TEST(Launcher, IsKnownByTheVariablesItLeaves) {
  const std::tuple<const char*, const char*, Launcher::Kind> all[] = {
      {"WORLD_SIZE", "RANK", Launcher::Kind::torchrun},
      {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", Launcher::Kind::mpi},
      {"PMI_SIZE", "PMI_RANK", Launcher::Kind::mpi},
      {"SLURM_NTASKS", "SLURM_PROCID", Launcher::Kind::mpi}};
  for (auto& [size, rank, kind] : all) {
    const auto found = found_in({{size, "4"}, {rank, "3"}});
    ASSERT_EQ(found.size(), 1u) << size;
    EXPECT_EQ(found[0].kind, kind);
    EXPECT_EQ(found[0].variable, size);
    EXPECT_EQ(found[0].size, 4);
    EXPECT_EQ(found[0].rank, 3);
  }
}

TEST(Launcher, NearestToThisProcessComesFirst) {
  const auto found = found_in({{"SLURM_NTASKS", "2"}, {"WORLD_SIZE", "8"}, {"RANK", "5"}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].variable, "WORLD_SIZE");
  EXPECT_EQ(found[1].variable, "SLURM_NTASKS");
}

TEST(Launcher, WithANumberThatIsNoneIsAnErrorThatShowsIt) {
  for (const char* wrong : {"four", "4x", "-2", "99999999999"}) try {
      found_in({{"WORLD_SIZE", wrong}});
      ADD_FAILURE() << wrong;
    } catch (const BadInput& error) {
      EXPECT_EQ(std::string(error.what()),
                std::string("WORLD_SIZE=") + wrong + " in the environment is not a number of processes");
    }
}

}  // namespace
}  // namespace thinwire::comm
