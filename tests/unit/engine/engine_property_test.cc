// SPDX-License-Identifier: Apache-2.0
// What the engine promises for any model, texts and policy, in every table and precision: the same bits whatever the
// company of a text, the number of threads and the way rows are computed; live answers are those of a replay.
#include <algorithm>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "exeunt/engine/engine.h"
#include "tests/reference/reference.h"
#include "tests/unit/engine/cpu/packs.h"
#include "tests/unit/engine/replay_property.h"
#include "tests/unit/engine/tables.h"

namespace exeunt {
namespace {

Way arbitrary_way() {
  return *rc::gen::elementOf(ways_here());
}

EngineOptions arbitrary_options(const Way& way) {
  return {.precision = way.precision,
          .threads = pick(1, 4),
          .split = pick(0, 2) == 0,
          .pack_rows = pick(0, 100),
          .cls_first = *rc::gen::element(ClsFirst::automatic, ClsFirst::never, ClsFirst::always),
          .kernels = way.kernels};
}

std::vector<Encoding> arbitrary_texts(const ModelSpec& spec, int most = 6) {
  std::vector<Encoding> texts;
  for (int count = pick(1, most + 1); count > 0; --count) texts.push_back(arbitrary_text(spec));
  return texts;
}

// Exits that read row 0 alone, so that it goes ahead of the others at every one of them.
ExitLayout first_row_exits(const ModelSpec& spec) {
  ExitLayout layout = arbitrary_exits(spec);
  layout.input = PoolInput::cls;
  const bool readers = std::any_of(layout.sites.begin(), layout.sites.end(), [](auto& site) { return site.reader; });
  if (readers && pick(0, 2) == 0) {
    for (ExitSite& site : layout.sites) site.reader.reset();
  }
  return layout;
}

bool same(const Answer& a, const Answer& b) {
  return a.stop_reason == b.stop_reason && a.exit == b.exit && a.layer == b.layer && a.layers_run == b.layers_run &&
         a.logits == b.logits && a.probabilities == b.probabilities && a.evidence.label == b.evidence.label &&
         a.evidence.entropy == b.evidence.entropy;
}

RC_GTEST_PROP(AnyEngine, ReplayMatchesLiveAnswers, ()) {
  const ModelSpec spec = arbitrary_spec();
  Engine engine(make_model(spec, first_row_exits(spec), {}, pick(0U, 1000U)), arbitrary_options(arbitrary_way()));
  const LiveSystem system{[&](std::span<const Encoding> texts) { return engine.trace(texts); },
                          [&](std::span<const Encoding> texts, const PolicySpec& policy) {
                            std::vector<float> rates;
                            const int count = engine.bind(policy)->bound.count;
                            if (pick(0, 2) == 0)
                              for (int n = 0; n < count; ++n) rates.push_back(static_cast<float>(pick(0, 11)) / 10.0F);
                            std::vector<LiveAnswer> out;
                            for (Answer& answer : engine.answer(texts, {.policy = engine.bind(policy, rates)}))
                              out.push_back({answer.exit, std::move(answer.logits)});
                            return out;
                          }};
  replay_equals_live(system, spec);
}

RC_GTEST_PROP(AnyEngine, AnswersAreBitEqualForAnyPackThreadsAndClsFirst, ()) {
  const ModelSpec spec = arbitrary_spec();
  const Checkpoint checkpoint = make_model(spec, first_row_exits(spec), {}, pick(0U, 1000U));
  const Way way = arbitrary_way();
  Engine alone(checkpoint, {.precision = way.precision,
                            .threads = 1,
                            .split = false,
                            .pack_rows = 1,
                            .cls_first = ClsFirst::never,
                            .kernels = way.kernels});
  Engine other(checkpoint, arbitrary_options(way));
  const std::vector<Encoding> texts = arbitrary_texts(spec);
  const ExitTrace trace = alone.trace(texts);
  RC_ASSERT(other.trace(texts).logits == trace.logits);
  Ask ask;
  if (pick(0, 4) > 0) ask.policy = alone.bind(arbitrary_policy(trace));
  ask.max_layers = pick(checkpoint.exits().sites.front().after, spec.layers + 2);
  std::vector<Encoding> company = texts;
  std::reverse(company.begin(), company.end());
  const std::vector<Answer> answers = other.answer(company, ask);
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::vector<Answer> single = alone.answer(std::span(texts).subspan(i, 1), ask);
    RC_ASSERT(same(single.front(), answers[texts.size() - 1 - i]));
  }
}

// Texts of any policies, wherever each of them leaves or is cancelled, and whenever it joined.
RC_GTEST_PROP(AnyPack, AnswersAreIndependentOfOtherTexts, ()) {
  const ModelSpec spec = arbitrary_spec();
  const Checkpoint checkpoint = make_model(spec, first_row_exits(spec), {}, pick(0U, 1000U));
  const Way way = arbitrary_way();
  Engine alone(checkpoint, {.precision = way.precision,
                            .threads = 1,
                            .split = false,
                            .pack_rows = 1,
                            .cls_first = ClsFirst::never,
                            .kernels = way.kernels});
  const std::vector<Encoding> texts = arbitrary_texts(spec, 12);
  const ExitTrace trace = alone.trace(texts);
  Packs packs(
      checkpoint, way,
      {.threads = pick(1, 3), .cls_first = *rc::gen::element(ClsFirst::automatic, ClsFirst::never, ClsFirst::always)});
  std::vector<Ask> asks(texts.size());
  std::vector<bool> cancels(texts.size());
  std::vector<int> steps(texts.size());  // before each text joins, if any can
  for (size_t i = 0; i < texts.size(); ++i) {
    if (pick(0, 4) > 0) asks[i].policy = alone.bind(arbitrary_policy(trace));
    asks[i].max_layers = pick(checkpoint.exits().sites.front().after, spec.layers + 2);
    asks[i].details = pick(0, 2) == 0;
    cancels[i] = pick(0, 8) == 0;
    steps[i] = pick(0, 3);
  }
  std::vector<Answer> answers(texts.size());
  packs.run([&](PackRun& pack) {
    std::vector<Packs::Flag> flags;
    for (size_t i = 0; i < texts.size(); ++i) {
      flags.push_back(std::make_shared<std::atomic<bool>>(false));
      add_to(pack, packs.answering(texts[i], asks[i], answers[i], flags.back()));
      for (int n = 0; pack.admits_midway() && n < steps[i]; ++n) pack.step();
    }
    for (size_t i = 0; i < texts.size(); ++i) *flags[i] = cancels[i];
    run_out(pack);
  });
  for (size_t i = 0; i < texts.size(); ++i) {
    if (cancels[i] && answers[i].stop_reason == StopReason::cancelled) continue;
    RC_ASSERT(same(alone.answer(std::span(texts).subspan(i, 1), asks[i]).front(), answers[i]));
  }
}

RC_GTEST_PROP(AnyEngine, MatchesReferenceInFp32, ()) {
  const ModelSpec spec = arbitrary_spec();
  const Checkpoint checkpoint = make_model(spec, arbitrary_exits(spec), {}, pick(0U, 1000U));
  const Kernels* table = *rc::gen::elementOf(tables_here());
  Engine engine(checkpoint, {.precision = Precision::fp32, .threads = 1, .kernels = table});
  const Encoding text = arbitrary_text(spec);
  const ReferenceTrace want = Reference(checkpoint).trace(text);
  const Engine::FullPass got = engine.full_pass(text);
  const auto close = [](const std::vector<float>& a, const std::vector<float>& b) {
    // A norm over a few nearly equal values can enlarge rounding, so the tolerance is loose; mistakes are far larger.
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](float x, float y) { return std::abs(x - y) <= 1e-2F; });
  };
  RC_ASSERT(close(got.logits, want.logits));
  RC_ASSERT(close(got.lte, want.lte));
  RC_ASSERT(close(got.ramp, want.ramp));
}

// A deadline or a limit only ever cuts off: what is answered is one of the text's own exits.
RC_GTEST_PROP(AnyEngine, DeadlineAnswersWithExitOfTrace, ()) {
  const ModelSpec spec = arbitrary_spec();
  Engine engine(make_model(spec, first_row_exits(spec), {}, pick(0U, 1000U)), arbitrary_options(arbitrary_way()));
  const std::vector<Encoding> texts = arbitrary_texts(spec, 3);
  const ExitTrace trace = engine.trace(texts);
  const std::vector<Answer> answers =
      engine.answer(texts, {.deadline = Clock::now() + std::chrono::microseconds(pick(-10, 300))});
  for (size_t i = 0; i < texts.size(); ++i) {
    RC_ASSERT(answers[i].stop_reason == StopReason::deadline || answers[i].stop_reason == StopReason::last_exit);
    if (answers[i].exit < 0) continue;
    const auto want = trace.at(i, answers[i].exit);
    RC_ASSERT(answers[i].logits == std::vector<float>(want.begin(), want.end()));
  }
}

}  // namespace
}  // namespace exeunt
