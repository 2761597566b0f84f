// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/bench.h"

#include "tests/fixtures/scratch.h"

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
  EXPECT_GT(predicted_ms(read.entries[0], {.after = 4, .tokens = 16, .asked = 4}), 0);
}

}  // namespace
}  // namespace exeunt
