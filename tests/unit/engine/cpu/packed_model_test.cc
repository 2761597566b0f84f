// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/packed_model.h"

#include <fstream>

#include <unistd.h>

#include "exeunt/base/half.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/engine/engine.h"
#include "tests/fixtures/float_to_fp16.h"
#include "tests/fixtures/peak_memory.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/engine/tables.h"

namespace exeunt {
namespace {

using ::testing::HasSubstr;

PackedModel pack(const Checkpoint& checkpoint, const PackOptions& options = {}) {
  return {checkpoint, kernels_named("generic"), options};
}

TEST(PackedModel, KeepsSpecAndAlignsWeights) {
  const ModelSpec spec = small_spec();
  const PackedModel model = pack(make_model(spec, own_exits(spec)));
  EXPECT_EQ(model.layers.size(), 3U);
  EXPECT_EQ(model.layers[1].key_value.outputs, 24);
  EXPECT_EQ(model.layers[1].ffn2.inputs, 20);
  EXPECT_EQ(model.poolers.size(), 3U);
  EXPECT_FALSE(model.project.has_value());
  const void* parts[] = {model.word.data, model.layers[2].query.data, model.classifiers[0].outer.weight};
  for (const void* part : parts) EXPECT_EQ(reinterpret_cast<uintptr_t>(part) % kKernelAlignment, 0U);
  EXPECT_GT(model.bytes(), 3U * (4 * 12 * 12 + 2 * 12 * 20) * sizeof(float));
}

TEST(PackedModel, PacksSharedLayersOnce) {
  const ModelSpec spec = small_spec(Family::albert);
  const PackedModel model = pack(make_model(spec, own_exits(spec)));
  EXPECT_EQ(model.layers.size(), 1U);
  EXPECT_EQ(&model.layer(0), &model.layer(2));
  EXPECT_TRUE(model.project.has_value());
}

TEST(PackedModel, KeepsAttentionAndHeadsInTheHigherPrecision) {
  const ModelSpec spec = small_spec();
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  for (const Way& way : ways_here()) {
    const PackedModel model(checkpoint, *way.kernels, {.precision = way.precision});
    const bool half = way.precision != Precision::fp32 && way.kernels->bf16;
    EXPECT_EQ(model.attention, half ? Precision::bf16 : Precision::fp32) << way.name();
    EXPECT_EQ(model.poolers[0].map.precision, model.attention);
    EXPECT_EQ(model.layers[0].ffn1.precision, way.precision);
  }
}

// A table of half numbers is kept as it is: half the memory, the same sums.
TEST(PackedModel, GathersEmbeddingRowsInCheckpointType) {
  const std::vector<float> values = {1.5F, -2.25F, 0.5F, 4, 8, -0.125F};
  std::vector<uint16_t> halves, brains;
  for (const float value : values) {
    halves.push_back(float_to_fp16(value));
    brains.push_back(float_to_bf16(value));
  }
  const auto sum = [&](DType type, const void* data) {
    std::vector<float> out = {1, 1, 1};
    PackedTable{type, static_cast<const std::byte*>(data)}.add_row(1, 3, out.data());
    return out;
  };
  const std::vector<float> want = {5, 9, 0.875F};
  EXPECT_EQ(sum(DType::f32, values.data()), want);
  EXPECT_EQ(sum(DType::f16, halves.data()), want);
  EXPECT_EQ(sum(DType::bf16, brains.data()), want);
}

// The same model with every tensor in `type`.
Checkpoint in_type(const Checkpoint& model, DType type) {
  TensorSet set;
  for (const auto& [name, view] : model.tensors().tensors) {
    const std::vector<float> values = to_floats(view);
    auto bits = std::make_shared<std::vector<uint16_t>>();
    for (const float value : values) bits->push_back(type == DType::bf16 ? float_to_bf16(value) : float_to_fp16(value));
    set.tensors[name] = {.dtype = type, .shape = view.shape, .strides = {}, .bytes = std::as_bytes(std::span(*bits))};
    set.owners.push_back(bits);
  }
  return {model.spec(), model.exits(), std::move(set)};
}

size_t resident_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(PackedModel, ReleasesPagesOfMappedFile) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep memory of their own";
#endif
  ModelSpec spec = small_spec();
  spec.hidden = spec.embedding = 384;
  spec.heads = 6;
  spec.inner = 1536;
  const Scratch scratch(quick_parent());
  {
    const Checkpoint made = make_model(spec, own_exits(spec));
    std::vector<NamedTensor> tensors;
    for (const auto& [name, view] : made.tensors().tensors) tensors.push_back({name, view});
    write_safetensors(scratch.path() / "m.safetensors", tensors, {});
  }
  const Checkpoint checkpoint(spec, own_exits(spec), read_safetensors(scratch.path() / "m.safetensors"));
  const size_t file = std::filesystem::file_size(scratch.path() / "m.safetensors");
  ASSERT_GT(file, size_t{20} << 20);
  const size_t before = resident_bytes();
  const PackedModel model = pack(checkpoint, {.threads = 2});
  // Buffers that the allocator keeps come on top of the weights; the file would be another 20 MiB and more.
  EXPECT_LT(resident_bytes(), before + model.bytes() + (size_t{14} << 20));
  EXPECT_EQ(to_floats(checkpoint.get("layer.0.ffn1.bias")).size(), 1536U);  // it can be read again
}

// config.json may tell of positions that no tensor has.
TEST(PackedModel, TakesMemoryForPositionsInUse) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep memory of their own";
#endif
  ModelSpec spec = small_spec(Family::modernbert);
  spec.hidden = spec.embedding = 256;
  spec.heads = 1;
  spec.positions = 131072;
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  const long grown = peak_growth([&] {
    Engine engine(checkpoint, {.precision = Precision::fp32, .threads = 1});
    (void)engine.answer(std::vector{Encoding{.ids = std::vector<int32_t>(128, 5), .types = std::vector<uint8_t>(128)}});
  });
  EXPECT_GE(grown, 0);
  EXPECT_LE(grown, long{64} << 10);  // all positions would take 512 MiB
}

TEST(PackedModel, ReadsHalfTypesAndRejectsNonFiniteWeights) {
  const ModelSpec spec = small_spec();
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  const size_t whole = pack(checkpoint).bytes();
  for (const DType type : {DType::f16, DType::bf16}) {
    const PackedModel half = pack(in_type(checkpoint, type));
    EXPECT_EQ(half.word.dtype, type);
    EXPECT_LT(half.bytes(), whole);
    std::vector<float> word(static_cast<size_t>(spec.vocab * spec.hidden), 0.5F);
    word[40] = INFINITY;
    const Checkpoint broken = in_type(make_model(spec, own_exits(spec), {{"embeddings.word.weight", word}}), type);
    EXPECT_THAT(error_of([&] { (void)pack(broken); }).what(),
                HasSubstr("'embeddings.word.weight': element 40: got inf"));
  }
}

}  // namespace
}  // namespace exeunt
