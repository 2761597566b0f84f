// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/doctor.h"

#include <gtest/gtest.h>

#include "exeunt/engine/cpu/cpu_kernels.h"

namespace exeunt {
namespace {

TEST(SelfCheck, PassesInEveryPrecisionOfEveryTableThatRunsHere) {
  for (const Kernels* kernels : all_kernels()) {
    if (!kernels->runs_on(cpu_features()) || !kernels->prepare()) continue;
    const std::vector<SelfCheck> rows = check_engine(*kernels);
    EXPECT_EQ(rows.size(), kernels->bf16 ? 3U : 2U) << kernels->name;
    for (const SelfCheck& row : rows) {
      EXPECT_TRUE(row.good) << kernels->name << ' ' << name_of(row.precision) << ' ' << row.difference;
      EXPECT_GT(row.difference, 0) << "a comparison of something with itself";
    }
  }
}

TEST(SelfCheck, DetectsWrongKernels) {
  Kernels wrong = choose_kernels();
  wrong.tanh = [](float* values, int n) { std::fill(values, values + n, 0.25F); };
  for (const SelfCheck& row : check_engine(wrong)) EXPECT_FALSE(row.good) << name_of(row.precision);
}

}  // namespace
}  // namespace exeunt
