// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/make_trace.h"

#include <cmath>

#include "exeunt/data/learned_rows.h"
#include "exeunt/data/user_data.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/reference/reference.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

constexpr const char* kModel = EXEUNT_TEST_DATA "/checkpoints/bert-deebert";

UserColumns as_csv() {
  UserColumns columns;
  columns.format = DataFormat::csv;
  return columns;
}

Dataset some_data(std::string_view labels = "positive negative") {
  const bool swapped = labels != "positive negative";
  const std::string csv = std::string("text,label\nA great film,") + (swapped ? "maybe" : "positive") +
                          "\nA dull plot,negative\nso so,negative\n";
  return parse_user_data(csv, "my.csv", as_csv());
}

TEST(MakeTrace, StoresLogitsIndependentOfThreads) {
  const Checkpoint model = Checkpoint::open(kModel);
  const auto tokenizer = load_tokenizer(model.folder());
  const ExitTrace one = make_trace(model, *tokenizer, some_data(), {.threads = 1});
  const ExitTrace four = make_trace(model, *tokenizer, some_data(), {.threads = 4});
  EXPECT_EQ(one.logits, four.logits);
  ASSERT_EQ(one.rows, 3U);
  EXPECT_EQ(one.info.layers, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(one.info.weights, weights_sha256(model));
  EXPECT_EQ(one.info.tokenizer, tokenizer_sha256(model.folder()));
  EXPECT_EQ(one.ramp.size(), 3U * 2);  // DeeBERT's ramp of the last layer is kept beside its final head

  EXPECT_EQ(one.lengths[1], static_cast<int>(tokenizer->encode("A dull plot", std::nullopt, {}).ids.size()));
}

TEST(MakeTrace, TextsAreTruncatedToTheModelsPositions) {
  const Checkpoint model = Checkpoint::open(kModel);
  const auto tokenizer = load_tokenizer(model.folder());
  std::string csv = "text,label\n";
  for (int i = 0; i < 100; ++i) csv += "good ";
  const Dataset data = parse_user_data(csv + ",positive\nbad,negative\n", "my.csv", as_csv());
  int64_t truncated = -1;
  const TraceOptions options{.max_length = 128, .truncated = [&](int64_t texts) { truncated = texts; }};
  EXPECT_EQ(make_trace(model, *tokenizer, data, options).lengths, (std::vector<int32_t>{64, 3}));
  EXPECT_EQ(truncated, 1);
  (void)make_trace(model, *tokenizer, some_data(), options);
  EXPECT_EQ(truncated, 0);
}

TEST(MakeTrace, MarksLearnedRowsAtAnyMaxLength) {
  const Scratch scratch;
  const Checkpoint source = Checkpoint::open(kModel);
  const auto tokenizer = load_tokenizer(source.folder());
  const std::string text = "the film was good and the plot was bad but the actor was great";
  const Encoding learned = tokenizer->encode(text, std::nullopt, {.max_length = 8});
  ASSERT_TRUE(learned.truncated);
  (void)write_exeunt_folder(source, scratch.path() / "unknown");
  LearnedRows(std::vector<LearnedRows::Row>{learned.ids}, 8).write(scratch.path() / kLearnedFile);
  (void)write_exeunt_folder(source, scratch.path() / "m", {.beside = [&](const std::filesystem::path& folder) {
                              std::filesystem::copy(scratch.path() / kLearnedFile, folder / kLearnedFile);
                              return std::vector<std::string>{kLearnedFile};
                            }});
  const Dataset data = parse_user_data(
      "text,label\n" + text + ",positive\nfilm was good and,positive\nit is great,negative\n", "my.csv", as_csv());
  const Checkpoint model = Checkpoint::open((scratch.path() / "m").string());
  for (const int max_length : {6, 8, 64})
    EXPECT_EQ(make_trace(model, *tokenizer, data, {.max_length = max_length}).learned, (std::vector<uint8_t>{2, 1, 0}))
        << max_length;
  EXPECT_TRUE(
      make_trace(Checkpoint::open((scratch.path() / "unknown").string()), *tokenizer, data, {}).learned.empty());
  scratch.write("m/learned.safetensors", "nonsense");
  const Error error = error_of([&] { (void)make_trace(model, *tokenizer, data, {}); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("m/learned.safetensors"));
  EXPECT_THAT(error.hint(), HasSubstr("train it again"));
}

// Equal texts are as many requests; the pairs of a question are drawn together.
TEST(MakeTrace, RowsOfOneClusterHaveOneNumber) {
  const Checkpoint model = Checkpoint::open(kModel);
  const auto tokenizer = load_tokenizer(model.folder());
  const auto clusters = [&](const char* csv, const UserColumns& columns) {
    return make_trace(model, *tokenizer, parse_user_data(csv, "my.csv", columns), {}).cluster;
  };
  const std::vector<uint64_t> texts = clusters("text,label\ngood,positive\ngood,positive\nbad,negative\n", as_csv());
  EXPECT_NE(texts.at(0), texts.at(1));
  UserColumns pairs = as_csv();
  pairs.pair = "answer";
  const std::vector<uint64_t> questions =
      clusters("text,answer,label\nso,good,positive\nso,bad,negative\nbad,so,negative\n", pairs);
  EXPECT_EQ(questions.at(0), questions.at(1));
  EXPECT_NE(questions.at(0), questions.at(2));
}

TEST(MakeTrace, RunsInGivenPrecision) {
  const Checkpoint model = Checkpoint::open(kModel);
  const auto tokenizer = load_tokenizer(model.folder());
  const Reference reference(model);
  ReferenceTrace plain;
  const Dataset data = some_data();
  for (const Example& example : data.examples) {
    const ReferenceTrace one = reference.trace(tokenizer->encode(example.text, example.pair, {}));
    plain.logits.insert(plain.logits.end(), one.logits.begin(), one.logits.end());
    plain.ramp.insert(plain.ramp.end(), one.ramp.begin(), one.ramp.end());
  }
  const ExitTrace engine = make_trace(model, *tokenizer, some_data(), {.precision = Precision::fp32});
  EXPECT_THAT(engine.info.engine, testing::StartsWith("cpu/"));
  EXPECT_EQ(engine.info.precision, "fp32");
  EXPECT_THAT(engine.logits, testing::Pointwise(testing::FloatNear(1e-4F), plain.logits));
  EXPECT_THAT(engine.ramp, testing::Pointwise(testing::FloatNear(1e-4F), plain.ramp));
  EXPECT_EQ(make_trace(model, *tokenizer, some_data(), {.precision = Precision::int8}).info.precision, "int8");
}

TEST(MakeTrace, GoldFollowsTheModelsLabelOrder) {
  const Checkpoint model = Checkpoint::open(kModel);
  const auto tokenizer = load_tokenizer(model.folder());
  const ExitTrace trace = make_trace(model, *tokenizer, some_data(), {});
  EXPECT_EQ(trace.gold, (std::vector<float>{1, 0, 0}));  // negative is the model's first label
}

TEST(MakeTrace, RejectsDataThatDoesNotFitTheModel) {
  const Checkpoint model = Checkpoint::open(kModel);
  const Checkpoint bare = Checkpoint::open(EXEUNT_TEST_DATA "/checkpoints/bert-backbone");
  const auto tokenizer = load_tokenizer(model.folder());
  EXPECT_THAT(error_of([&] { (void)make_trace(bare, *tokenizer, some_data(), {}); }).what(), HasSubstr("no head"));
  EXPECT_THAT(error_of([&] { (void)make_trace(model, *tokenizer, some_data("maybe negative"), {}); }).what(),
              HasSubstr("maybe"));
  Dataset numbers = parse_user_data("text,label\nx,1.5\ny,2\n", "my.csv", as_csv());
  EXPECT_THAT(error_of([&] { (void)make_trace(model, *tokenizer, numbers, {}); }).what(), HasSubstr("have a number"));
}

}  // namespace
}  // namespace exeunt
