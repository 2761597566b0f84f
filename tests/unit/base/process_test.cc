// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/process.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

std::vector<std::string> shell(const std::string& line) {
  return {"/bin/sh", "-c", line};
}

TEST(RunChild, ReturnsOutputAndStatus) {
  const auto good = run_child(shell("printf 'a b\\n'; echo unseen >&2"), {.keep_output = true, .alone = true});
  ASSERT_TRUE(good);
  EXPECT_EQ(good->status, 0);
  EXPECT_EQ(good->output, "a b\n");
  const auto bad = run_child(shell("exit 3"), {});
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->status, 3);
  const auto killed = run_child(shell("kill -TERM $$"), {.keep_output = true});
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->status, 128 + 15);
}

TEST(RunChild, ReadsMoreThanAPipeHolds) {
  const auto much = run_child(shell("head -c 300000 /dev/zero"), {.keep_output = true, .seconds = 600});
  ASSERT_TRUE(much);
  EXPECT_EQ(much->output.size(), 300000U);
}

TEST(RunChild, ReadsOnAfterPiecesOfOneByte) {
  const auto end = run_child(shell("printf a; sleep 0.05; printf b"), {.keep_output = true, .seconds = 600});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, "ab");
}

TEST(RunChild, KeepsUpTo16MiBOfOutput) {
  const auto most = run_child(shell("head -c 16777216 /dev/zero"), {.keep_output = true});
  ASSERT_TRUE(most);
  EXPECT_EQ(most->output.size(), size_t{1} << 24);
  EXPECT_FALSE(run_child(shell("head -c 16777217 /dev/zero"), {.keep_output = true}));
}

TEST(RunChild, ReturnsNothingForMissingOrHangingProgram) {
  EXPECT_FALSE(run_child({"/no/such/program"}, {.keep_output = true}));
  EXPECT_FALSE(run_child(shell("exec sleep 1000"), {.keep_output = true, .alone = true, .seconds = 1}));
  EXPECT_FALSE(run_child(shell("exec cat /dev/zero"), {.keep_output = true}));
}

TEST(RunChild, AloneHasNoStandardInput) {
  const auto end = run_child({"cat"}, {.keep_output = true, .alone = true});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->output, "");
}

TEST(ProgramFolder, HoldsThisTest) {
  EXPECT_TRUE(std::filesystem::exists(program_folder() / "base_test"));
}

TEST(ResidentBytes, CountsMemoryOfThisProcess) {
  EXPECT_GT(resident_bytes(), 100'000U);
}

}  // namespace
}  // namespace exeunt
