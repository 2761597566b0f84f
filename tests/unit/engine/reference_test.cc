// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/reference.h"

#include <algorithm>
#include <thread>

#include "exeunt/base/half.h"
#include "tests/fixtures/near.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using ::testing::SizeIs;

TEST(Reference, ReturnsRowsOfEveryLayerAndOutputsOfEveryExit) {
  const ModelSpec spec = small_spec();
  const Reference reference(make_model(spec, own_exits(spec)));
  const ReferenceOutput out = reference.run(random_text(spec, 5));
  EXPECT_EQ(out.tokens, 5);
  ASSERT_THAT(out.rows, SizeIs(4));
  for (const auto& rows : out.rows) EXPECT_THAT(rows, SizeIs(5 * 12));
  ASSERT_THAT(out.exits, SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    const ReferenceExit& exit = out.exits[static_cast<size_t>(i)];
    EXPECT_EQ(exit.after, i + 1);
    EXPECT_EQ(exit.input, std::vector<float>(out.row(i + 1, 0).begin(), out.row(i + 1, 0).end()));
    EXPECT_THAT(exit.pooled, SizeIs(12));
    EXPECT_THAT(exit.logits, SizeIs(3));
    EXPECT_FALSE(exit.lte.has_value());
  }
  EXPECT_FALSE(out.ramp.has_value());
}

TEST(Reference, RobertaPositionsStartBehindThePaddingId) {
  // Words and segments are zero, so the embeddings are the normed rows of the position table alone.
  const ModelSpec spec = small_spec(Family::roberta);
  std::vector<float> position(static_cast<size_t>(spec.positions * spec.hidden));
  for (size_t i = 0; i < position.size(); ++i) {
    const size_t row = i / 12;
    position[i] = static_cast<float>(i % 7 * (row + 1));
  }
  const auto table = [&](int rows) { return std::vector<float>(static_cast<size_t>(rows * spec.hidden), 0.0F); };
  const Reference reference(make_model(spec, own_exits(spec),
                                       {{"embeddings.word.weight", table(spec.vocab)},
                                        {"embeddings.segment.weight", table(1)},
                                        {"embeddings.position.weight", position},
                                        {"embeddings.norm.weight", std::vector<float>(12, 1)},
                                        {"embeddings.norm.bias", std::vector<float>(12, 0)}}));
  const ReferenceOutput out = reference.run(random_text(spec, 3));
  for (int t = 0; t < 3; ++t) {
    const float* want = position.data() + (t + 2) * 12;
    double mean = 0, variance = 0;
    for (int c = 0; c < 12; ++c) mean += want[c] / 12.0;
    for (int c = 0; c < 12; ++c) variance += (want[c] - mean) * (want[c] - mean) / 12.0;
    for (int c = 0; c < 12; ++c) {
      EXPECT_NEAR(out.row(0, t)[static_cast<size_t>(c)], (want[c] - mean) / std::sqrt(variance), 1e-5);
    }
  }
}

// ALBERT with a projection that changes nothing is BERT whose layers hold the same weights.
TEST(Reference, AlbertSharesOneLayerAmongAll) {
  ModelSpec albert = small_spec(Family::albert), bert = small_spec();
  albert.embedding = albert.hidden;
  bert.activation = albert.activation;
  std::vector<float> identity(144, 0.0F);
  for (size_t i = 0; i < 12; ++i) identity[i * 13] = 1;
  const Checkpoint shared =
      make_model(albert, own_exits(albert),
                 {{"embeddings.project.weight", identity}, {"embeddings.project.bias", std::vector<float>(12, 0)}});
  Values copies;
  for (const auto& [name, tensor] : shared.tensors().tensors) {
    if (!name.starts_with("group.0.")) copies[name] = to_floats(tensor);
    for (int i = 0; i < 3 && name.starts_with("group.0."); ++i) {
      copies["layer." + std::to_string(i) + name.substr(7)] = to_floats(tensor);
    }
  }
  const Encoding text = random_text(bert, 6);
  const ReferenceOutput a = Reference(shared).run(text);
  const ReferenceOutput b = Reference(make_model(bert, own_exits(bert), copies)).run(text);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.exits[2].logits, b.exits[2].logits);
}

TEST(Reference, AlbertGroupsSplitLayersEvenly) {
  ModelSpec spec = small_spec(Family::albert);
  spec.layers = 4;
  spec.groups = 2;
  const ExitLayout layout = own_exits(spec);
  const Checkpoint model = make_model(spec, layout);
  // Changing the second group leaves the first two layers as they were, and changes the other two.
  const Checkpoint other = make_model(spec, layout, [&] {
    Values values;
    for (const auto& [name, tensor] : model.tensors().tensors) {
      values[name] = to_floats(tensor);
      if (name == "group.1.value.bias") values[name][0] += 1;
    }
    return values;
  }());
  const Encoding text = random_text(spec, 4);
  const ReferenceOutput a = Reference(model).run(text), b = Reference(other).run(text);
  for (size_t layer = 0; layer <= 4; ++layer) EXPECT_EQ(a.rows[layer] == b.rows[layer], layer <= 2) << layer;
}

TEST(Reference, ReaderSitesReadRowZeroAndTheWeightedRows) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec);
  layout.width = 5;
  layout.sites[0].reader = 0;
  layout.sites[1].reader = 1;
  std::vector<float> zero(12, 0.0F);
  const Reference reference(make_model(spec, layout, {{"exits.reader.0.weight", zero}}));
  const ReferenceOutput out = reference.run(random_text(spec, 4));
  std::vector<float> want(out.row(1, 0).begin(), out.row(1, 0).end());
  for (size_t c = 0; c < 12; ++c) {
    float sum = 0;
    for (int t = 0; t < 4; ++t) sum += out.row(1, t)[c] / 4;
    want.push_back(sum);
  }
  EXPECT_THAT(out.exits[0].input, Pointwise(FloatNear(1e-6F), want));
  EXPECT_THAT(out.exits[1].input, SizeIs(24));
  EXPECT_THAT(out.exits[2].input, SizeIs(12));  // no reader: the plain pool input
  EXPECT_THAT(out.exits[0].pooled, SizeIs(5));
}

TEST(Reference, SharedHeadMatchesSeparateHeads) {
  const ModelSpec spec = small_spec();
  const ExitLayout own = own_exits(spec);
  ExitLayout shared = own;
  for (ExitSite& site : shared.sites) site.pooler = site.classifier = 0;
  const Checkpoint model = make_model(spec, shared);
  Values values;
  for (const auto& [name, tensor] : model.tensors().tensors) {
    values[name] = to_floats(tensor);
    for (const std::string kind : {"exits.pooler.", "exits.classifier."}) {
      if (!name.starts_with(kind)) continue;
      for (int i = 1; i < 3; ++i) values[kind + std::to_string(i) + name.substr(kind.size() + 1)] = to_floats(tensor);
    }
  }
  const Encoding text = random_text(spec, 7);
  const ReferenceOutput a = Reference(model).run(text), b = Reference(make_model(spec, own, values)).run(text);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(a.exits[i].logits, b.exits[i].logits);
  EXPECT_NE(a.exits[0].logits, a.exits[2].logits);
}

TEST(Reference, ClassifierReadsRowWithoutPooler) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec);
  for (ExitSite& site : layout.sites) site.pooler.reset();
  const ReferenceOutput out = Reference(make_model(spec, layout)).run(random_text(spec, 3));
  for (const ReferenceExit& exit : out.exits) EXPECT_EQ(exit.pooled, exit.input);
}

TEST(Reference, InnerClassifierSeesTanh) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec, 2);
  layout.inner = 1;
  // The first map gives ln 3 / 2 whatever it reads, tanh of which is ½; the second doubles it and adds (1, −1).
  const ReferenceOutput out = Reference(make_model(spec, layout,
                                                   {{"exits.classifier.0.weight", std::vector<float>(12, 0.0F)},
                                                    {"exits.classifier.0.bias", {std::log(3.0F) / 2}},
                                                    {"exits.classifier.0.inner.weight", {2, 2}},
                                                    {"exits.classifier.0.inner.bias", {1, -1}}}))
                                  .run(random_text(spec, 3));
  EXPECT_THAT(out.exits[0].logits, near({2, 0}));
}

TEST(Reference, LearningToExitIsASigmoidOverThePooledVector) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec);
  layout.lte = true;
  const Reference reference(make_model(
      spec, layout, {{"exits.lte.weight", std::vector<float>(12, 0.0F)}, {"exits.lte.bias", {std::log(3.0F)}}}));
  for (const ReferenceExit& exit : reference.run(random_text(spec, 3)).exits) {
    ASSERT_TRUE(exit.lte.has_value());
    EXPECT_NEAR(*exit.lte, 0.75, 1e-6);
  }
}

TEST(Reference, LastRampIsSeparateFromFinalHead) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec);
  layout.last_ramp = {.pooler = 3, .classifier = 3};
  const Checkpoint model = make_model(spec, layout);
  const ReferenceOutput out = Reference(model).run(random_text(spec, 3));
  ASSERT_TRUE(out.ramp.has_value());
  EXPECT_EQ(out.ramp->after, 3);
  EXPECT_EQ(out.ramp->input, out.exits[2].input);
  EXPECT_NE(out.ramp->logits, out.exits[2].logits);
}

TEST(Reference, TraceHoldsRawLogitsOfAllExits) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec);
  layout.lte = true;
  layout.last_ramp = {.pooler = 3, .classifier = 3};
  const Reference reference(make_model(spec, layout));
  const Encoding text = random_text(spec, 6);
  const ReferenceOutput out = reference.run(text);
  const ReferenceTrace trace = reference.trace(text);
  std::vector<float> logits, lte;
  for (const ReferenceExit& exit : out.exits) {
    logits.insert(logits.end(), exit.logits.begin(), exit.logits.end());
    lte.push_back(*exit.lte);
  }
  EXPECT_EQ(trace.logits, logits);
  EXPECT_EQ(trace.lte, lte);
  EXPECT_EQ(trace.ramp, out.ramp->logits);
}

TEST(Reference, BackboneWithoutHeadsReturnsRowsOnly) {
  const ModelSpec spec = small_spec(Family::elasticbert);
  const Reference reference(make_model(spec, {}));
  const ReferenceOutput out = reference.run(random_text(spec, 3));
  EXPECT_THAT(out.rows, SizeIs(4));
  EXPECT_THAT(out.exits, IsEmpty());
  EXPECT_THAT(reference.trace(random_text(spec, 3)).logits, IsEmpty());
}

TEST(Reference, StopsAfterMaxLayers) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec);
  layout.last_ramp = {.pooler = 3, .classifier = 3};
  const Reference reference(make_model(spec, layout));
  const Encoding text = random_text(spec, 4);
  const ReferenceOutput all = reference.run(text), two = reference.run(text, {.max_layers = 2});
  ASSERT_THAT(two.rows, SizeIs(3));
  EXPECT_EQ(two.rows[2], all.rows[2]);
  ASSERT_THAT(two.exits, SizeIs(2));
  EXPECT_EQ(two.exits[1].logits, all.exits[1].logits);
  EXPECT_FALSE(two.ramp.has_value());
  EXPECT_THAT(reference.run(text, {.keep_rows = false}).rows, IsEmpty());
  EXPECT_EQ(reference.run(text, {.keep_rows = false}).exits[2].logits, all.exits[2].logits);
}

// Without positions the encoder does not know an order: exchanging two words exchanges their rows and no more.
TEST(Reference, RowsPermuteWithWordsForEqualPositions) {
  for (const Family family : {Family::bert, Family::roberta, Family::albert}) {
    const ModelSpec spec = small_spec(family);
    const size_t size = static_cast<size_t>(spec.positions) * static_cast<size_t>(spec.embedding);
    const Reference reference(
        make_model(spec, own_exits(spec), {{"embeddings.position.weight", std::vector<float>(size, 0.0F)}}));
    Encoding text = random_text(spec, 6), swapped;
    std::fill(text.types.begin(), text.types.end(), uint8_t{0});
    swapped = text;
    text.ids[1] = swapped.ids[4] = 3;
    text.ids[4] = swapped.ids[1] = 9;
    const ReferenceOutput a = reference.run(text), b = reference.run(swapped);
    for (int layer = 0; layer <= spec.layers; ++layer) {
      for (int t = 0; t < 6; ++t) {
        const int other = t == 1 ? 4 : t == 4 ? 1 : t;
        EXPECT_THAT(a.row(layer, t), Pointwise(FloatNear(1e-5F), b.row(layer, other))) << layer << " " << t;
      }
    }
    for (size_t i = 0; i < a.exits.size(); ++i) {
      EXPECT_THAT(a.exits[i].logits, Pointwise(FloatNear(1e-5F), b.exits[i].logits));
    }
  }
}

TEST(Reference, AnswersAreBitEqualFromManyThreads) {
  const ModelSpec spec = small_spec();
  const Reference reference(make_model(spec, own_exits(spec)));
  std::vector<std::vector<float>> alone, together(8);
  for (int i = 0; i < 8; ++i) alone.push_back(reference.trace(random_text(spec, i + 1, 7)).logits);
  {
    std::vector<std::jthread> threads;
    for (int i = 7; i >= 0; --i) {
      threads.emplace_back(
          [&, i] { together[static_cast<size_t>(i)] = reference.trace(random_text(spec, i + 1, 7)).logits; });
    }
  }
  EXPECT_EQ(alone, together);
}

TEST(Reference, HalfWeightsAreConvertedExactly) {
  const ModelSpec spec = small_spec();
  const Checkpoint model = make_model(spec, own_exits(spec));
  TensorSet set;
  Values rounded;
  for (const auto& [name, tensor] : model.tensors().tensors) {
    auto bits = std::make_shared<std::vector<uint16_t>>();
    for (const float value : to_floats(tensor)) {
      bits->push_back(float_to_bf16(value));
      rounded[name].push_back(bf16_to_float(bits->back()));
    }
    set.tensors[name] = {
        .dtype = DType::bf16, .shape = tensor.shape, .strides = {}, .bytes = std::as_bytes(std::span(*bits))};
    set.owners.push_back(bits);
  }
  const Encoding text = random_text(spec, 5);
  const Reference half(Checkpoint(spec, own_exits(spec), std::move(set)));
  const Reference full(make_model(spec, own_exits(spec), rounded));
  EXPECT_EQ(half.run(text).rows, full.run(text).rows);
}

TEST(Reference, RejectsInvalidTexts) {
  const ModelSpec spec = small_spec(Family::roberta);
  const Reference reference(make_model(spec, own_exits(spec)));
  const auto run = [&](std::vector<int32_t> ids, std::vector<uint8_t> types) {
    return error_of([&] { (void)reference.run(ids, types); });
  };
  EXPECT_THAT(run({}, {}).what(), HasSubstr("no tokens"));
  const Error longer =
      run(std::vector<int32_t>(23, 5), std::vector<uint8_t>(23, 0));  // 24 positions, the first two unused
  EXPECT_THAT(longer.what(), HasSubstr("got 23 tokens, the model takes at most 22"));
  EXPECT_EQ(longer.code(), Code::bad_file);
  EXPECT_FALSE(longer.hint().empty());
  EXPECT_THAT(run({0, 30}, {0, 0}).what(), HasSubstr("token 2: got id 30, want 0 to 29"));
  EXPECT_THAT(run({-1}, {0}).what(), HasSubstr("token 1: got id -1"));
  EXPECT_THAT(run({4}, {1}).what(), HasSubstr("token 1: got type 1, want 0 to 0"));
  EXPECT_EQ(reference.run(random_text(spec, 22)).tokens, 22);
}

}  // namespace
}  // namespace exeunt
