// SPDX-License-Identifier: Apache-2.0
// Which table is chosen, and what is said of those that cannot be.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/engine/cpu/cpu_kernels.h"

namespace exeunt {
namespace {

using ::testing::HasSubstr;

// EXEUNT_ISA for the length of a test.
class IsaVariable {
 public:
  explicit IsaVariable(const char* value) { setenv("EXEUNT_ISA", value, 1); }
  IsaVariable(const IsaVariable&) = delete;
  IsaVariable& operator=(const IsaVariable&) = delete;
  ~IsaVariable() { unsetenv("EXEUNT_ISA"); }
};

TEST(ChooseKernels, ChoosesBestSupportedTable) {
  const Kernels& chosen = choose_kernels();
  EXPECT_TRUE(chosen.runs_on(cpu_features()));
  bool better = false;  // tables behind the chosen one are better
  for (const Kernels* table : all_kernels()) {
    EXPECT_FALSE(better && table->runs_on(cpu_features()) && table->prepare()) << table->name;
    better = better || table == &chosen;
  }
  EXPECT_TRUE(better);
}

TEST(ChooseKernels, HonoursEnvironmentVariable) {
  const IsaVariable variable("generic");
  EXPECT_EQ(choose_kernels().name, "generic");
}

TEST(ChooseKernels, IgnoresEmptyEnvironmentVariable) {
  const Kernels& chosen = choose_kernels();
  const IsaVariable variable("");
  EXPECT_EQ(&choose_kernels(), &chosen);
}

TEST(ChooseKernels, SuggestsNearestName) {
  const IsaVariable variable("generc");
  try {
    (void)choose_kernels();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::usage);
    EXPECT_THAT(error.what(), HasSubstr("EXEUNT_ISA: got 'generc'"));
    EXPECT_THAT(error.hint(), HasSubstr("'generic'"));
  }
}

TEST(ChooseKernels, RejectsUnsupportedTable) {
  bool refused = false;
  for (const Kernels* table : all_kernels()) {
    if (table->runs_on(cpu_features()) && table->prepare()) continue;
    refused = true;
    try {
      (void)kernels_named(table->name);
      ADD_FAILURE() << table->name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::resources);
      EXPECT_THAT(error.what(), HasSubstr(std::string(table->name)));
    }
  }
  if (!refused) GTEST_SKIP() << "this processor runs every table of this build";
}

TEST(ChooseKernels, OnlyGenericRunsOnUnknownProcessor) {
  for (const Kernels* table : all_kernels()) {
    EXPECT_EQ(table->runs_on(CpuFeatures{}), table->name == "generic") << table->name;
  }
}

}  // namespace
}  // namespace exeunt
