// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/device.h"

#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/engine.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using ::testing::HasSubstr;

TEST(Device, ParsesAndPrintsText) {
  EXPECT_EQ(parse_device("cpu"), Device{});
  EXPECT_EQ(parse_device("cuda"), (Device{.kind = Device::Kind::cuda, .index = 0}));
  EXPECT_EQ(parse_device("cuda:3"), (Device{.kind = Device::Kind::cuda, .index = 3}));
  EXPECT_EQ(parse_device("auto").kind, Device::Kind::automatic);
  for (const char* text : {"cpu", "cuda:0", "cuda:12", "auto"}) EXPECT_EQ(str(parse_device(text)), text);
  for (const char* text : {"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "cpu:0"}) {
    const Error error = error_of([&] { (void)parse_device(text); });
    EXPECT_EQ(error.code(), Code::usage) << text;
    EXPECT_THAT(error.what(), HasSubstr("want cpu, cuda, cuda:N or auto"));
  }
}

TEST(Device, CpuTraitsComeFromKernels) {
  EXPECT_EQ(find_device({}), Device{});
  const EngineTraits chosen = engine_traits(Device{});
  EXPECT_EQ(chosen.name, engine_name(choose_kernels()));
  EXPECT_EQ(chosen.numerics, kNumerics);
  const Kernels& plain = kernels_named("generic");
  EXPECT_EQ(engine_traits(Device{}, &plain).name, "cpu/generic");
  EXPECT_EQ(engine_traits(Device{}, &plain).bf16, plain.bf16);
  EXPECT_TRUE(supports({.bf16 = false, .int8 = true}, Precision::int8));
  EXPECT_FALSE(supports({.bf16 = false, .int8 = true}, Precision::bf16));
  EXPECT_FALSE(supports({.bf16 = true, .int8 = false}, Precision::int8));
  EXPECT_TRUE(supports({}, Precision::fp32));
}

}  // namespace
}  // namespace exeunt
