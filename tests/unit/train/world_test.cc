// SPDX-License-Identifier: Apache-2.0
// How a process learns from its environment that it is one of several. Connecting to the others is launch_test.py's.
#include "exeunt/train/world.h"

#include <cstdlib>
#include <initializer_list>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "tests/fixtures/scratch.h"

namespace exeunt::nn {
namespace {

// Variables that are set for one test.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, const char*>> variables) : variables_(variables) {
    for (const auto& [name, value] : variables_) setenv(name, value, 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name);
  }

 private:
  std::vector<std::pair<const char*, const char*>> variables_;
};

TEST(World, IsThisProcessAloneWithoutVariables) {
  EXPECT_EQ(World::join(false).size(), 1);
  EXPECT_EQ(World::local_rank(), 0);
  const Environment one({{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}});
  EXPECT_EQ(World::join(false).size(), 1);
}

TEST(World, ReadsLocalRankFromTorchrunOrSlurm) {
  {
    const Environment slurm({{"SLURM_LOCALID", "3"}});
    EXPECT_EQ(World::local_rank(), 3);
  }
  const Environment both({{"SLURM_LOCALID", "3"}, {"LOCAL_RANK", "1"}});
  EXPECT_EQ(World::local_rank(), 1);
}

TEST(World, NamesTheVariableThatIsWrong) {
  {
    const Environment beyond({{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "2"}, {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"}});
    EXPECT_STREQ(error_of([] { (void)World::join(false); }).what(), "RANK: got '2', want a whole number from 0 to 1");
  }
  {
    const Environment nowhere({{"WORLD_SIZE", "2"}, {"RANK", "0"}});
    EXPECT_STREQ(error_of([] { (void)World::join(false); }).what(), "MASTER_ADDR is not set");
  }
  const Environment word({{"WORLD_SIZE", "two"}});
  const Error error = error_of([] { (void)World::join(false); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_STREQ(error.what(), "WORLD_SIZE: got 'two', want a whole number from 2 to 65536");
}

}  // namespace
}  // namespace exeunt::nn
