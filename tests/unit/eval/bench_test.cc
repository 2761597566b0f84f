// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/bench.h"

#include <algorithm>

#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/version.h"
#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cpu/register_peak.h"
#include "exeunt/model/cost.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

ModelSpec tiny_spec() {
  return {.layers = 4, .hidden = 32, .heads = 2, .inner = 64, .vocab = 50, .positions = 64, .embedding = 32};
}

TEST(Bench, RandomModelsHaveGivenExitsAndFiniteAnswers) {
  for (const auto& [heads, exits] : {std::pair(BenchHeads::last, 1), {BenchHeads::every, 4}, {BenchHeads::reader, 4}}) {
    const Checkpoint model = random_model(tiny_spec(), heads);
    EXPECT_EQ(model.exits().sites.size(), static_cast<size_t>(exits));
    EXPECT_EQ(model.exits().sites.front().reader.has_value(), heads == BenchHeads::reader);
    Engine engine(model, {.precision = Precision::fp32, .threads = 1});
    const BenchTimes times = time_texts(engine, {}, {.length = 5, .batch = 2, .seconds = 0});
    EXPECT_EQ(times.runs, 5);
    EXPECT_LE(times.best_ms, times.p50_ms);
    EXPECT_LE(times.p50_ms, times.p90_ms);
  }
}

TEST(Bench, TextsExitAtGivenLayer) {
  const Checkpoint model = random_model(tiny_spec(), BenchHeads::every);
  Engine engine(model, {.precision = Precision::fp32, .threads = 1});
  const Encoding text{.ids = {1, 2, 3}, .types = {0, 0, 0}, .offsets = {}, .truncated = false};
  for (const int layer : {1, 3, 4}) {
    const Answer answer = engine.answer({&text, 1}, {.policy = leave_at(engine, layer)}).front();
    EXPECT_EQ(answer.layer, layer);
    EXPECT_EQ(answer.layers_run, layer);
  }
  EXPECT_EQ(engine.answer({&text, 1}, {.policy = leave_at(engine, 0)}).front().layer, 4);
  Engine one(random_model(tiny_spec(), BenchHeads::last), {.precision = Precision::fp32, .threads = 1});
  EXPECT_EQ(error_of([&] { (void)leave_at(one, 2); }).code(), Code::usage);
}

TEST(Bench, TextsExitEvenlyAroundGivenLayer) {
  const Checkpoint model = random_model(tiny_spec(), BenchHeads::every);
  Engine engine(model, {.precision = Precision::fp32, .threads = 1});
  std::vector<int> lengths;
  for (int i = 0; i < 90; ++i) lengths.push_back(3 + i % 30);
  const std::vector<Encoding> texts = random_texts(model.spec(), lengths);
  std::vector<int> left(5);
  for (const Answer& answer : engine.answer(texts, {.policy = leave_evenly(engine, texts, 2)})) ++left.at(answer.layer);
  for (const size_t layer : {1, 2, 3}) EXPECT_NEAR(left[layer], 30, 2);  // texts of equal entropy leave together
  EXPECT_EQ(left[0] + left[4], 0);
  left.assign(5, 0);
  for (const Answer& answer : engine.answer(texts, {.policy = leave_evenly(engine, texts, 1)})) ++left.at(answer.layer);
  EXPECT_EQ(left, (std::vector<int>{0, 90, 0, 0, 0}));
  EXPECT_EQ(error_of([&] { (void)leave_evenly(engine, texts, 3); }).code(), Code::usage);
  Engine one(random_model(tiny_spec(), BenchHeads::last), {.precision = Precision::fp32, .threads = 1});
  EXPECT_EQ(error_of([&] { (void)leave_evenly(one, texts, 2); }).code(), Code::usage);
}

TEST(Bench, BatchesLengthsAndExitsAreCombined) {
  const Checkpoint model = random_model(tiny_spec(), BenchHeads::every);
  BenchPlan plan;
  plan.precisions = {Precision::fp32};
  plan.lengths = {4, 8};
  plan.batches = {1, 6};
  plan.exit_mean = 2;
  plan.seconds = 0;
  const BenchRows done = bench_points(model, plan);
  ASSERT_EQ(done.rows.size(), 4U);
  EXPECT_EQ(done.rows[1].point.batch, 6);
  EXPECT_NEAR(done.rows[1].average_layers, 2, 0.5);
  EXPECT_EQ(done.engine.substr(0, 4), "cpu/");
  const Scratch folder;
  const std::string lengths = folder.write("lengths.txt", "3\n5\n4\n").string();
  EXPECT_EQ(bench_trace_lengths(model, plan, lengths, 0).rows.at(0).point.length, 4);
  const std::string wrong = folder.write("wrong.txt", "3\nfive\n").string();
  EXPECT_THAT(error_of([&] { (void)bench_trace_lengths(model, plan, wrong, 0); }).what(),
              testing::HasSubstr("line 2: got 'five', want a length"));
}

// Every field of every row, in the order in which the lists are combined.
TEST(Bench, MeasuresEachCombinationAsNamed) {
  const Checkpoint model = random_model(tiny_spec(), BenchHeads::every);
  BenchPlan plan;
  plan.precisions = {Precision::fp32, Precision::int8};
  plan.threads = {1, 2};
  plan.lengths = {4, 8};
  plan.batches = {1, 3};
  plan.exit_at = {2, 4};
  plan.seconds = 0;
  const BenchRows done = bench_points(model, plan);
  ASSERT_EQ(done.rows.size(), 32U);
  size_t at = 0;
  for (const Precision precision : plan.precisions) {
    const bool peak = register_peak(choose_kernels().name, precision) > 0;
    for (const int threads : plan.threads) {
      for (const int length : plan.lengths) {
        for (const int batch : plan.batches) {
          for (const int exit_at : plan.exit_at) {
            const BenchRow& row = done.rows[at++];
            EXPECT_EQ(row.precision, precision);
            EXPECT_EQ(row.threads, threads);
            EXPECT_EQ(row.point.length, length);
            EXPECT_EQ(row.point.batch, batch);
            EXPECT_EQ(row.point.exit_at, exit_at);
            EXPECT_EQ(row.point.exit_mean, 0);
            EXPECT_EQ(row.average_layers, exit_at);
            EXPECT_EQ(row.times.runs, 5);
            EXPECT_GT(row.times.best_ms, 0);
            const double operations = 2.0 * batch *
                                      static_cast<double>(embedding_macs(model.spec(), length) +
                                                          first_layers_macs(model.spec(), length, exit_at));
            EXPECT_NEAR(row.gops * row.times.best_ms * 1e6, operations, 1e-6 * operations);
            EXPECT_EQ(row.peak_share > 0, peak);
          }
        }
      }
    }
  }
  Engine last(model, {.precision = Precision::int8, .threads = 2});
  EXPECT_EQ(done.weight_bytes, static_cast<int64_t>(last.weight_bytes()));
  EXPECT_EQ(done.engine, last.name());
  EXPECT_GT(done.ready_ms, 0);
  EXPECT_GT(done.resident_bytes, done.weight_bytes);
  plan.exit_at.clear();
  plan.precisions.clear();
  plan.threads = {1};
  const BenchRows usual = bench_points(model, plan);
  EXPECT_EQ(usual.rows.at(0).average_layers, 4);
  EXPECT_EQ(usual.rows.at(0).precision, choose_kernels().bf16 ? Precision::bf16 : Precision::fp32);
}

TEST(Bench, RejectsPlansOutOfRange) {
  const Checkpoint model = random_model(tiny_spec(), BenchHeads::every);
  BenchPlan good;
  good.precisions = {Precision::fp32};
  good.lengths = {64};
  good.exit_at = {4};
  good.seconds = 0;
  EXPECT_NO_THROW((void)bench_points(model, good));
  const auto refused = [&](auto change) {
    BenchPlan plan = good;
    change(plan);
    return std::string(error_of([&] { (void)bench_points(model, plan); }).what());
  };
  EXPECT_EQ(refused([](BenchPlan& plan) { plan.threads = {1, 4097}; }), "--threads: got 4097, want 1 to 4096");
  EXPECT_EQ(refused([](BenchPlan& plan) { plan.lengths = {65}; }), "--lengths: got 65, want 1 to 64");
  EXPECT_EQ(refused([](BenchPlan& plan) { plan.exit_at = {5}; }), "--exit-at: got 5, want 1 to 4");
  EXPECT_EQ(refused([](BenchPlan& plan) { plan.exit_at = {0}; }), "--exit-at: got 0, want 1 to 4");
  EXPECT_EQ(refused([](BenchPlan& plan) { plan.batches = {65537}; }), "--batch: got 65537, want 1 to 65536");
  const auto policies = std::vector<PolicySpec>{parse_policy("layer:1")};
  for (const auto& [threads, batch] : {std::pair(0, 1), {1, 0}}) {
    BenchPlan plan = good;
    plan.threads = {threads};
    plan.batches = {batch};
    EXPECT_EQ(error_of([&] { (void)bench_policies(model, plan, {}, policies, {}); }).code(), Code::usage);
  }
}

TEST(Bench, TakesLengthsOfFilesAndTraces) {
  const Checkpoint model = random_model(tiny_spec(), BenchHeads::every);
  BenchPlan plan;
  plan.precisions = {Precision::fp32};
  plan.seconds = 0;
  const Scratch folder;
  const std::string file = folder.write("lengths.txt", "3\n600\n5").string();
  const BenchRow cut = bench_trace_lengths(model, plan, file, 0).rows.at(0);
  EXPECT_EQ(cut.point.length, (3 + 64 + 5) / 3);
  EXPECT_EQ(cut.point.batch, 1);
  EXPECT_EQ(cut.average_layers, 4);
  EXPECT_EQ(cut.times.runs, 2);
  plan.exit_at = {3, 1};
  plan.threads = {1, 2};
  const BenchRows padded = bench_trace_lengths(model, plan, file, 7);
  ASSERT_EQ(padded.rows.size(), 2U);
  EXPECT_EQ(padded.rows[1].point.length, 7);
  EXPECT_EQ(padded.rows[1].threads, 2);
  EXPECT_EQ(padded.rows[1].average_layers, 3);
  EXPECT_EQ(padded.engine.substr(0, 4), "cpu/");
  ExitTrace trace = random_trace({.rows = 2});
  trace.lengths = {4, 10};
  const std::string stored = (folder.path() / "x.safetensors").string();
  write_trace(stored, trace);
  EXPECT_EQ(bench_trace_lengths(model, plan, stored, 0).rows.at(0).point.length, 7);
  const std::string empty = folder.write("empty.txt", "").string();
  EXPECT_THAT(error_of([&] { (void)bench_trace_lengths(model, plan, empty, 0); }).what(),
              testing::HasSubstr("has no lengths"));
  const std::string zero = folder.write("zero.txt", "0\n").string();
  EXPECT_THAT(error_of([&] { (void)bench_trace_lengths(model, plan, zero, 0); }).what(),
              testing::HasSubstr("line 1: got '0'"));
}

// The same weights and texts on every machine, so that times can be compared.
TEST(Bench, RandomWeightsAndTextsAreFixed) {
  const Checkpoint model = random_model(tiny_spec(), BenchHeads::reader);
  const auto values = [&](const std::string& name) {
    const TensorView& view = model.get(name);
    return std::span(reinterpret_cast<const float*>(view.bytes.data()), view.bytes.size() / sizeof(float));
  };
  float largest = 0;
  double sum = 0, squares = 0;
  const auto words = values("embeddings.word.weight");
  for (const float value : words) {
    largest = std::max(largest, std::abs(value));
    sum += value;
    squares += value * value;
  }
  EXPECT_LE(largest, 0.0346F);
  EXPECT_NEAR(sum / static_cast<double>(words.size()), 0, 0.002);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(words.size())), 0.02, 0.001);
  for (const auto& [name, view] : model.tensors().tensors) {
    if (name.ends_with("norm.weight")) {
      EXPECT_THAT(values(name), testing::Each(1.0F)) << name;
    } else if (name.ends_with("norm.bias")) {
      EXPECT_THAT(values(name), testing::Each(0.0F)) << name;
    } else {
      EXPECT_NE(values(name)[0], 0.0F) << name;
    }
  }
  EXPECT_THAT(model.exits().labels, testing::ElementsAre("no", "yes"));
  EXPECT_EQ(model.exits().width, 32);
  for (int layer = 1; layer <= 4; ++layer) {
    const ExitSite& site = model.exits().sites[static_cast<size_t>(layer) - 1];
    EXPECT_EQ(site.after, layer);
    EXPECT_EQ(site.reader, layer - 1);
    EXPECT_EQ(site.pooler, layer - 1);
    EXPECT_EQ(site.classifier, layer - 1);
  }
  const std::vector<Encoding> texts = random_texts(tiny_spec(), std::array{3, 6});
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_THAT(texts[0].ids, testing::ElementsAre(11, 31, 42));
  EXPECT_THAT(texts[1].ids, testing::ElementsAre(28, 30, 47, 32, 38, 38));
  EXPECT_THAT(texts[1].types, testing::ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_EQ(texts[1].offsets.size(), 6U);
  const std::vector<Encoding> many = random_texts(tiny_spec(), std::array{2000});
  for (const int32_t id : many.front().ids) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 50);
  }
}

TEST(Bench, OpensShapesAndModels) {
  BenchPlan plan;
  plan.model = EXEUNT_TEST_DATA "/checkpoints/bert-deebert";
  EXPECT_EQ(open_for_bench(plan).exits().sites.size(), 3U);
  plan.heads = BenchHeads::every;
  EXPECT_EQ(error_of([&] { (void)open_for_bench(plan); }).code(), Code::usage);
  plan.heads.reset();
  plan.model = EXEUNT_TEST_DATA "/checkpoints/bert-backbone";
  EXPECT_EQ(error_of([&] { (void)open_for_bench(plan); }).code(), Code::bad_file);
  plan.model = "bert-bas";
  EXPECT_THAT(error_of([&] { (void)open_for_bench(plan); }).what(), testing::HasSubstr("unknown shape"));
  for (const auto& [name, heads] :
       {std::pair("last", BenchHeads::last), {"every", BenchHeads::every}, {"reader", BenchHeads::reader}})
    EXPECT_EQ(named<BenchHeads>(name), heads);
  EXPECT_FALSE(named<BenchHeads>("none").has_value());
  EXPECT_FALSE(named<BenchHeads>("").has_value());
}

TEST(Bench, WritesProfileOfEachPrecisionAndNumberOfThreads) {
  const Scratch scratch;
  const std::filesystem::path folder = scratch.path() / "model";
  BenchPlan plan;
  plan.precisions = {Precision::fp32, Precision::int8};
  plan.threads = {1, 2};
  plan.lengths = {4, 8};
  plan.seconds = 0;
  const Checkpoint without_folder = random_model(tiny_spec(), BenchHeads::every);
  EXPECT_EQ(error_of([&] { (void)write_profile(without_folder, plan); }).code(), Code::usage);
  (void)write_exeunt_folder(Checkpoint::open(EXEUNT_TEST_DATA "/checkpoints/bert-deebert"), folder);
  EXPECT_EQ(write_profile(Checkpoint::open(folder.string()), plan), folder / kProfileFile);
  const Profile profile = read_profile(ReadPath(folder / kProfileFile), 3);
  EXPECT_EQ(profile.device, cpu_features().name);
  EXPECT_EQ(profile.tool, version());
  EXPECT_FALSE(profile.created.empty());
  ASSERT_EQ(profile.entries.size(), 4U);
  size_t at = 0;
  for (const char* precision : {"fp32", "int8"}) {
    for (const int threads : {1, 2}) {
      const ProfileEntry& entry = profile.entries[at++];
      EXPECT_EQ(entry.precision, precision);
      EXPECT_EQ(entry.threads, threads);
      EXPECT_EQ(entry.isa, choose_kernels().name);
      EXPECT_THAT(entry.lengths, testing::ElementsAre(4, 8));
      EXPECT_EQ(entry.embedding_ms.size(), 2U);
      EXPECT_EQ(entry.exit_ms.size(), 2U);
      ASSERT_EQ(entry.layer_ms.size(), 3U);
      ASSERT_EQ(entry.leave_ms.size(), 3U);
      for (size_t layer = 0; layer < 3; ++layer) {
        EXPECT_EQ(entry.layer_ms[layer], entry.layer_ms[0]) << "layers have one shape";
        EXPECT_EQ(entry.leave_ms[layer].size(), 2U);
      }
      EXPECT_THAT(entry.pack_rows.value_or(0), testing::AnyOf(1, 32, 64, 128, 256, 512));
    }
  }
}

TEST(Bench, TracesKernelsOfLongestText) {
  const Checkpoint model = random_model(tiny_spec(), BenchHeads::every);
  BenchPlan plan;
  plan.precisions = {Precision::fp32, Precision::int8};
  plan.threads = {1, 2};
  plan.lengths = {4, 8};
  plan.seconds = 0;
  const auto events = [&] { return parse_json(kernel_trace(model, plan), "trace").at("traceEvents").size(); };
  const size_t full = events();
  EXPECT_GT(full, 0U);
  EXPECT_EQ(events(), full) << "of one engine, by what it computes";
  plan.exit_at = {1, 4};
  EXPECT_LT(events(), full / 2) << "one layer of four";
  plan.lengths = {65};
  EXPECT_EQ(error_of([&] { (void)kernel_trace(model, plan); }).code(), Code::usage);
}

TEST(Bench, ProfileHasTimeOfExit0) {
  const ModelSpec spec = small_spec();
  ProfilePlan plan;
  plan.engine.precision = Precision::fp32;
  plan.engine.threads = 1;
  plan.lengths = {4, 16};
  plan.seconds = 0;
  const ProfileEntry entry = measure_profile(make_model(spec, with_exit_0(spec, own_exits(spec))), plan);
  ASSERT_EQ(entry.exit_0_ms.size(), 2U);
  EXPECT_GT(entry.exit_0_ms[0], 0);
  EXPECT_EQ(entry.layer_ms.size(), 3U);
  EXPECT_EQ(entry.leave_ms.size(), 3U);
}

TEST(Bench, ProfileCanBeReadBack) {
  const Checkpoint model = random_model(tiny_spec(), BenchHeads::every);
  ProfilePlan plan;
  plan.engine.precision = Precision::fp32;
  plan.engine.threads = 1;
  plan.lengths = {4, 16};
  plan.seconds = 0;
  Profile profile;
  profile.entries.push_back(measure_profile(model, plan));
  const Profile read = parse_profile(parse_json(json_text(profile_json(profile)), "profile"), 4, "profile");
  ASSERT_EQ(read.entries.size(), 1U);
  EXPECT_EQ(read.entries[0].precision, "fp32");
  EXPECT_EQ(read.entries[0].layer_ms.size(), 4U);
  EXPECT_GE(read.entries[0].pack_rows, 1);
  EXPECT_TRUE(read.entries[0].exit_0_ms.empty());
  EXPECT_GT(predicted_ms(read.entries[0], {.after = 4, .tokens = 16, .asked = 4}), 0);
}

}  // namespace
}  // namespace exeunt
