#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/comm/processes.h"

int main(int argc, char** argv) {
  if (std::getenv("THINWIRE_TEST_RANK")) return thinwire::comm::run_rank({argv + 1, argv + argc});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
