// SPDX-License-Identifier: Apache-2.0
// The cost of the engine itself: a text at full depth, unused exits, early exits, readers, and loading. Models have a
// known shape and random weights: speed does not depend on their values.
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>

#include <benchmark/benchmark.h>

#include "exeunt/engine/engine.h"
#include "exeunt/engine/ngram_exit.h"
#include "exeunt/model/schema.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

constexpr int kLayers = 12;

ModelSpec bert_base() {
  ModelSpec spec;
  spec.layers = kLayers;
  spec.hidden = spec.embedding = 768;
  spec.heads = 12;
  spec.inner = 3072;
  spec.vocab = 1000;  // the rows of the word table are only gathered
  return spec;
}

enum class Heads { one, cls, readers };

ExitLayout exits_of(const ModelSpec& spec, Heads heads) {
  ExitLayout layout;
  layout.outputs = 2;
  layout.labels = {"no", "yes"};
  layout.width = spec.hidden;
  for (int layer = heads == Heads::one ? spec.layers : 1; layer <= spec.layers; ++layer) {
    const int index = static_cast<int>(layout.sites.size());
    layout.sites.push_back({.after = layer, .pooler = index, .classifier = index});
    if (heads == Heads::readers) layout.sites.back().reader = index;
  }
  return layout;
}

TensorSet random_tensors(const ModelSpec& spec, const ExitLayout& layout) {
  std::minstd_rand random(1);
  TensorSet set;
  for (const TensorInfo& info : schema(spec, layout)) {
    if (!info.required) continue;
    size_t count = 1;
    for (const int64_t side : info.shape) count *= static_cast<size_t>(side);
    auto values = std::make_shared<std::vector<float>>(count);
    const bool gain = info.name.find("norm.weight") != std::string::npos;
    for (float& value : *values) value = (gain ? 1.0F : 0.0F) + (static_cast<float>(random() % 2048) / 1024 - 1) / 16;
    set.tensors[info.name] = {
        .dtype = DType::f32, .shape = info.shape, .strides = {}, .bytes = std::as_bytes(std::span(*values))};
    set.owners.push_back(values);
  }
  return set;
}

Checkpoint random_model(Heads heads) {
  const ModelSpec spec = bert_base();
  const ExitLayout layout = exits_of(spec, heads);
  return {spec, layout, random_tensors(spec, layout)};
}

// Engines are created once and kept: packing takes longer than most measurements.
Engine& engine_of(Heads heads, Precision precision, int threads) {
  static std::map<std::tuple<Heads, Precision, int>, std::unique_ptr<Engine>> engines;
  const std::tuple key{heads, precision, threads};
  if (const auto found = engines.find(key); found != engines.end()) return *found->second;
  engines.clear();  // one at a time, to bound memory
  auto engine =
      std::make_unique<Engine>(random_model(heads), EngineOptions{.precision = precision, .threads = threads});
  return *(engines[key] = std::move(engine));
}

Encoding text_of(int length) {
  Encoding text;
  for (int t = 0; t < length; ++t) {
    text.ids.push_back(t * 37 % 1000);
    text.types.push_back(0);
    text.offsets.emplace_back(0, 0);
  }
  return text;
}

void run(benchmark::State& state, Engine& engine, const Ask& ask, int length) {
  const std::vector<Encoding> texts = {text_of(length)};
  for (auto _ : state) benchmark::DoNotOptimize(engine.answer(texts, ask));
}

// Every layer, one exit at the end: the baseline of all ratios below.
void BM_FullDepth(benchmark::State& state) {
  const auto precision = static_cast<Precision>(state.range(0));
  run(state, engine_of(Heads::one, precision, static_cast<int>(state.range(2))), {}, static_cast<int>(state.range(1)));
  state.SetLabel(std::string(name_of(precision)));
}
BENCHMARK(BM_FullDepth)
    ->ArgsProduct({{0, 1, 2}, {16, 32, 64, 128}, {1, 2}})
    ->ArgNames({"precision", "length", "threads"})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// Twelve exits with a policy that never exits early, and with exit rates that say so.
void BM_ExitsNobodyTakes(benchmark::State& state) {
  const auto precision = static_cast<Precision>(state.range(0));
  Engine& engine = engine_of(static_cast<Heads>(state.range(2)), precision, 1);
  const Ask ask{.policy = engine.bind(parse_policy("entropy:0"), std::vector<float>(kLayers, 0.0F))};
  run(state, engine, ask, static_cast<int>(state.range(1)));
  state.SetLabel(std::string(name_of(precision)));
}
BENCHMARK(BM_ExitsNobodyTakes)
    ->ArgsProduct({{1, 2}, {32, 128}, {1, 2}})
    ->ArgNames({"precision", "length", "heads"})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// Exiting after layer k, with exits that read row 0 (heads 1) or all rows (heads 2).
void BM_LeaveAt(benchmark::State& state) {
  const auto precision = static_cast<Precision>(state.range(0));
  Engine& engine = engine_of(static_cast<Heads>(state.range(1)), precision, 1);
  const Ask ask{.policy = engine.bind(parse_policy("layer:" + std::to_string(state.range(2))))};
  run(state, engine, ask, 128);
  state.SetLabel(std::string(name_of(precision)));
}
BENCHMARK(BM_LeaveAt)
    ->ArgsProduct({{1, 2}, {1, 2}, {3, 6, 9, 12}})
    ->ArgNames({"precision", "heads", "layer"})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// Sixteen texts at once on more threads than there may be processors.
void BM_ManyThreads(benchmark::State& state) {
  Engine& engine = engine_of(Heads::one, Precision::bf16, static_cast<int>(state.range(0)));
  const std::vector<Encoding> texts(static_cast<size_t>(state.range(1)), text_of(64));
  for (auto _ : state) benchmark::DoNotOptimize(engine.answer(texts));
}
BENCHMARK(BM_ManyThreads)
    ->ArgsProduct({{2, 8}, {1, 16}})
    ->ArgNames({"threads", "texts"})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

void BM_Load(benchmark::State& state) {
  const Checkpoint model = random_model(Heads::cls);
  const auto precision = static_cast<Precision>(state.range(0));
  for (auto _ : state) {
    const Engine engine(model, {.precision = precision});
    state.counters["weight_MiB"] = static_cast<double>(engine.weight_bytes()) / (1 << 20);
  }
  state.SetLabel(std::string(name_of(precision)));
}
BENCHMARK(BM_Load)->Arg(0)->Arg(1)->Arg(2)->ArgName("precision")->Unit(benchmark::kMillisecond)->UseRealTime();

// The exit before the first layer alone, of ever other texts of 25 tokens: 14 features a token, of words of five
// letters. Tables take 16 MiB, or as little as a hundredth.
void BM_Exit0(benchmark::State& state) {
  constexpr int kTexts = 4096, kTokens = 25, kLetters = 5;
  ModelSpec spec = bert_base();
  spec.layers = spec.heads = 1;
  spec.hidden = spec.embedding = spec.inner = 1;
  spec.vocab = 30000;
  std::minstd_rand random(1);
  std::vector<uint8_t> pieces;
  std::vector<int32_t> begins = {0};
  for (int id = 0; id < spec.vocab; ++id) {
    pieces.push_back(' ');
    for (int i = 0; i < kLetters; ++i) pieces.push_back(static_cast<uint8_t>('a' + random() % 26));
    begins.push_back(static_cast<int32_t>(pieces.size()));
  }
  ExitLayout layout = exits_of(spec, Heads::one);
  layout.outputs = static_cast<int>(state.range(1));
  layout.labels.clear();
  for (int o = 0; o < layout.outputs; ++o) layout.labels.push_back(std::to_string(o));
  layout.sites.insert(layout.sites.begin(), ExitSite{.after = 0, .classifier = kNoClassifier});
  layout.ngrams = NgramShape{.bits = static_cast<int>(state.range(2)),
                             .rank = static_cast<int>(state.range(0)),
                             .piece_bytes = static_cast<int64_t>(pieces.size())};
  TensorSet set = random_tensors(spec, layout);
  std::vector<uint16_t> table(static_cast<size_t>(set.tensors["exits.ngrams.table"].elements()));
  for (uint16_t& value : table) value = static_cast<uint16_t>(random() % 0x4000);  // below 2
  set.tensors["exits.ngrams.table"] = view_of(DType::bf16, table, {int64_t{1} << state.range(2), state.range(0)});
  set.tensors["exits.ngrams.pieces"] = view_of(DType::u8, pieces);
  set.tensors["exits.ngrams.begins"] = view_of(DType::i32, begins);
  const NgramExit exit(Checkpoint(spec, layout, std::move(set)));
  std::vector<int32_t> ids(kTexts * kTokens);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<unsigned>(spec.vocab));
  std::vector<float> logits(static_cast<size_t>(layout.outputs));
  for (size_t text = 0; auto _ : state) {
    exit.run(std::span(ids).subspan(text * kTokens, kTokens), logits.data());
    text = (text + 1) % kTexts;
  }
}
BENCHMARK(BM_Exit0)
    ->Args({2, 2, 22})
    ->Args({32, 150, 18})
    ->Args({32, 150, 12})
    ->ArgNames({"rank", "outputs", "bits"})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace exeunt
