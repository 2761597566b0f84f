// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/engine_choice.h"

#include "exeunt/exits/policy_file.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/runtime/cpu/kernels.h"
#include "exeunt/runtime/precision_map.h"
#include "tests/scratch.h"

namespace exeunt {
namespace {

Checkpoint copied_model(const Scratch& scratch) {
  std::filesystem::copy(EXEUNT_TEST_DATA "/checkpoints/bert-deebert", scratch.path() / "m",
                        std::filesystem::copy_options::recursive);
  return Checkpoint::open((scratch.path() / "m").string());
}

void write_policy(const Checkpoint& model, const std::string& precision, const std::string& weights) {
  PolicyFile file{.weights = weights, .default_precision = precision, .entries = {}};
  file.put({.precision = precision,
            .exits = {1, 2, 3},
            .decision_temperature = {1, 1, 1},
            .score_temperature = {1, 1, 1},
            .policy = parse_policy("entropy:0.2")});
  PolicyLock(model.folder() / "policy.json").write(file);
}

TEST(EngineChoice, IsBf16WhereTheKernelsHaveItWithoutAPolicy) {
  const Scratch scratch;
  const Checkpoint model = copied_model(scratch);
  EXPECT_EQ(default_precision(model), choose_kernels().bf16 ? Precision::bf16 : Precision::fp32);
}

TEST(EngineChoice, FollowsThePolicyOfTheModelIfItIsForTheseWeights) {
  const Scratch scratch;
  const Checkpoint model = copied_model(scratch);
  write_policy(model, "int8", weights_sha256(model));
  EXPECT_EQ(default_precision(model), Precision::int8);
  EXPECT_EQ(engine_options(model).precision, Precision::int8);
  EXPECT_EQ(engine_options(model, Precision::fp32, 3).precision, Precision::fp32);
  EXPECT_EQ(engine_options(model, Precision::fp32, 3).threads, 3);
  write_policy(model, "int8", std::string(64, '0'));
  EXPECT_NE(default_precision(model), Precision::int8);
}

TEST(EngineChoice, TakesNoBf16WhereTheKernelsLackIt) {
  Kernels without = choose_kernels(), with = without;
  without.bf16 = false;
  with.bf16 = true;
  PolicyFile file{.weights = {}, .default_precision = "bf16", .entries = {}};
  EXPECT_EQ(default_precision(&file, without), Precision::fp32);
  EXPECT_EQ(default_precision(&file, with), Precision::bf16);
  EXPECT_EQ(default_precision(nullptr, with), Precision::bf16);
  file.default_precision = "external";
  EXPECT_EQ(default_precision(&file, without), Precision::fp32);
  file.default_precision = "fp32";
  EXPECT_EQ(default_precision(&file, with), Precision::fp32);
}

TEST(EngineChoice, TakesTheExceptionsOfThePrecisionItRunsIn) {
  const Scratch scratch;
  const Checkpoint model = copied_model(scratch);
  EXPECT_FALSE(precision_map_of(model, "int8").has_value());
  PrecisionMap map;
  map.by_precision[Precision::int8] = {{"layer.1.ffn2", Precision::fp32}};
  scratch.write("m/precision.json", precision_map_text(map));
  EXPECT_EQ(engine_options(model, Precision::int8).exceptions, map.exceptions(Precision::int8));
  EXPECT_TRUE(engine_options(model, Precision::fp32).exceptions.empty());
  EXPECT_EQ(precision_map_of(model, "int8"), precision_map_sha256(map.exceptions(Precision::int8)));
  EXPECT_FALSE(precision_map_of(model, "external").has_value());
}

}  // namespace
}  // namespace exeunt
