// SPDX-License-Identifier: Apache-2.0
// The CUDA engine against the reference and the goldens, and its law: what its trace replays is what it answers live,
// bit for bit, in whatever company. Skipped without a GPU.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "exeunt/base/fields.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/engine/engine.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"
#include "tests/fixtures/scratch.h"
#include "tests/reference/reference.h"
#include "tests/unit/engine/goldens.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

using ::testing::HasSubstr;

#define SKIP_WITHOUT_GPU() \
  if (cuda_devices().devices.empty()) GTEST_SKIP() << cuda_devices().reason

EngineOptions on_gpu(Precision precision, int pack_rows = 0) {
  return {.device = {.kind = Device::Kind::cuda}, .precision = precision, .threads = 2, .pack_rows = pack_rows};
}

bool has_int8() {
  return cuda_traits({.kind = Device::Kind::cuda}).int8;
}

// Sizes that tensor cores take, so that the fast kernels run.
ModelSpec wide_spec(Family family) {
  ModelSpec spec = small_spec(family);
  spec.layers = 4;
  spec.hidden = spec.embedding = 128;
  spec.heads = 2;
  spec.inner = 256;
  spec.vocab = 100;
  spec.positions = 300;
  if (spec.embedding_projection) spec.embedding = 64;
  return spec;
}

std::vector<Encoding> random_texts(const ModelSpec& spec, int count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<Encoding> texts;
  for (int i = 0; i < count; ++i) {
    const auto longest = static_cast<uint32_t>(std::min(spec.max_tokens(), i % 7 == 0 ? 300 : 40));
    texts.push_back(random_text(spec, 1 + static_cast<int>(random() % longest), random()));
  }
  return texts;
}

float worst(std::span<const float> got, std::span<const float> want) {
  EXPECT_EQ(got.size(), want.size());
  if (got.size() != want.size()) return INFINITY;
  float most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const float off = std::abs(got[i] - want[i]);
    most = std::isnan(off) ? INFINITY : std::max(most, off);
  }
  return most;
}

// Random models enlarge what rounding leaves; these bounds are for them.
float tolerance(Precision precision) {
  return precision == Precision::fp32 ? 3e-5F : precision == Precision::bf16 ? 0.15F : 0.3F;
}

// Exits as own_exits() has them, and one before the first layer.
ExitLayout exits_of(const ModelSpec& spec, bool exit_0) {
  return exit_0 ? with_exit_0(spec, own_exits(spec)) : own_exits(spec);
}

class OnCuda : public ::testing::TestWithParam<Family> {};

TEST_P(OnCuda, MatchesReferenceAtEveryLayerAndExit) {
  SKIP_WITHOUT_GPU();
  for (const bool wide : {false, true}) {
    const ModelSpec spec = wide ? wide_spec(GetParam()) : small_spec(GetParam());
    const Checkpoint model = make_model(spec, own_exits(spec));
    const Reference reference(model);
    for (const Precision precision : kPrecisions) {
      if (precision == Precision::int8 && !(wide && has_int8())) continue;
      SCOPED_TRACE(std::string(name_of(precision)) + (wide ? ", wide" : ", small"));
      Engine engine(model, on_gpu(precision));
      for (const Encoding& text : random_texts(spec, 8)) {
        const ReferenceOutput want = reference.run(text);
        const Engine::FullPass got = engine.full_pass(text);
        std::vector<float> row_0;
        for (int layer = 0; layer <= spec.layers; ++layer) {
          const auto row = want.row(layer, 0);
          row_0.insert(row_0.end(), row.begin(), row.end());
        }
        EXPECT_LT(worst(got.row_0, row_0), tolerance(precision)) << text.ids.size() << " tokens";
        EXPECT_LT(worst(got.logits, reference.trace(text).logits), tolerance(precision))
            << text.ids.size() << " tokens";
      }
    }
  }
}

class ReplayOnCuda : public ::testing::TestWithParam<std::tuple<Family, bool>> {};

TEST_P(ReplayOnCuda, MatchesLiveAnswers) {
  SKIP_WITHOUT_GPU();
  const auto& [family, exit_0] = GetParam();
  const ModelSpec spec = wide_spec(family);
  const Checkpoint model = make_model(spec, exits_of(spec, exit_0));
  const std::vector<Encoding> texts = random_texts(spec, 120);
  for (const Precision precision : kPrecisions) {
    if (precision == Precision::int8 && !has_int8()) continue;
    SCOPED_TRACE(name_of(precision));
    Engine engine(model, on_gpu(precision)), small(model, on_gpu(precision, 512));
    ExitTrace trace = engine.trace(texts);
    trace.gold.assign(trace.rows, NAN);
    Replayer replayer(trace);
    int early = 0;
    for (const char* policy :
         {"entropy:0.6", "confidence:0.7", "margin:0.4", "patience:1", "patience:2", "layer:2", "full", "pcee:0.6,2",
          "divergence:0.05,1", "vote:1.2", "window:0.3,2,bias_1", "gini:0.4"}) {
      SCOPED_TRACE(policy);
      const PolicySpec parsed = parse_policy(policy);
      const Departures departures = replayer.run(parsed);
      const auto check_answers = [&](const std::vector<Answer>& answers, size_t from) {
        for (size_t i = 0; i < answers.size(); ++i) {
          const std::span<const float> replayed = replayer.answer(departures, from + i);
          ASSERT_EQ(answers[i].exit, static_cast<int>(departures.exit[from + i])) << "text " << from + i;
          ASSERT_EQ(answers[i].logits, std::vector<float>(replayed.begin(), replayed.end())) << "text " << from + i;
          early += answers[i].layer < spec.layers ? 1 : 0;
        }
      };
      const Ask ask{.policy = engine.bind(parsed)};
      check_answers(engine.answer(texts, ask), 0);
      check_answers(small.answer(texts, ask), 0);
      for (size_t i = 0; i < 4; ++i) check_answers(engine.answer({&texts[i], 1}, ask), i);
    }
    EXPECT_GT(early, 100);
  }
}

constexpr Family kFamilies[] = {Family::bert, Family::roberta, Family::albert, Family::elasticbert};
INSTANTIATE_TEST_SUITE_P(Families, OnCuda, ::testing::ValuesIn(kFamilies));
INSTANTIATE_TEST_SUITE_P(Families, ReplayOnCuda, ::testing::Combine(::testing::ValuesIn(kFamilies), ::testing::Bool()));

// Every way through the engine once, on models and batches so small that compute-sanitizer gets through all of them in
// minutes: a batch at full depth, one that closes up, an open batch, a text alone, rows by layer; with inputs enough
// to be summed in four chains, and with readers.
class CudaInSmall : public ::testing::TestWithParam<std::tuple<Family, Precision>> {};

// Lets some of the texts leave at the first exit and not all.
PolicySpec dividing_policy(Replayer& replayer) {
  for (int hundredths = 5; hundredths < 110; hundredths += 2) {
    const PolicySpec policy = parse_policy("entropy:" + std::to_string(0.01 * hundredths));
    const Departures departures = replayer.run(policy);
    const auto early = std::count(departures.exit.begin(), departures.exit.end(), 0);
    if (early > 0 && early < std::ssize(departures.exit)) return policy;
  }
  throw Error(Code::failure, "all texts are alike");
}

TEST_P(CudaInSmall, ReplayMatchesLiveAnswersInEveryMode) {
  SKIP_WITHOUT_GPU();
  const auto& [family, precision] = GetParam();
  if (precision == Precision::int8 && !has_int8()) GTEST_SKIP() << "no int8";
  ModelSpec spec = wide_spec(family);
  spec.layers = 3;
  if (family == Family::bert) spec.inner = 2048;
  for (const auto& [readers, exit_0] : {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
    SCOPED_TRACE(exit_0 ? "exit 0" : readers ? "readers" : "row 0");
    ExitLayout layout = own_exits(spec);
    for (size_t i = 0; readers && i < layout.sites.size(); ++i) layout.sites[i].reader = static_cast<int>(i);
    if (exit_0) layout = with_exit_0(spec, layout);
    const Checkpoint model = make_model(spec, layout);
    const std::vector<Encoding> texts = random_texts(spec, 9);
    Engine engine(model, on_gpu(precision, 256));
    ExitTrace trace = engine.trace(texts);
    trace.gold.assign(trace.rows, NAN);
    Replayer replayer(trace);
    for (const PolicySpec& policy : {dividing_policy(replayer), parse_policy("full")}) {
      const Departures departures = replayer.run(policy);
      const Ask ask{.policy = engine.bind(policy)};
      std::vector<Answer> answers = engine.answer(texts, ask);
      answers.push_back(engine.answer({texts.data(), 1}, ask).front());
      for (size_t i = 0; i < answers.size(); ++i) {
        const size_t text = i % texts.size();
        const std::span<const float> replayed = replayer.answer(departures, text);
        EXPECT_EQ(answers[i].exit, static_cast<int>(departures.exit[text])) << "answer " << i;
        EXPECT_EQ(answers[i].logits, std::vector<float>(replayed.begin(), replayed.end())) << "answer " << i;
      }
    }
    EXPECT_EQ(engine.full_pass(texts[1]).logits.size(), layout.sites.size() * 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, CudaInSmall,
                         ::testing::Combine(::testing::Values(Family::bert, Family::albert),
                                            ::testing::ValuesIn(kPrecisions)),
                         [](const auto& way) {
                           return std::string(name_of(std::get<0>(way.param))) + "_" +
                                  std::string(name_of(std::get<1>(way.param)));
                         });

// As many inputs as are summed in four chains; with and without exits to look at on the way.
TEST(Cuda, AnswersAreIndependentOfBatch) {
  SKIP_WITHOUT_GPU();
  for (const Family family : {Family::bert, Family::albert}) {
    ModelSpec spec = wide_spec(family);
    spec.inner = 2048;
    const Checkpoint model = make_model(spec, own_exits(spec));
    const std::vector<Encoding> texts = random_texts(spec, 150);
    for (const Precision precision : {Precision::bf16, Precision::int8}) {
      if (precision == Precision::int8 && !has_int8()) continue;
      SCOPED_TRACE(name_of(precision));
      Engine engine(model, on_gpu(precision));
      for (const Ask& ask : {Ask{.policy = engine.bind(parse_policy("entropy:0.9"))}, Ask{}}) {
        const std::vector<Answer> got = engine.answer(texts, ask);
        for (size_t i = 0; i < 12; ++i) {
          const Answer alone = engine.answer({&texts[i], 1}, ask).front();
          ASSERT_EQ(alone.exit, got[i].exit) << "text " << i;
          ASSERT_EQ(alone.logits, got[i].logits) << "text " << i;
        }
      }
    }
  }
}

// One set of weights for all layers: texts of several policies come from several threads, join a batch whose other
// texts are at any depth, and answer as they do alone.
class ContinuousOnCuda : public ::testing::TestWithParam<bool> {};

TEST_P(ContinuousOnCuda, AnswersAsSingleTexts) {
  SKIP_WITHOUT_GPU();
  ModelSpec spec = wide_spec(Family::albert);
  spec.layers = 12;
  const Checkpoint model = make_model(spec, exits_of(spec, GetParam()));
  const std::vector<Encoding> texts = random_texts(spec, 300);
  for (const Precision precision : {Precision::bf16, Precision::int8}) {
    if (precision == Precision::int8 && !has_int8()) continue;
    for (const int rows : {0, 512}) {  // 512: most texts wait until others have left
      SCOPED_TRACE(std::string(name_of(precision)) + ", rows " + std::to_string(rows));
      Engine engine(model, on_gpu(precision, rows));
      std::vector<std::shared_ptr<const BoundPolicy>> policies;
      for (const char* policy :
           {"entropy:0.9", "confidence:0.6", "patience:2", "margin:0.2", "layer:5", "entropy:0.001"})
        policies.push_back(engine.bind(parse_policy(policy)));
      const auto ask_of = [&](size_t i) {
        return Ask{.policy = i % 7 == 6 ? nullptr : policies[i % 7], .max_layers = i % 11 == 10 ? 4 : kAllLayers};
      };
      std::vector<Answer> got(texts.size());
      std::vector<std::thread> threads;
      for (size_t thread = 0; thread < 3; ++thread) {
        threads.emplace_back([&, thread] {
          std::latch done(static_cast<ptrdiff_t>(texts.size() / 3));
          std::vector<Ticket> tickets;
          for (size_t i = thread; i < texts.size(); i += 3) {
            tickets.push_back(engine.submit(texts[i], ask_of(i), [&, i](Answer&& answer) {
              got[i] = std::move(answer);
              done.count_down();
            }));
            if (i % 50 == thread) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          done.wait();
        });
      }
      for (std::thread& thread : threads) thread.join();
      int early = 0;
      for (size_t i = 0; i < texts.size(); ++i) {
        const Answer alone = engine.answer({&texts[i], 1}, ask_of(i)).front();
        ASSERT_EQ(got[i].error, "") << "text " << i;
        ASSERT_EQ(got[i].exit, alone.exit) << "text " << i;
        ASSERT_EQ(got[i].logits, alone.logits) << "text " << i;
        ASSERT_EQ(got[i].stop_reason, alone.stop_reason) << "text " << i;
        early += got[i].layer < spec.layers ? 1 : 0;
      }
      EXPECT_GT(early, 30);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exit0, ContinuousOnCuda, ::testing::Bool());

TEST(Cuda, RunsEveryKindOfHead) {
  SKIP_WITHOUT_GPU();
  for (const bool wide : {false, true}) {
    const ModelSpec spec = wide ? wide_spec(Family::bert) : small_spec();
    for (const PoolInput input : {PoolInput::cls, PoolInput::mean, PoolInput::max, PoolInput::cls_mean,
                                  PoolInput::cls_max, PoolInput::mean_max}) {
      for (const int kind : {0, 1, 2, 3}) {
        SCOPED_TRACE(std::string(word_of(input)) + ", kind " + std::to_string(kind));
        ExitLayout layout = own_exits(spec, 5);
        layout.input = input;
        if (kind == 1) {  // no poolers
          for (ExitSite& site : layout.sites) site.pooler.reset();
        }
        if (kind == 2) {  // a learning-to-exit head, an inner classifier, a ramp, a narrower pooler
          layout.width = 10;
          layout.inner = 6;
          layout.lte = true;
          layout.last_ramp = {.pooler = layout.poolers(), .classifier = layout.classifiers()};
        }
        if (kind == 3) {  // readers
          for (size_t i = 0; i < layout.sites.size(); ++i) layout.sites[i].reader = static_cast<int>(i);
        }
        const Checkpoint model = make_model(spec, layout);
        const Reference reference(model);
        Engine engine(model, on_gpu(Precision::fp32));
        const std::vector<Encoding> texts = random_texts(spec, 20);
        const ExitTrace trace = engine.trace(texts);
        for (size_t i = 0; i < texts.size(); ++i) {
          const ReferenceTrace want = reference.trace(texts[i]);
          const size_t each = layout.sites.size() * 5;
          EXPECT_LT(worst(std::span(trace.logits).subspan(i * each, each), want.logits), 3e-5F);
          if (layout.lte) {
            EXPECT_LT(worst(std::span(trace.lte).subspan(i * layout.sites.size(), layout.sites.size()), want.lte),
                      3e-5F);
          }
          if (layout.last_ramp) {
            EXPECT_LT(worst(std::span(trace.ramp).subspan(i * 5, 5), want.ramp), 3e-5F);
          }
        }
      }
    }
  }
}

TEST(Cuda, ReturnsRowsOfEveryLayer) {
  SKIP_WITHOUT_GPU();
  const ModelSpec spec = small_spec();
  const Checkpoint model = make_model(spec, own_exits(spec));
  const Reference reference(model);
  Engine engine(model, on_gpu(Precision::fp32));
  const std::vector<Encoding> texts = random_texts(spec, 9);
  for (const int depth : {1, 2, 3}) {
    std::vector<int> seen(texts.size());
    float off = 0;
    const std::vector<float> logits =
        engine.layer_rows(texts, depth, [&](size_t text, int layer, std::span<const float> rows) {
          EXPECT_EQ(layer, ++seen[text]);
          off = std::max(off, worst(rows, reference.run(texts[text]).rows[static_cast<size_t>(layer)]));
        });
    EXPECT_LT(off, 3e-5F);
    EXPECT_EQ(seen, std::vector<int>(texts.size(), depth));
    EXPECT_EQ(logits.empty(), depth < spec.layers);
    if (depth == spec.layers) {
      EXPECT_LT(worst(std::span(logits).first(3), reference.run(texts[0]).exits.back().logits), 3e-5F);
    }
  }
}

TEST(Cuda, HonoursMaxLayersDetailsDeadlinesAndCancellation) {
  SKIP_WITHOUT_GPU();
  const ModelSpec spec = wide_spec(Family::bert);
  const Checkpoint model = make_model(spec, own_exits(spec));
  Engine engine(model, on_gpu(Precision::bf16));
  const std::vector<Encoding> texts = random_texts(spec, 5);
  const auto policy = engine.bind(parse_policy("entropy:0.0000001"));
  for (const Answer& answer : engine.answer(texts, {.policy = policy, .max_layers = 2, .details = true})) {
    EXPECT_EQ(answer.layer, 2);
    EXPECT_EQ(answer.stop_reason, StopReason::max_layers);
    EXPECT_EQ(answer.details.size(), 2U);
    EXPECT_EQ(answer.probabilities.size(), 3U);
  }
  for (const Answer& answer : engine.answer(texts, {})) {
    EXPECT_EQ(answer.layer, spec.layers);
    EXPECT_EQ(answer.stop_reason, StopReason::last_exit);
  }
  const Answer late = engine.answer({texts.data(), 1}, {.deadline = Clock::now() - std::chrono::seconds(1)}).front();
  EXPECT_EQ(late.stop_reason, StopReason::deadline);
  EXPECT_EQ(late.exit, -1);
  const Answer in_time =
      engine.answer({texts.data(), 1}, {.deadline = Clock::now() + std::chrono::seconds(60)}).front();
  EXPECT_EQ(in_time.stop_reason, StopReason::last_exit);
  std::promise<Answer> promise;
  engine.submit([&]() -> Encoding { throw Error(Code::bad_file, "no such text"); }, {},
                [&](Answer&& answer) { promise.set_value(std::move(answer)); });
  const Answer failed = promise.get_future().get();
  EXPECT_EQ(failed.stop_reason, StopReason::failed);
  EXPECT_THAT(failed.error, HasSubstr("no such text"));
}

// Exit 0 is decided before a text is queued, so that a text has its answer however late it comes to the device.
TEST(Cuda, AnswersLateTextsByExit0) {
  SKIP_WITHOUT_GPU();
  const ModelSpec spec = wide_spec(Family::bert);
  const Checkpoint model = make_model(spec, exits_of(spec, true));
  const Reference reference(model);
  Engine engine(model, on_gpu(Precision::bf16));
  const std::vector<Encoding> texts = random_texts(spec, 3);
  for (const Encoding& text : texts) {
    const std::vector<float> want = reference.trace(text).logits;
    const std::vector<float> first(want.begin(), want.begin() + 3);
    const Answer late = engine.answer({&text, 1}, {.deadline = Clock::now() - std::chrono::seconds(1)}).front();
    EXPECT_EQ(late.stop_reason, StopReason::deadline);
    EXPECT_EQ(late.layer, 0);
    EXPECT_EQ(late.logits, first);
    const Answer shallow = engine.answer({&text, 1}, {.max_layers = 0}).front();
    EXPECT_EQ(shallow.stop_reason, StopReason::max_layers);
    EXPECT_EQ(shallow.logits, first);
    EXPECT_EQ(engine.answer({&text, 1}, {}).front().layer, spec.layers);
  }
}

TEST(Cuda, RejectsUnsupportedModels) {
  SKIP_WITHOUT_GPU();
  const ModelSpec small = small_spec(), wide = wide_spec(Family::bert);
  const Checkpoint odd = make_model(small, own_exits(small)), model = make_model(wide, own_exits(wide));
  EXPECT_THAT(error_of([&] { Engine(odd, on_gpu(Precision::int8)); }).what(), HasSubstr("int8"));
  EngineOptions mixed = on_gpu(Precision::bf16);
  mixed.exceptions = {{"layer.0.ffn2", Precision::fp32}};
  EXPECT_THAT(error_of([&] { Engine(model, mixed); }).what(), HasSubstr("layer.0.ffn2"));
  if (!has_int8()) return;
  EngineOptions allowed = on_gpu(Precision::int8);
  allowed.exceptions = {{"layer.0.ffn2", Precision::bf16}};
  Engine engine(model, allowed);
  EXPECT_EQ(engine.answer(random_texts(wide, 3)).size(), 3U);
}

class CudaOnGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaOnGolden, MatchesGoldenAtEveryLayerAndExit) {
  SKIP_WITHOUT_GPU();
  const std::string folder = std::string(EXEUNT_TEST_DATA "/golden/") + GetParam();
  const Checkpoint checkpoint = Checkpoint::open(folder);
  if (checkpoint.exits().sites.empty()) GTEST_SKIP() << "a bare backbone";
  if (!checkpoint.spec().has_plain_layers() || !(checkpoint.exits().pooler == PoolerShape{})) {
    EXPECT_THAT(error_of([&] { Engine(checkpoint, on_gpu(Precision::bf16)); }).hint(), HasSubstr("--device cpu"));
    return;
  }
  const TensorSet set = read_safetensors(folder + "/golden.safetensors");
  const auto ids = golden_values<int32_t>(set, "ids"), lengths = golden_values<int32_t>(set, "lengths");
  const auto types = golden_values<uint8_t>(set, "types");
  const auto row0 = golden_values<float>(set, "row0"), logits = golden_values<float>(set, "logits");
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    SCOPED_TRACE(name_of(precision));
    Engine engine(checkpoint, on_gpu(precision));
    ptrdiff_t begin = 0;
    for (size_t n = 0; n < lengths.size(); ++n) {
      Encoding text;
      text.ids.assign(ids.begin() + begin, ids.begin() + begin + lengths[n]);
      text.types.assign(types.begin() + begin, types.begin() + begin + lengths[n]);
      begin += lengths[n];
      const Engine::FullPass pass = engine.full_pass(text);
      const auto slice = [&](const std::vector<float>& all) {
        const size_t each = all.size() / lengths.size();
        return std::span(all).subspan(n * each, each);
      };
      if (!row0.empty()) {
        EXPECT_LT(worst(pass.row_0, slice(row0)), tolerance(precision));
      }
      if (!logits.empty()) {
        EXPECT_LT(worst(pass.logits, slice(logits)), tolerance(precision));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaOnGolden, ::testing::ValuesIn(golden_names()), [](const auto& model) {
  std::string name = model.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace exeunt
