// SPDX-License-Identifier: Apache-2.0
// Every family in the engine, against the reference forward: texts longer than a block of attention, so that windows
// and distances reach over its edges; the same bits for any threads and company, and row 0 ahead of the others or not.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "exeunt/base/json.h"
#include "exeunt/engine/cpu/parallel_product.h"
#include "exeunt/engine/cpu/workspace.h"
#include "exeunt/engine/engine.h"
#include "exeunt/model/positions.h"
#include "exeunt/policy/policy_text.h"
#include "tests/reference/reference.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/engine/tables.h"

namespace exeunt {
namespace {

// Long enough for three blocks of attention, with a window that reaches from one into the next, and for more rows than
// a gate takes at a time.
ModelSpec long_spec(const FamilyRow& row) {
  ModelSpec spec = small_spec(row.spec.family);
  spec.layers = 4;
  spec.positions = (spec.gated ? kGatedRows + 44 : 200) + spec.position_offset;
  if (spec.window > 0) spec.window = 10;
  if (spec.relative_buckets > 0) {
    spec.relative_buckets = 64;
    spec.relative_distance = 200;
  }
  return spec;
}

std::vector<Encoding> texts_for(const ModelSpec& spec) {
  std::vector<Encoding> texts;
  uint32_t seed = 1;
  for (const int length : {1, 2, 11, 63, 64, 65, 128, 150, spec.max_tokens()})
    texts.push_back(random_text(spec, length, seed++));
  return texts;
}

float family_tolerance(Precision precision) {
  return precision == Precision::fp32 ? 3e-5F : precision == Precision::bf16 ? 0.15F : 0.25F;
}

class EngineOnFamily : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static const FamilyRow& row() { return families()[static_cast<size_t>(GetParam())]; }
};

TEST_P(EngineOnFamily, MatchesReferenceBeyondOneAttentionBlock) {
  const ModelSpec spec = long_spec(row());
  const Checkpoint model = make_model(spec, own_exits(spec));
  const Reference reference(model);
  const std::vector<Encoding> texts = texts_for(spec);
  std::vector<ReferenceTrace> wanted;
  for (const Encoding& text : texts) wanted.push_back(reference.trace(text));
  for (const Way& way : ways_here()) {
    Engine engine(model, {.precision = way.precision, .threads = 1, .kernels = way.kernels});
    float off = 0;
    for (size_t n = 0; n < texts.size(); ++n) {
      const std::vector<float> got = engine.full_pass(texts[n]).logits;
      ASSERT_EQ(got.size(), wanted[n].logits.size());
      for (size_t i = 0; i < got.size(); ++i) {
        const float difference = std::abs(got[i] - wanted[n].logits[i]);
        off = std::isnan(difference) ? INFINITY : std::max(off, difference);
      }
    }
    EXPECT_LE(off, family_tolerance(way.precision)) << way.name();
  }
}

TEST_P(EngineOnFamily, IsBitEqualForAnyThreadsPackAndClsFirst) {
  const ModelSpec spec = long_spec(row());
  const Checkpoint model = make_model(spec, own_exits(spec));
  const std::vector<Encoding> texts = texts_for(spec);
  const PolicySpec policy = parse_policy("entropy:0.9");
  for (const Way& way : ways_here()) {
    Engine alone(model, {.precision = way.precision,
                         .threads = 1,
                         .split = false,
                         .pack_rows = 1,
                         .cls_first = ClsFirst::never,
                         .kernels = way.kernels});
    Engine together(model, {.precision = way.precision,
                            .threads = 3,
                            .pack_rows = 400,
                            .cls_first = ClsFirst::always,
                            .kernels = way.kernels});
    const auto a = alone.answer(texts, {.policy = alone.bind(policy)});
    const auto b = together.answer(texts, {.policy = together.bind(policy)});
    for (size_t n = 0; n < texts.size(); ++n) {
      EXPECT_EQ(a[n].exit, b[n].exit) << way.name() << " text " << n;
      EXPECT_EQ(a[n].logits, b[n].logits) << way.name() << " text " << n;
    }
  }
}

// All memory that grows with a text is a thread's workspace, made for the longest one; the layers allocate nothing
// (engine_allocation_test.cc).
TEST_P(EngineOnFamily, MemoryIsLinearInLongestText) {
  std::vector<Checkpoint> models;
  for (const int tokens : {1024, 2048, 4096}) {
    ModelSpec spec = long_spec(row());
    spec.positions = tokens + spec.position_offset;
    models.push_back(make_model(spec, own_exits(spec)));
  }
  for (const Way& way : ways_here()) {
    const auto bytes_for = [&](const Checkpoint& model) {
      const PackedModel packed(model, *way.kernels, {.precision = way.precision, .threads = 1});
      return static_cast<int64_t>(Workspace(packed, 1).bytes());
    };
    const int64_t once = bytes_for(models[0]), twice = bytes_for(models[1]), four_times = bytes_for(models[2]);
    EXPECT_GT(twice, once) << way.name();
    // Parts are rounded up to whole lines and panels; a square of the length would be off by many times as much.
    EXPECT_NEAR(static_cast<double>(four_times - twice), 2.0 * static_cast<double>(twice - once), 1 << 15)
        << way.name();
  }
}

// What attach learns from is what exits read: a reader with the logits of the last exit must find them in these rows.
TEST_P(EngineOnFamily, RowsAreThoseExitsRead) {
  ModelSpec spec = long_spec(row());
  ExitLayout layout = own_exits(spec);
  for (ExitSite& site : layout.sites) site.pooler.reset();
  for (ExitSite& site : layout.sites) site.classifier = 0;
  const Checkpoint model = make_model(spec, layout);
  const std::vector<float> weight = to_floats(model.get("exits.classifier.0.weight")),
                           bias = to_floats(model.get("exits.classifier.0.bias"));
  Engine engine(model, {.precision = Precision::fp32, .threads = 1});
  const std::vector<Encoding> texts{random_text(spec, 70)};
  std::vector<float> logits;
  (void)engine.layer_rows(texts, spec.layers, [&](size_t, int, std::span<const float> rows) {
    for (size_t c = 0; c < bias.size(); ++c) {
      float sum = bias[c];
      for (size_t i = 0; i < static_cast<size_t>(spec.hidden); ++i)
        sum += weight[c * static_cast<size_t>(spec.hidden) + i] * rows[i];
      logits.push_back(sum);
    }
  });
  const std::vector<float> wanted = engine.full_pass(texts.front()).logits;
  ASSERT_EQ(logits.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(logits[i], wanted[i], 1e-5F) << i;
}

INSTANTIATE_TEST_SUITE_P(All, EngineOnFamily, ::testing::Range(0, static_cast<int>(families().size())),
                         [](const auto& family) {
                           std::string name(families()[static_cast<size_t>(family.param)].name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The slow definition: a window changes nothing but which keys are seen.
TEST(Windows, WindowOfTextLengthHidesNothing) {
  ModelSpec spec = long_spec(row_of(Family::modernbert));
  const Encoding text = random_text(spec, 40);
  spec.window = 39;
  const Checkpoint all = make_model(spec, own_exits(spec));
  spec.global_every = 1;
  spec.rotary_base = spec.local_rotary_base;
  const Checkpoint global = make_model(spec, own_exits(spec));
  ModelSpec narrow = spec;
  narrow.global_every = 2;
  narrow.window = 38;
  narrow.local_rotary_base = narrow.rotary_base;
  const Checkpoint less = make_model(narrow, own_exits(narrow));
  ModelSpec same_turn = spec;
  same_turn.global_every = 2;
  same_turn.window = 39;
  const auto wanted = Reference(global).trace(text).logits;
  EXPECT_EQ(Reference(make_model(same_turn, own_exits(same_turn))).trace(text).logits, wanted);
  EXPECT_NE(Reference(less).trace(text).logits, wanted);
  EXPECT_NE(Reference(all).trace(text).logits, wanted) << "the layers that see all turn by another base";
}

// As transformers computes them (scripts/golden/models.py).
TEST(Distances, BucketsMatchTransformers) {
  const Json sizes = read_json(EXEUNT_TEST_DATA "/golden/deberta_buckets.json");
  ASSERT_GE(sizes.size(), 4U);
  for (const Json& size : sizes) {
    const int buckets = size.at("buckets").get<int>(), farthest = size.at("distances").get<int>();
    for (int d = 0; d < farthest; ++d) {
      EXPECT_EQ(log_bucket(d, buckets, farthest), size.at("of").at(static_cast<size_t>(d)).get<int>())
          << d << " of " << farthest << " in " << buckets;
    }
  }
}

TEST(Distances, BucketsMatchDeberta) {
  EXPECT_EQ(log_bucket(0, 256, 512), 0);
  EXPECT_EQ(log_bucket(128, 256, 512), 128);
  EXPECT_EQ(log_bucket(129, 256, 512), 129);
  EXPECT_EQ(log_bucket(511, 256, 512), 255);
  ModelSpec spec = small_spec(Family::deberta_v2);
  const DistanceBuckets buckets(spec);  // 8 to either side, up to a distance of 24
  EXPECT_EQ(buckets.row(0), 8);
  EXPECT_EQ(buckets.row(3), 11);
  EXPECT_EQ(buckets.row(-3), 5);
  EXPECT_EQ(buckets.row(23), 15);
  EXPECT_EQ(buckets.row(-23), 1);
  for (int d = 1; d < 24; ++d) EXPECT_GE(buckets.row(d), buckets.row(d - 1));
}

}  // namespace
}  // namespace exeunt
