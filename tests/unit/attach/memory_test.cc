// SPDX-License-Identifier: Apache-2.0
// The memory of learning exits: what it may take for rows and trainers, and little more, however many texts there are.
#include <gtest/gtest.h>

#include "exeunt/attach/attach.h"
#include "exeunt/base/error.h"
#include "tests/fixtures/peak_memory.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSlack = 20 * kMiB;  // the engine, its threads, and texts that are copied

class AttachMemory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  }

  // Bytes by which a process grows while it learns exits from so many texts.
  [[nodiscard]] size_t growth(size_t texts, size_t memory) const {
    std::vector<Encoding> all;
    for (size_t i = 0; i < texts; ++i) all.push_back(random_text(spec_, kTokens, static_cast<uint32_t>(i)));
    const size_t learned = texts * 9 / 10;
    const long grown = peak_growth([&] {
      Engine engine(model_, {.precision = Precision::fp32, .threads = 1});
      (void)train_exits(engine, std::span(all).first(learned), std::span(all).subspan(learned),
                        {.heads = {.epochs = 1}, .threads = 1, .memory = memory});
    });
    EXPECT_GE(grown, 0);
    return static_cast<size_t>(std::max(grown, 0L)) << 10;
  }

  static ModelSpec narrow() {
    ModelSpec spec = small_spec();
    spec.layers = 5;
    spec.hidden = spec.embedding = 32;
    spec.heads = 4;
    return spec;
  }
  static ExitLayout one_head(const ModelSpec& spec) {
    ExitLayout layout = own_exits(spec);
    layout.sites = {{.after = spec.layers, .pooler = 0, .classifier = 0}};
    return layout;
  }

  static constexpr int kTokens = 20;
  const ModelSpec spec_ = narrow();
  const Checkpoint model_ = make_model(spec_, one_head(spec_));
};

TEST_F(AttachMemory, StaysWithinMemoryOption) {
  constexpr size_t kTexts = 12000, kLimit = 8 * kMiB;
  const size_t rows = kTexts * kTokens * static_cast<size_t>(spec_.hidden) * 2 * static_cast<size_t>(spec_.layers - 1);
  ASSERT_GT(rows, 2 * (kLimit + kSlack)) << "or there is nothing to see";
  const size_t kept = growth(kTexts, 2 * rows), limited = growth(kTexts, kLimit);
  RecordProperty("kept", static_cast<int>(kept >> 10));
  RecordProperty("limited", static_cast<int>(limited >> 10));
  EXPECT_GT(kept, rows) << "all rows are kept where there is room for them";
  EXPECT_LT(limited, kLimit + kSlack);
}

// Its two learning rates take turns where both together do not fit.
TEST_F(AttachMemory, TrainsExit0WithinMemoryOption) {
  constexpr int kManyTokens = 2000, kOutputs = 40;
  constexpr size_t kTexts = 8000, kTable = 16 * kMiB;
  ModelSpec spec = spec_;
  spec.vocab = kManyTokens;
  std::vector<Encoding> texts;
  std::vector<float> teacher(kTexts * kOutputs);
  for (size_t i = 0; i < kTexts; ++i) {
    texts.push_back(random_text(spec, kTokens, static_cast<uint32_t>(i)));
    teacher[i * kOutputs + i % kOutputs] = 3;
  }
  const Imitation targets(teacher, ExitLayout{{}, kOutputs}, 1);
  const auto grown = [&](size_t memory) {
    return peak_growth([&] {
      const TrainedNgrams found = train_ngrams(texts, kTexts - 100, targets, small_pieces(kManyTokens),
                                               {.epochs = 1, .bytes = kTable, .memory = memory}, 2);
      if (found.table.size() * sizeof(found.table[0]) != kTable) throw Error(Code::failure, "a smaller table");
    });
  };
  const long together = grown(10 * kTable) << 10, in_turns = grown(6 * kTable) << 10;
  EXPECT_GT(together, static_cast<long>(9 * kTable)) << "or there is nothing to see";
  EXPECT_LT(in_turns, static_cast<long>(6 * kTable + kSlack));
}

}  // namespace
}  // namespace exeunt
