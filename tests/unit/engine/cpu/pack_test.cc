// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gmock/gmock.h>

#include "exeunt/engine/cpu/pack_run.h"
#include "exeunt/engine/engine.h"
#include "exeunt/policy/policy_text.h"
#include "tests/unit/engine/cpu/packs.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

using std::chrono::milliseconds;

// Large enough that phases are worth sharing, in layers of their own or in one that all share.
ModelSpec wide_spec(bool shared) {
  ModelSpec spec = small_spec(shared ? Family::albert : Family::bert);
  spec.layers = 4;
  spec.hidden = 96;
  spec.embedding = shared ? 40 : 96;
  spec.heads = 2;
  spec.inner = 200;
  spec.positions = 90;
  return spec;
}

std::vector<Encoding> texts_of(const ModelSpec& spec, const std::vector<int>& lengths) {
  std::vector<Encoding> texts;
  for (const int length : lengths) texts.push_back(random_text(spec, length, static_cast<uint32_t>(texts.size() + 1)));
  return texts;
}

bool same(const Answer& a, const Answer& b) {
  return a.stop_reason == b.stop_reason && a.exit == b.exit && a.layers_run == b.layers_run && a.tokens == b.tokens &&
         a.logits == b.logits && a.probabilities == b.probabilities;
}

EngineOptions alone_in(const Way& way) {
  return {.precision = way.precision,
          .threads = 1,
          .split = false,
          .pack_rows = 1,
          .cls_first = ClsFirst::never,
          .kernels = way.kernels};
}

TEST(Pack, AnswersAreIndependentOfOtherTexts) {
  for (const bool shared : {false, true}) {
    const ModelSpec spec = wide_spec(shared);
    const Checkpoint checkpoint = make_model(spec, own_exits(spec));
    const std::vector<Encoding> texts = texts_of(spec, {83, 1, 16, 7, 40, 2, 16, 33, 5});
    for (const Way& way : ways_here()) {
      Engine alone(checkpoint, alone_in(way));
      // One leaves after each layer, and others where their policies say.
      const std::vector<const char*> policies = {"layer:4", "layer:1",    "layer:2", "layer:3",    "confidence:0.5",
                                                 "layer:1", "patience:1", "full",    "entropy:0.9"};
      std::vector<Ask> asks;
      for (const char* policy : policies) asks.push_back({.policy = alone.bind(parse_policy(policy))});
      std::vector<Answer> want;
      for (size_t i = 0; i < texts.size(); ++i)
        want.push_back(std::move(alone.answer(std::span(texts).subspan(i, 1), asks[i]).front()));
      for (const ClsFirst cls_first : {ClsFirst::never, ClsFirst::always, ClsFirst::automatic}) {
        Packs packs(checkpoint, way, {.threads = 2, .cls_first = cls_first});
        std::vector<Answer> got(texts.size());
        packs.run([&](PackRun& pack) {
          for (size_t i = 0; i < texts.size(); ++i) add_to(pack, packs.answering(texts[i], asks[i], got[i]));
          run_out(pack);
        });
        for (size_t i = 0; i < texts.size(); ++i) EXPECT_TRUE(same(got[i], want[i])) << way.name() << " text " << i;
      }
    }
  }
}

TEST(Pack, AdmitsTextsMidwayWhenLayersShareWeights) {
  const ModelSpec spec = wide_spec(true);
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  const std::vector<Encoding> texts = texts_of(spec, {20, 9, 31, 4, 16});
  for (const Way& way : ways_here()) {
    Engine alone(checkpoint, alone_in(way));
    const std::vector<Answer> want = alone.answer(texts);
    for (const ClsFirst cls_first : {ClsFirst::never, ClsFirst::always}) {
      Packs packs(checkpoint, way, {.cls_first = cls_first});
      std::vector<Answer> got(texts.size());
      packs.run([&](PackRun& pack) {
        EXPECT_TRUE(pack.admits_midway());
        for (size_t i = 0; i < texts.size(); ++i) {
          add_to(pack, packs.answering(texts[i], {}, got[i]));
          pack.step();
        }
        EXPECT_EQ(got[0].stop_reason, StopReason::last_exit);  // four layers: it left while the others went on
        EXPECT_EQ(got[2].exit, -1);
        run_out(pack);
      });
      for (size_t i = 0; i < texts.size(); ++i) EXPECT_TRUE(same(got[i], want[i])) << way.name() << " text " << i;
    }
  }
  const ModelSpec layered = wide_spec(false);
  Packs packs(make_model(layered, own_exits(layered)), ways_here().front(), {});
  packs.run([](PackRun& pack) { EXPECT_FALSE(pack.admits_midway()); });
}

TEST(Pack, RemovesCancelledText) {
  const ModelSpec spec = wide_spec(false);
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  const std::vector<Encoding> texts = texts_of(spec, {20, 9, 31});
  const Way way = ways_here().back();
  const std::vector<Answer> want = Engine(checkpoint, alone_in(way)).answer(texts);
  Packs packs(checkpoint, way, {});
  std::vector<Answer> got(texts.size());
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  packs.run([&](PackRun& pack) {
    for (size_t i = 0; i < texts.size(); ++i) {
      add_to(pack,
             packs.answering(texts[i], {}, got[i], i == 1 ? cancelled : std::make_shared<std::atomic<bool>>(false)));
    }
    pack.step();
    *cancelled = true;
    run_out(pack);
  });
  EXPECT_EQ(got[1].stop_reason, StopReason::cancelled);
  EXPECT_EQ(got[1].layers_run, 1);
  EXPECT_TRUE(same(got[0], want[0]));
  EXPECT_TRUE(same(got[2], want[2]));
}

TEST(Pack, AdmitsTextsUpToPackRows) {
  const ModelSpec spec = wide_spec(false);
  Packs packs(make_model(spec, own_exits(spec)), ways_here().front(), {.pack_rows = 20});
  const std::vector<Encoding> texts = texts_of(spec, {12, 8, 9, 80});
  std::vector<Answer> answers(texts.size());
  packs.run([&](PackRun& pack) {
    const auto admitted = [&](size_t i) { return pack.admits(*packs.answering(texts[i], {}, answers[i])); };
    EXPECT_TRUE(admitted(3));
    add_to(pack, packs.answering(texts[0], {}, answers[0]));
    EXPECT_TRUE(admitted(1));
    EXPECT_FALSE(admitted(2));
    EXPECT_FALSE(admitted(3));
    const PassRun own(packs.model(), texts[1], 0, std::make_shared<const PassRequest>(PassRequest{.alone = true}));
    EXPECT_FALSE(pack.admits(own));
    run_out(pack);
  });
}

TEST(Pack, AdmitsAtMostMaxPackTexts) {
  const ModelSpec spec = wide_spec(false);
  Packs packs(make_model(spec, own_exits(spec)), ways_here().front(), {});
  const Encoding text = random_text(spec, 2);
  std::vector<Answer> answers(kMaxPackTexts + 1);
  packs.run([&](PackRun& pack) {
    for (size_t i = 0; i < kMaxPackTexts; ++i) {
      EXPECT_TRUE(pack.admits(*packs.answering(text, {}, answers[i])));
      add_to(pack, packs.answering(text, {}, answers[i]));
    }
    EXPECT_FALSE(pack.admits(*packs.answering(text, {}, answers.back())));
    run_out(pack);
  });
  for (size_t i = 1; i < kMaxPackTexts; ++i) EXPECT_EQ(answers[i].logits, answers[0].logits);
}

Clock::time_point at_zero() {
  return {};
}

// Four layers at a millisecond a row: 20 rows need 80 milliseconds, 30 rows 120.
TEST(Pack, RejectsTextThatWouldMissADeadline) {
  const ModelSpec spec = wide_spec(false);
  Packs packs(make_model(spec, own_exits(spec)), ways_here().front(), {.now = at_zero});
  const std::vector<Encoding> texts = texts_of(spec, {10, 10, 20});
  std::vector<Answer> answers(texts.size());
  const Ask soon{.deadline = Clock::time_point{} + milliseconds(100)};
  packs.run([&](PackRun& pack) {
    const auto admitted = [&](size_t i, const Ask& ask) {
      return pack.admits(*packs.answering(texts[i], ask, answers[i]));
    };
    add_to(pack, packs.answering(texts[0], soon, answers[0]));
    EXPECT_FALSE(admitted(1, {}));  // nobody knows yet how long a row takes
    packs.row_seconds() = 1e-3;
    EXPECT_TRUE(admitted(1, {}));
    EXPECT_TRUE(admitted(1, soon));
    EXPECT_FALSE(admitted(2, {}));
    run_out(pack);
  });
  packs.row_seconds() = 1e-3;  // on that clock, the layers took no time
  packs.run([&](PackRun& pack) {
    add_to(pack, packs.answering(texts[0], {}, answers[0]));
    EXPECT_TRUE(pack.admits(*packs.answering(texts[1], soon, answers[1])));
    EXPECT_FALSE(pack.admits(*packs.answering(texts[2], soon, answers[2])));
    EXPECT_TRUE(pack.admits(*packs.answering(texts[2], {}, answers[2])));
    run_out(pack);
  });
}

struct SteadyClock {
  static inline std::atomic<int> looks = 0;
  static Clock::time_point now() { return Clock::time_point{} + milliseconds(++looks); }
};

TEST(Pack, MeasuresRowTimeWhenTextsHaveDeadlines) {
  const ModelSpec spec = wide_spec(false);
  Packs packs(make_model(spec, own_exits(spec)), ways_here().front(), {.now = SteadyClock::now});
  const std::vector<Encoding> texts = texts_of(spec, {10, 10});
  std::vector<Answer> answers(texts.size());
  packs.run([&](PackRun& pack) {
    add_to(pack, packs.answering(texts[0], {}, answers[0]));
    run_out(pack);
    EXPECT_EQ(packs.row_seconds(), 0);
    add_to(pack, packs.answering(texts[1], {.deadline = Clock::time_point{} + milliseconds(1000)}, answers[1]));
    run_out(pack);
    EXPECT_NEAR(packs.row_seconds(), 1e-4, 1e-9);  // a look at the clock per layer, ten rows
  });
}

// A table that notes the most rows of any product.
struct RowCounting {
  static inline const Kernels* inner = nullptr;
  static inline std::atomic<int> most = 0;
  static void multiply(const Product& product) {
    int before = most;
    while (product.rows > before && !most.compare_exchange_weak(before, product.rows)) {
    }
    inner->multiply(product);
  }
};

TEST(EnginePacks, PacksWaitingTextsAndRunsSingleTextAtOnce) {
  const ModelSpec spec = wide_spec(false);
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  RowCounting::inner = &kernels_named("generic");
  Kernels table = *RowCounting::inner;
  table.multiply = RowCounting::multiply;
  const std::vector<Encoding> texts = texts_of(spec, std::vector<int>(10, 8));
  const auto most_rows = [&](int pack_rows, bool lazy) {
    Engine engine(checkpoint, {.precision = Precision::fp32, .threads = 1, .pack_rows = pack_rows, .kernels = &table});
    std::promise<void> open;
    const std::shared_future<void> opened = open.get_future().share();
    std::promise<void> held;
    engine.submit(
        [&] {
          held.set_value();
          opened.wait();
          return texts[0];
        },
        {}, [](Answer&&) {});
    held.get_future().wait();
    RowCounting::most = 0;
    std::vector<std::promise<Answer>> answers(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto done = [&, i](Answer&& answer) { answers[i].set_value(std::move(answer)); };
      if (lazy) {
        engine.submit([&, i] { return texts[i]; }, {}, done);
      } else {
        engine.submit(texts[i], {}, done);
      }
    }
    EXPECT_EQ(engine.waiting(), texts.size());
    open.set_value();
    for (std::promise<Answer>& answer : answers)
      EXPECT_EQ(answer.get_future().get().stop_reason, StopReason::last_exit);
    return RowCounting::most.load();
  };
  for (const bool lazy : {false, true}) {
    EXPECT_EQ(most_rows(1, lazy), 8);
    EXPECT_EQ(most_rows(79, lazy), 72);  // nine texts, then one
    EXPECT_EQ(most_rows(80, lazy), 80);
  }
  Engine engine(checkpoint, {.precision = Precision::fp32, .threads = 1, .kernels = &table});
  EXPECT_EQ(engine.pack_rows(), default_pack_rows(table, Precision::fp32));
  RowCounting::most = 0;
  (void)engine.answer(std::span(texts).first(1));
  EXPECT_EQ(RowCounting::most, 8);
}

TEST(EnginePacks, PacksTextsSubmittedTogetherAcrossThreads) {
  const ModelSpec spec = wide_spec(false);
  RowCounting::inner = &kernels_named("generic");
  Kernels table = *RowCounting::inner;
  table.multiply = RowCounting::multiply;
  const std::vector<Encoding> texts = texts_of(spec, std::vector<int>(10, 8));
  Engine engine(make_model(spec, own_exits(spec)),
                {.precision = Precision::fp32, .threads = 1, .split = false, .pack_rows = 400, .kernels = &table});
  RowCounting::most = 0;
  (void)engine.answer(texts);
  EXPECT_EQ(RowCounting::most, 80);
  RowCounting::most = 0;
  (void)engine.trace(texts);
  EXPECT_EQ(RowCounting::most, 80);
  if (cpu_features().threads < 2) return;
  Engine two(make_model(spec, own_exits(spec)),
             {.precision = Precision::fp32, .threads = 2, .split = false, .pack_rows = 400, .kernels = &table});
  RowCounting::most = 0;
  (void)two.answer(texts);
  EXPECT_EQ(RowCounting::most, 40);
}

TEST(EnginePacks, TraceAndRowsAreBitEqualToSingleTexts) {
  const ModelSpec spec = wide_spec(false);
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  const std::vector<Encoding> texts = texts_of(spec, {20, 9, 31, 4, 16, 83, 2});
  const Way way = ways_here().back();
  Engine alone(checkpoint, alone_in(way));
  Engine packed(checkpoint, {.precision = way.precision, .threads = 2, .pack_rows = 200, .kernels = way.kernels});
  EXPECT_EQ(packed.trace(texts).logits, alone.trace(texts).logits);
  const auto rows_of = [&](Engine& engine) {
    std::vector<std::vector<float>> rows(texts.size() * 4);
    (void)engine.layer_rows(texts, 4, [&](size_t text, int layer, std::span<const float> values) {
      rows[text * 4 + static_cast<size_t>(layer) - 1].assign(values.begin(), values.end());
    });
    return rows;
  };
  EXPECT_EQ(rows_of(packed), rows_of(alone));
}

}  // namespace
}  // namespace exeunt
