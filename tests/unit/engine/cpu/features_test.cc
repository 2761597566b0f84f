// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/engine/cpu/cpu_features.h"

namespace exeunt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CpuFeatures, NamesTheProcessor) {
  const CpuFeatures features = cpu_features();
  EXPECT_FALSE(features.name.empty());
  EXPECT_FALSE(features.architecture.empty());
  EXPECT_GE(features.threads, 1);
}

TEST(CpuFeatures, ListsNamesOfSetFlags) {
  EXPECT_THAT(flag_names({}), IsEmpty());
  CpuFeatures features;
  features.avx2 = features.amx_int8 = features.i8mm = true;
  EXPECT_THAT(flag_names(features), ElementsAre("avx2", "amx_int8", "i8mm"));
}

TEST(CpuFeatures, MatchesKernelReport) {
  // The first "flags" (x86) or "Features" (Arm) line of /proc/cpuinfo, word by word.
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> words;
  for (std::string line; words.empty() && std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream parts(line.substr(line.find(':') + 1));
    for (std::string word; parts >> word;) words.insert(word);
  }
  const CpuFeatures f = cpu_features();
  // Under emulation /proc/cpuinfo may describe the machine outside.
  const bool same = f.architecture == "x86-64" ? words.contains("sse2") : words.contains("asimd");
  if (!same) GTEST_SKIP() << "/proc/cpuinfo describes another processor";
  const auto has = [&](const char* word) { return words.contains(word); };
  EXPECT_EQ(f.avx2, has("avx2") && has("fma") && has("f16c"));
  EXPECT_EQ(f.avx512, has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl"));
  EXPECT_EQ(f.avx_vnni, has("avx_vnni"));
  EXPECT_EQ(f.avx512_vnni, has("avx512_vnni"));
  EXPECT_EQ(f.avx512_bf16, has("avx512_bf16"));
  EXPECT_EQ(f.amx_bf16, has("amx_bf16"));
  EXPECT_EQ(f.amx_int8, has("amx_int8"));
  EXPECT_EQ(f.neon, has("asimd"));
  EXPECT_EQ(f.dotprod, has("asimddp"));
  EXPECT_EQ(f.bf16, has("bf16"));
  EXPECT_EQ(f.i8mm, has("i8mm"));
  EXPECT_EQ(f.sve, has("sve"));
}

}  // namespace
}  // namespace exeunt
