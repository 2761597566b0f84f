// SPDX-License-Identifier: Apache-2.0
// The arrays of the C interface: batches, traces, replays, sweeps and calibrations.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/c/exeunt.h"
#include "tests/fixtures/scratch.h"

namespace {

using testing::HasSubstr;

constexpr const char* kFolder = EXEUNT_TEST_DATA "/checkpoints/bert-deebert";

class CArrays : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(exeunt_open(kFolder, nullptr, &model_), EXEUNT_OK) << exeunt_last_error(); }
  void TearDown() override { exeunt_close(model_); }

  exeunt_model* model_ = nullptr;
};

// Texts joined, with where they end.
struct Joined {
  explicit Joined(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      bytes += text;
      ends.push_back(bytes.size());
    }
    given = EXEUNT_TEXTS_INIT;
    given.count = texts.size();
    given.bytes = bytes.c_str();
    given.ends = ends.data();
  }
  std::string bytes;
  std::vector<size_t> ends;
  exeunt_texts given;
};

const std::vector<std::string> kTexts = {"a great film", "dull and boring", "a"};

TEST_F(CArrays, AnswersABatchLikeEachTextAlone) {
  const Joined texts(kTexts);
  std::vector<int> labels(3), layers(3), tokens(3);
  std::vector<float> scores(6), logits(6);
  std::vector<char> truncated(3, 2);
  exeunt_answers answers = EXEUNT_ANSWERS_INIT;
  answers.labels = labels.data();
  answers.layers = layers.data();
  answers.tokens = tokens.data();
  answers.scores = scores.data();
  answers.logits = logits.data();
  answers.truncated = truncated.data();
  ASSERT_EQ(exeunt_output_count(model_), 2);
  ASSERT_EQ(exeunt_answer(model_, "layer:1", &texts.given, &answers), EXEUNT_OK) << exeunt_last_error();

  exeunt_options options = EXEUNT_OPTIONS_INIT;
  options.policy = "layer:1";
  exeunt_model* first = nullptr;
  ASSERT_EQ(exeunt_open(kFolder, &options, &first), EXEUNT_OK);
  for (size_t i = 0; i < 3; ++i) {
    exeunt_result result = EXEUNT_RESULT_INIT;
    std::vector<float> alone(2);
    ASSERT_EQ(exeunt_classify(first, kTexts[i].c_str(), nullptr, &result, alone.data()), EXEUNT_OK);
    EXPECT_EQ(labels[i], result.label);
    EXPECT_EQ(layers[i], 1);
    EXPECT_EQ(tokens[i], result.tokens);
    EXPECT_EQ(truncated[i], 0);
    EXPECT_EQ(scores[2 * i], alone[0]);
    EXPECT_EQ(logits[2 * i], result.value);
  }
  exeunt_close(first);
}

TEST_F(CArrays, SaysWhatItsOutputsMeanAndWhichLabelsAreGiven) {
  EXPECT_STREQ(exeunt_problem(model_), "single_label_classification");
  EXPECT_EQ(exeunt_problem(nullptr), nullptr);
  const Joined texts(kTexts);
  std::vector<int> labels(3);
  std::vector<char> given(6, 2);
  exeunt_answers answers = EXEUNT_ANSWERS_INIT;
  answers.labels = labels.data();
  answers.given = given.data();
  ASSERT_EQ(exeunt_answer(model_, nullptr, &texts.given, &answers), EXEUNT_OK);
  for (size_t i = 0; i < 3; ++i)
    for (size_t c = 0; c < 2; ++c) EXPECT_EQ(given[2 * i + c], static_cast<size_t>(labels[i]) == c ? 1 : 0);
}

TEST_F(CArrays, ReadsZerosPairsAndNoTexts) {
  const Joined zero({std::string("a\0 great film", 13)}), pairs({"it was"});
  exeunt_answers answers = EXEUNT_ANSWERS_INIT;
  int tokens = 0;
  answers.tokens = &tokens;
  ASSERT_EQ(exeunt_answer(model_, nullptr, &zero.given, &answers), EXEUNT_OK) << exeunt_last_error();
  EXPECT_EQ(tokens, 5) << "what lies behind a zero counts";
  exeunt_texts both = zero.given;
  both.pair_bytes = pairs.given.bytes;
  both.pair_ends = pairs.given.ends;
  ASSERT_EQ(exeunt_answer(model_, nullptr, &both, &answers), EXEUNT_OK);
  EXPECT_EQ(tokens, 8);
  const exeunt_texts none = EXEUNT_TEXTS_INIT;
  EXPECT_EQ(exeunt_answer(model_, nullptr, &none, &answers), EXEUNT_OK);
}

TEST_F(CArrays, LeavesBlankTextsBlank) {
  const Joined texts({"a great film", " \t\n", "dull and boring", ""}), others({"a great film", "dull and boring"});
  std::vector<int> labels(4, 7), layers(4, 7), tokens(4, 7), wanted(2);
  std::vector<float> scores(8), logits(8), wanted_scores(4);
  std::vector<char> truncated(4, 2), given(8, 2);
  exeunt_answers answers = EXEUNT_ANSWERS_INIT;
  answers.labels = wanted.data();
  answers.scores = wanted_scores.data();
  ASSERT_EQ(exeunt_answer(model_, nullptr, &others.given, &answers), EXEUNT_OK) << exeunt_last_error();
  answers = {sizeof answers, labels.data(), scores.data(),    logits.data(),
             layers.data(),  tokens.data(), truncated.data(), given.data()};
  ASSERT_EQ(exeunt_answer(model_, nullptr, &texts.given, &answers), EXEUNT_OK) << exeunt_last_error();
  for (const size_t i : {1U, 3U}) {
    EXPECT_EQ(labels[i], -1);
    EXPECT_EQ(layers[i], 0);
    EXPECT_EQ(tokens[i], 0);
    EXPECT_EQ(truncated[i], 0);
    for (size_t c = 2 * i; c < 2 * i + 2; ++c) {
      EXPECT_TRUE(std::isnan(scores[c]) && std::isnan(logits[c]));
      EXPECT_EQ(given[c], 0);
    }
  }
  for (const size_t i : {0U, 2U}) {
    EXPECT_EQ(labels[i], wanted[i / 2]);
    EXPECT_EQ(scores[2 * i], wanted_scores[i]);
  }
  std::vector<float> traced(static_cast<size_t>(4 * exeunt_exit_count(model_) * 2));
  EXPECT_EQ(exeunt_trace(model_, &texts.given, traced.data(), nullptr), EXEUNT_BAD_FILE);
  EXPECT_STREQ(exeunt_last_error(), "text 1: got an empty text, want at least one word");
}

TEST_F(CArrays, RefusesInvalidUtf8ByItsPlace) {
  const Joined texts({"a great film", "dull \xFF"});
  exeunt_answers answers = EXEUNT_ANSWERS_INIT;
  EXPECT_EQ(exeunt_answer(model_, nullptr, &texts.given, &answers), EXEUNT_BAD_FILE);
  EXPECT_STREQ(exeunt_last_error(), "text 1: byte 6 is 0xFF, want valid UTF-8");
  std::vector<float> logits(static_cast<size_t>(2 * exeunt_exit_count(model_) * 2));
  EXPECT_EQ(exeunt_trace(model_, &texts.given, logits.data(), nullptr), EXEUNT_BAD_FILE);
  EXPECT_STREQ(exeunt_last_error(), "text 1: byte 6 is 0xFF, want valid UTF-8");
}

TEST_F(CArrays, RefusesWhatDoesNotFit) {
  const Joined texts(kTexts);
  exeunt_answers answers = EXEUNT_ANSWERS_INIT;
  EXPECT_EQ(exeunt_answer(nullptr, nullptr, &texts.given, &answers), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_answer(model_, nullptr, nullptr, &answers), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_answer(model_, nullptr, &texts.given, nullptr), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_answer(model_, "entropie:1", &texts.given, &answers), EXEUNT_USAGE);
  EXPECT_THAT(exeunt_last_hint(), HasSubstr("entropy"));
  Joined backwards({"a", "b"});
  backwards.ends = {2, 1};
  backwards.given.ends = backwards.ends.data();
  EXPECT_EQ(exeunt_answer(model_, nullptr, &backwards.given, &answers), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_exit_layer(model_, exeunt_exit_count(model_)), 0);
  EXPECT_EQ(exeunt_exit_layer(model_, -1), 0);
  EXPECT_EQ(exeunt_exit_layer(nullptr, 0), 0);
  EXPECT_EQ(exeunt_output_count(nullptr), 0);
}

TEST_F(CArrays, ReplaysATraceToTheLiveAnswers) {
  const Joined texts(kTexts);
  const int exits = exeunt_exit_count(model_);
  std::vector<float> logits(static_cast<size_t>(3 * exits * 2));
  std::vector<int> tokens(3);
  ASSERT_EQ(exeunt_trace(model_, &texts.given, logits.data(), tokens.data()), EXEUNT_OK) << exeunt_last_error();
  EXPECT_EQ(tokens[0], 5);
  std::vector<int> layers;
  for (int exit = 0; exit < exits; ++exit) layers.push_back(exeunt_exit_layer(model_, exit));
  exeunt_logits trace = EXEUNT_LOGITS_INIT;
  trace.rows = 3;
  trace.exits = exits;
  trace.outputs = 2;
  trace.logits = logits.data();
  trace.layers = layers.data();
  for (const char* policy : {"full", "entropy:0.69", "layer:1", "patience:1"}) {
    std::vector<int> replayed(3), replayed_exits(3), live(3), live_layers(3);
    ASSERT_EQ(exeunt_replay(&trace, policy, replayed_exits.data(), replayed.data()), EXEUNT_OK) << exeunt_last_error();
    exeunt_answers answers = EXEUNT_ANSWERS_INIT;
    answers.labels = live.data();
    answers.layers = live_layers.data();
    ASSERT_EQ(exeunt_answer(model_, policy, &texts.given, &answers), EXEUNT_OK);
    EXPECT_EQ(replayed, live) << policy;
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(layers[static_cast<size_t>(replayed_exits[i])], live_layers[i]) << policy;
  }
}

// Two exits: the first is sure and right in nine of ten rows, unsure and wrong in the others.
struct Made {
  explicit Made(size_t rows, size_t distinct = 100'000) {
    for (size_t row = 0; row < rows; ++row) {
      const bool second = row % 2 == 1, early = row % 10 != 0;
      const float full[] = {second ? 0.0F : 4.0F, second ? 4.0F : 0.0F};
      const float own = static_cast<float>(row % distinct) * 1e-6F;  // equal logits are an equal text
      logits.push_back((early ? full[0] : (second ? 0.1F : 0.0F)) + own);
      logits.push_back((early ? full[1] : (second ? 0.0F : 0.1F)) + own);
      logits.insert(logits.end(), full, full + 2);
      gold.push_back(second ? 1 : 0);
    }
    given = EXEUNT_LOGITS_INIT;
    given.rows = rows;
    given.exits = given.outputs = 2;
    given.logits = logits.data();
    given.gold = gold.data();
  }
  std::vector<float> logits, gold;
  exeunt_logits given;
};

// Sets where tries are counted, as in the command.
class CCalibrations : public testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_STATE_HOME", scratch_.path().c_str(), 1); }

  static std::string calibrated(const Made& made, exeunt_plan plan = EXEUNT_PLAN_INIT) {
    char* json = nullptr;
    EXPECT_EQ(exeunt_calibrate(&made.given, &plan, &json), EXEUNT_OK) << exeunt_last_error();
    std::string text = json == nullptr ? "" : json;
    exeunt_free(json);
    return text;
  }

 private:
  exeunt::Scratch scratch_;
};

TEST_F(CCalibrations, CountTriesOnTheSameRows) {
  const Made made(2000);
  exeunt_plan plan = EXEUNT_PLAN_INIT;
  EXPECT_THAT(calibrated(made, plan), HasSubstr("\"tries\":1,"));
  EXPECT_THAT(calibrated(made, plan), HasSubstr("\"tries\":1,")) << "the same test";
  plan.seed = 43;
  EXPECT_THAT(calibrated(made, plan), HasSubstr("\"tries\":2,"));
  ::setenv("XDG_STATE_HOME", "/dev/null", 1);
  EXPECT_THAT(calibrated(made, plan), HasSubstr("\"tries\":0,")) << "not known";
}

TEST_F(CCalibrations, CountEqualRowsOnce) {
  const Made made(2000, 500);
  EXPECT_THAT(calibrated(made), HasSubstr("\"rows\":{\"fit\":191,\"certify\":309,\"report\":0}"))
      << "of 500 texts as many certify as 1 % takes";
}

// Three candidates a question, whose order the first exit knows.
TEST_F(CCalibrations, KeepTheBestOfAQuestion) {
  std::vector<float> values;
  std::vector<uint64_t> questions;
  for (uint64_t row = 0; row < 1500; ++row) {
    const auto value = static_cast<float>(row % 3) + static_cast<float>(row) / 1e4F;
    values.insert(values.end(), {value + 0.3F, value});
    questions.push_back(row / 3);
  }
  exeunt_logits given = EXEUNT_LOGITS_INIT;
  given.rows = questions.size();
  given.exits = 2;
  given.outputs = 1;
  given.logits = values.data();
  exeunt_plan plan = EXEUNT_PLAN_INIT;
  plan.loss = "top:1";
  char* json = nullptr;
  EXPECT_NE(exeunt_calibrate(&given, &plan, &json), EXEUNT_OK) << "of no question";
  given.cluster = questions.data();
  ASSERT_EQ(exeunt_calibrate(&given, &plan, &json), EXEUNT_OK) << exeunt_last_error();
  EXPECT_THAT(json, HasSubstr("questions"));
  exeunt_free(json);
}

TEST_F(CCalibrations, CertifiesAPolicyThatReplaysFromItsFile) {
  const Made made(2000);
  const double budgets[] = {0.05, 0.01};
  exeunt_plan plan = EXEUNT_PLAN_INIT;
  plan.max_drop = budgets;
  plan.budgets = 2;
  char* json = nullptr;
  ASSERT_EQ(exeunt_calibrate(&made.given, &plan, &json), EXEUNT_OK) << exeunt_last_error();
  const std::string text = json;
  exeunt_free(json);
  EXPECT_THAT(text, HasSubstr("\"format\":\"exeunt.calibration/1\""));
  EXPECT_THAT(text, HasSubstr("at most 1 %"));
  const size_t begin = text.find("\"policy_file\":") + 14;
  const std::string file = text.substr(begin, text.size() - begin - 1);
  std::vector<int> exits(2000), labels(2000);
  ASSERT_EQ(exeunt_replay(&made.given, file.c_str(), exits.data(), labels.data()), EXEUNT_OK) << exeunt_last_error();
  for (size_t row = 0; row < 2000; ++row) {
    EXPECT_EQ(labels[row], static_cast<int>(made.gold[row]));
    EXPECT_EQ(exits[row], row % 10 == 0 ? 1 : 0);
  }
}

TEST_F(CCalibrations, CertifiesWithTheConfidenceAndThePartsAskedFor) {
  const Made made(1400);  // too few to report by default
  exeunt_plan plan = EXEUNT_PLAN_INIT;
  for (const int no_report : {-1, 0, 1}) {
    plan.confidence = 0.9;
    plan.no_report = no_report;
    char* json = nullptr;
    ASSERT_EQ(exeunt_calibrate(&made.given, &plan, &json), EXEUNT_OK) << exeunt_last_error();
    const std::string text = json;
    exeunt_free(json);
    EXPECT_THAT(text, HasSubstr("confidence 90 %"));
    EXPECT_EQ(text.find("\"report\":0}") != std::string::npos, no_report >= 0) << text.substr(0, 400);
  }
}

TEST(CReplays, SweepsWithAccuracyWhereGoldIsKnown) {
  Made made(100);
  char* json = nullptr;
  ASSERT_EQ(exeunt_sweep(&made.given, "confidence:0.5|0.7", &json), EXEUNT_OK) << exeunt_last_error();
  EXPECT_STREQ(json, R"({"format":"exeunt.sweep/1","settings":[)"
                     R"({"policy":"confidence:0.5","layers":1.0,"cost_fraction":0.5,"loss":0.1,"accuracy":0.9},)"
                     R"({"policy":"confidence:0.7","layers":1.1,"cost_fraction":0.55,"loss":0.0,"accuracy":1.0}]})");
  exeunt_free(json);
  made.given.gold = nullptr;
  ASSERT_EQ(exeunt_sweep(&made.given, "full", &json), EXEUNT_OK);
  EXPECT_THAT(json, HasSubstr("\"accuracy\":null"));
  exeunt_free(json);
  exeunt_free(nullptr);
}

TEST(CReplays, TakesSeveralLabelsAtOnce) {
  // Two labels: the second is given above 0.8 only.
  const std::vector<float> logits{/*row 0*/ 3, 1, /**/ 3, -3, /*row 1*/ -3, 2, /**/ -3, 3};
  const std::vector<float> gold{1, 0, 0, 1};
  const std::vector<double> thresholds{0.5, 0.8};
  exeunt_logits given = EXEUNT_LOGITS_INIT;
  given.rows = given.exits = given.outputs = 2;
  given.logits = logits.data();
  given.gold = gold.data();
  given.multi_label = 1;
  given.thresholds = thresholds.data();
  char* json = nullptr;
  ASSERT_EQ(exeunt_sweep(&given, "layer:1", &json), EXEUNT_OK) << exeunt_last_error();
  EXPECT_THAT(json, HasSubstr(R"("loss":0.0,"accuracy":1.0)"));
  exeunt_free(json);
  given.thresholds = nullptr;
  ASSERT_EQ(exeunt_sweep(&given, "layer:1", &json), EXEUNT_OK);
  EXPECT_THAT(json, HasSubstr(R"("loss":0.5,"accuracy":0.5)")) << "0.5 gives row 0 both labels";
  exeunt_free(json);
  const std::vector<double> bad{0.5, 1};
  given.thresholds = bad.data();
  EXPECT_EQ(exeunt_sweep(&given, "layer:1", &json), EXEUNT_USAGE);
}

TEST(CReplays, RefusesLogitsThatAreNone) {
  Made made(10);
  char* json = reinterpret_cast<char*>(1);
  EXPECT_EQ(exeunt_calibrate(&made.given, nullptr, &json), EXEUNT_FAILURE) << "too few rows";
  EXPECT_EQ(json, nullptr);
  EXPECT_EQ(exeunt_calibrate(nullptr, nullptr, &json), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_sweep(&made.given, nullptr, &json), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_replay(&made.given, nullptr, nullptr, nullptr), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_replay(&made.given, "{}", nullptr, nullptr), EXEUNT_BAD_FILE);
  const double half = 1.5;
  exeunt_plan plan = EXEUNT_PLAN_INIT;
  plan.max_drop = &half;
  plan.budgets = 1;
  EXPECT_EQ(exeunt_calibrate(&made.given, &plan, &json), EXEUNT_USAGE);
  made.logits[3] = std::nanf("");
  EXPECT_EQ(exeunt_replay(&made.given, "full", nullptr, nullptr), EXEUNT_BAD_FILE);
  made.given.exits = 0;
  EXPECT_EQ(exeunt_replay(&made.given, "full", nullptr, nullptr), EXEUNT_USAGE);
}

}  // namespace
