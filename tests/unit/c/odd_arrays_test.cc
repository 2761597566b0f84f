// SPDX-License-Identifier: Apache-2.0
// Arrays that a correct program would not pass: each is answered or refused in a sentence, under sanitizers, too.
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/c/exeunt.h"

namespace {

using testing::HasSubstr;
using testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

// What every function that takes logits says of them: the statuses of exeunt_replay, exeunt_sweep and exeunt_calibrate.
std::vector<exeunt_status> statuses(const exeunt_logits& logits) {
  char* json = nullptr;
  std::vector<exeunt_status> out{exeunt_replay(&logits, "entropy:0.5", nullptr, nullptr)};
  out.push_back(exeunt_sweep(&logits, "full", &json));
  exeunt_free(json);
  json = nullptr;
  out.push_back(exeunt_calibrate(&logits, nullptr, &json));
  exeunt_free(json);
  return out;
}

void expect_refused(const exeunt_logits& logits, exeunt_status status, const std::string& what) {
  EXPECT_THAT(statuses(logits), testing::Each(status)) << what;
  EXPECT_THAT(exeunt_last_error(), HasSubstr(what));
  EXPECT_THAT(exeunt_last_hint(), Not(HasSubstr("bug")));
}

// 20 rows of two exits with two classes.
struct Rows {
  Rows() : logits(80, 1), gold(20, 1) {
    given = EXEUNT_LOGITS_INIT;
    given.rows = 20;
    given.exits = given.outputs = 2;
    given.logits = logits.data();
    given.gold = gold.data();
  }
  std::vector<float> logits, gold;
  exeunt_logits given;
};

TEST(COddArrays, RejectsSizesWhoseProductOverflows) {
  Rows made;
  for (const size_t rows : {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 4 + 1, SIZE_MAX / 4 + 6, SIZE_MAX / 16 + 1}) {
    made.given.rows = rows;
    expect_refused(made.given, EXEUNT_USAGE, "more than memory can hold");
  }
  made.given.rows = SIZE_MAX / 8;
  made.given.exits = 128;
  made.given.outputs = INT_MAX;
  expect_refused(made.given, EXEUNT_USAGE, "more than memory can hold");
}

TEST(COddArrays, RejectsEmptyAndNegativeSizes) {
  for (const auto& [rows, exits, outputs] : std::vector<std::tuple<size_t, int, int>>{
           {0, 2, 2}, {20, 0, 2}, {20, 2, 0}, {20, -1, 2}, {20, 2, -1}, {20, INT_MIN, INT_MIN}}) {
    Rows made;
    made.given.rows = rows;
    made.given.exits = exits;
    made.given.outputs = outputs;
    expect_refused(made.given, EXEUNT_USAGE, "at least one row, exit and output");
  }
  Rows none;
  none.given.logits = nullptr;
  expect_refused(none.given, EXEUNT_USAGE, "at least one row, exit and output");
  none.given.struct_size = 0;
  expect_refused(none.given, EXEUNT_USAGE, "struct_size");
}

TEST(COddArrays, TakesAtMost128Exits) {
  const std::vector<float> logits(size_t{20} * 129 * 2, 1);
  exeunt_logits given = EXEUNT_LOGITS_INIT;
  given.rows = 20;
  given.outputs = 2;
  given.logits = logits.data();
  given.exits = 129;
  expect_refused(given, EXEUNT_USAGE, "more than 128 exits");
  given.exits = 128;
  std::vector<int> exits(20), labels(20);
  EXPECT_EQ(exeunt_replay(&given, "layer:128", exits.data(), labels.data()), EXEUNT_OK) << exeunt_last_error();
  EXPECT_THAT(exits, testing::Each(127));
}

TEST(COddArrays, RejectsLogitsThatAreNotFinite) {
  for (const float odd : {kNan, kInfinity, -kInfinity}) {
    for (const size_t place : {size_t{0}, size_t{41}, size_t{79}}) {
      Rows made;
      made.logits[place] = odd;
      expect_refused(made.given, EXEUNT_BAD_FILE, "want finite numbers");
    }
  }
}

TEST(COddArrays, RejectsGoldThatIsNoLabel) {
  for (const float odd : {-1.0F, 2.0F, 0.5F, kInfinity, 1e30F}) {
    Rows made;
    made.gold[19] = odd;
    expect_refused(made.given, EXEUNT_BAD_FILE, "in row 19, want a label from 0 to 1 or NaN");
  }
  Rows unknown;
  std::fill(unknown.gold.begin(), unknown.gold.end(), kNan);
  char* json = nullptr;
  ASSERT_EQ(exeunt_sweep(&unknown.given, "full", &json), EXEUNT_OK) << exeunt_last_error();
  EXPECT_THAT(json, HasSubstr("\"accuracy\":null"));
  exeunt_free(json);
}

TEST(COddArrays, RejectsLayersThatDoNotRise) {
  for (const std::vector<int>& layers : std::vector<std::vector<int>>{{-1, 1}, {2, 2}, {3, 1}, {-5, INT_MAX}}) {
    Rows made;
    made.given.layers = layers.data();
    expect_refused(made.given, EXEUNT_BAD_FILE, "want increasing layers from 0");
  }
}

TEST(COddArrays, RejectsThresholdsThatAreNoProbabilities) {
  for (const double odd : {0.0, 1.0, -1.0, 1e-9, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const std::vector<double> thresholds{0.5, odd};
    Rows made;
    made.given.gold = nullptr;
    made.given.multi_label = 1;
    made.given.thresholds = thresholds.data();
    expect_refused(made.given, EXEUNT_USAGE, "want probabilities");
  }
}

TEST(COddArrays, RejectsPlansOutOfRange) {
  const Rows made;
  const auto calibrate = [&](double max_drop, double confidence) {
    exeunt_plan plan = EXEUNT_PLAN_INIT;
    plan.max_drop = &max_drop;
    plan.budgets = 1;
    plan.confidence = confidence;
    char* json = nullptr;
    return exeunt_calibrate(&made.given, &plan, &json);
  };
  for (const double odd : {0.0, 1.0, -0.1, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_EQ(calibrate(odd, 0.95), EXEUNT_USAGE) << odd;
  for (const double odd : {0.4, 1.0, -1.0, std::nan("")}) EXPECT_EQ(calibrate(0.1, odd), EXEUNT_USAGE) << odd;
}

// One call for all texts; ends of our own.
struct Batch {
  explicit Batch(std::vector<std::string> texts) : count(texts.size()) {
    for (const std::string& text : texts) ends.push_back((bytes += text).size());
    given = EXEUNT_TEXTS_INIT;
    given.count = count;
    given.bytes = bytes.data();
    given.ends = ends.data();
  }
  size_t count;
  std::string bytes;
  std::vector<size_t> ends;
  exeunt_texts given;
};

class COddTexts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(exeunt_open(EXEUNT_TEST_DATA "/checkpoints/bert-deebert", nullptr, &model_), EXEUNT_OK)
        << exeunt_last_error();
  }
  void TearDown() override { exeunt_close(model_); }

  exeunt_model* model_ = nullptr;
};

TEST_F(COddTexts, AnswersEmptyLongAndBinaryTexts) {
  const Batch batch({"", std::string(200'000, 'a'), std::string(3, '\0'), "\xff\xfe", "\xe2\x82", "a great film"});
  std::vector<int> labels(batch.count, -7), tokens(batch.count);
  exeunt_answers answers = EXEUNT_ANSWERS_INIT;
  answers.labels = labels.data();
  answers.tokens = tokens.data();
  const exeunt_status status = exeunt_answer(model_, nullptr, &batch.given, &answers);
  if (status == EXEUNT_OK) {
    EXPECT_THAT(labels, testing::Each(testing::AnyOf(0, 1)));
  } else {
    EXPECT_EQ(status, EXEUNT_BAD_FILE) << exeunt_last_error();
    EXPECT_THAT(labels, testing::Each(-7)) << "on failure nothing is written";
  }
}

TEST_F(COddTexts, TracesNoTextsWithoutRoom) {
  const exeunt_texts none = EXEUNT_TEXTS_INIT;
  EXPECT_EQ(exeunt_trace(model_, &none, nullptr, nullptr), EXEUNT_OK) << exeunt_last_error();
  const Batch batch({"a"});
  EXPECT_EQ(exeunt_trace(model_, &batch.given, nullptr, nullptr), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_trace(nullptr, &none, nullptr, nullptr), EXEUNT_USAGE);
}

TEST_F(COddTexts, RejectsEndsThatDecreaseAndMissingBytes) {
  Batch batch({"a", "bc", "d"});
  exeunt_answers answers = EXEUNT_ANSWERS_INIT;
  std::swap(batch.ends[0], batch.ends[2]);
  EXPECT_EQ(exeunt_answer(model_, nullptr, &batch.given, &answers), EXEUNT_USAGE);
  EXPECT_THAT(exeunt_last_error(), HasSubstr("must not decrease"));
  std::swap(batch.ends[0], batch.ends[2]);
  batch.given.bytes = nullptr;
  EXPECT_EQ(exeunt_answer(model_, nullptr, &batch.given, &answers), EXEUNT_USAGE);
  batch.given.ends = nullptr;
  EXPECT_EQ(exeunt_answer(model_, nullptr, &batch.given, &answers), EXEUNT_USAGE);
  EXPECT_THAT(exeunt_last_error(), HasSubstr("null pointer"));
}

TEST_F(COddTexts, FourThreadsGetTheAnswersOfOne) {
  const Batch batch({"a great film", "so so", "dull and boring", "a"});
  const char* policies[] = {"full", "layer:1", "entropy:0.69", "entropie:1"};
  const auto answer = [&](const char* policy) {
    std::vector<float> scores(batch.count * 2, -1);
    exeunt_answers answers = EXEUNT_ANSWERS_INIT;
    answers.scores = scores.data();
    const exeunt_status status = exeunt_answer(model_, policy, &batch.given, &answers);
    scores.push_back(static_cast<float>(status));
    return scores;
  };
  std::vector<std::vector<float>> alone;
  for (const char* policy : policies) alone.push_back(answer(policy));
  EXPECT_EQ(alone[3].back(), static_cast<float>(EXEUNT_USAGE));
  std::vector<std::vector<float>> together(4);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        for (int time = 0; time < 10; ++time) together[i] = answer(policies[i]);
      });
  }
  EXPECT_EQ(together, alone);
}

}  // namespace
