// SPDX-License-Identifier: Apache-2.0
#include "exeunt/c/exeunt.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fixtures/scratch.h"

namespace {

using testing::HasSubstr;

constexpr const char* kModel = EXEUNT_TEST_DATA "/checkpoints/bert-deebert";
constexpr const char* kText = "a great film";

// A model that closes itself.
struct Opened {
  explicit Opened(const exeunt_options* options = nullptr) {
    EXPECT_EQ(exeunt_open(kModel, options, &model), EXEUNT_OK) << exeunt_last_error();
  }
  explicit Opened(const char* policy, int max_length = 0) {
    exeunt_options options = EXEUNT_OPTIONS_INIT;
    options.policy = policy;
    options.max_length = max_length;
    EXPECT_EQ(exeunt_open(kModel, &options, &model), EXEUNT_OK) << exeunt_last_error();
  }
  ~Opened() { exeunt_close(model); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  exeunt_model* model = nullptr;
};

exeunt_result classify(exeunt_model* model, const char* text, const char* pair = nullptr) {
  exeunt_result result = EXEUNT_RESULT_INIT;
  EXPECT_EQ(exeunt_classify(model, text, pair, &result, nullptr), EXEUNT_OK) << exeunt_last_error();
  return result;
}

bool same(const exeunt_result& a, const exeunt_result& b) {
  return a.label == b.label && a.score == b.score && a.value == b.value && a.exit_layer == b.exit_layer &&
         a.layers_run == b.layers_run && a.tokens == b.tokens && a.truncated == b.truncated;
}

TEST(CInterface, NamesLabelsPolicyAndEngine) {
  const Opened opened("layer:2");
  ASSERT_EQ(exeunt_label_count(opened.model), 2);
  EXPECT_STREQ(exeunt_label(opened.model, 0), "negative");
  EXPECT_STREQ(exeunt_label(opened.model, 1), "positive");
  EXPECT_EQ(exeunt_label(opened.model, 2), nullptr);
  EXPECT_EQ(exeunt_label(opened.model, -1), nullptr);
  EXPECT_STREQ(exeunt_policy(opened.model), "layer:2");
  EXPECT_THAT(exeunt_engine(opened.model), HasSubstr("cpu/"));
  EXPECT_NE(std::string(exeunt_precision(opened.model)), "");
  EXPECT_EQ(exeunt_abi_version(), 0);
  EXPECT_NE(std::string(exeunt_version()), "");
}

TEST(CInterface, AnswersForNoModel) {
  EXPECT_EQ(exeunt_label_count(nullptr), 0);
  EXPECT_EQ(exeunt_label(nullptr, 0), nullptr);
  EXPECT_EQ(exeunt_policy(nullptr), nullptr);
  EXPECT_EQ(exeunt_precision(nullptr), nullptr);
  EXPECT_EQ(exeunt_engine(nullptr), nullptr);
  EXPECT_EQ(exeunt_promise(nullptr), nullptr);
  EXPECT_EQ(exeunt_promise_json(nullptr), nullptr);
  exeunt_close(nullptr);
}

TEST(CInterface, ClassifiesWithScoresThatAddUpToOne) {
  const Opened opened("layer:2");
  exeunt_result result = EXEUNT_RESULT_INIT;
  std::array<float, 3> scores = {-1, -1, -1};
  ASSERT_EQ(exeunt_classify(opened.model, kText, nullptr, &result, scores.data()), EXEUNT_OK);
  EXPECT_FLOAT_EQ(scores[0] + scores[1], 1);
  EXPECT_EQ(scores[2], -1) << "no more scores than labels";
  EXPECT_EQ(result.label, scores[1] > scores[0] ? 1 : 0);
  EXPECT_FLOAT_EQ(result.score, scores[static_cast<size_t>(result.label)]);
  EXPECT_EQ(result.exit_layer, 2);
  EXPECT_EQ(result.layers_run, 2);
  EXPECT_EQ(result.tokens, 5);  // [CLS] a great film [SEP]
  EXPECT_EQ(result.truncated, 0);
}

TEST(CInterface, GivesANumberAndNoLabelForARegression) {
  const exeunt::Scratch folder;
  const std::filesystem::path from = EXEUNT_TEST_DATA "/golden/heads_regression";
  for (const char* name : {"config.json", "exits.json", "model.safetensors"}) {
    std::filesystem::copy_file(from / name, folder.path() / name);
  }
  (void)folder.write("vocab.json", R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"a":4,"b":5})");
  (void)folder.write("merges.txt", "#version: 0.2\n");
  exeunt_model* model = nullptr;
  ASSERT_EQ(exeunt_open(folder.path().c_str(), nullptr, &model), EXEUNT_OK) << exeunt_last_error();
  const exeunt_result result = classify(model, "ab");
  EXPECT_EQ(result.label, -1);
  EXPECT_EQ(result.score, 1);
  EXPECT_EQ(result.tokens, 4);
  EXPECT_EQ(exeunt_label_count(model), 0);
  exeunt_close(model);
}

TEST(CInterface, TruncatesTextsAtMaxLength) {
  const Opened opened(nullptr, 4);
  const exeunt_result result = classify(opened.model, kText);
  EXPECT_EQ(result.tokens, 4);
  EXPECT_EQ(result.truncated, 1);
}

TEST(CInterface, GivesManyTextsTheAnswersOfEachAlone) {
  const Opened opened;
  const std::vector<const char*> texts = {kText, "dull and boring", "a"};
  const std::vector<const char*> pairs = {nullptr, "it was", nullptr};
  std::vector<exeunt_result> results(texts.size(), EXEUNT_RESULT_INIT);
  ASSERT_EQ(exeunt_classify_many(opened.model, texts.data(), pairs.data(), texts.size(), results.data()), EXEUNT_OK);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(same(results[i], classify(opened.model, texts[i], pairs[i]))) << i;
  }
  EXPECT_FALSE(same(results[1], classify(opened.model, texts[1]))) << "the pair counts";
  ASSERT_EQ(exeunt_classify_many(opened.model, texts.data(), nullptr, texts.size(), results.data()), EXEUNT_OK);
  EXPECT_TRUE(same(results[1], classify(opened.model, texts[1])));
  EXPECT_EQ(exeunt_classify_many(nullptr, nullptr, nullptr, 0, nullptr), EXEUNT_OK) << "no texts, no work";
}

// A program built against an older header has shorter structs: what lies behind them is not ours.
TEST(CInterface, ReadsAndWritesNoMoreThanTheCallersStructs) {
  struct Older {
    size_t struct_size = 0;
    const char* policy = nullptr;
    std::array<char, sizeof(exeunt_options)> behind = {};
  } older;
  older.struct_size = offsetof(Older, behind);
  older.policy = "layer:1";
  older.behind.fill(0x7f);  // read as threads and max_length it would be refused
  exeunt_options options = EXEUNT_OPTIONS_INIT;
  static_assert(sizeof older > sizeof options);
  const Opened opened(reinterpret_cast<const exeunt_options*>(&older));
  EXPECT_STREQ(exeunt_policy(opened.model), "layer:1");

  // As many bytes as an older result had: up to and including `value`.
  constexpr size_t kOlder = offsetof(exeunt_result, exit_layer);
  std::vector<exeunt_result> results(2, exeunt_result{});
  auto* bytes = reinterpret_cast<unsigned char*>(results.data());
  std::memset(bytes, 0x7f, 2 * sizeof(exeunt_result));
  std::memcpy(bytes, &kOlder, sizeof kOlder);
  ASSERT_EQ(exeunt_classify(opened.model, kText, nullptr, results.data(), nullptr), EXEUNT_OK);
  EXPECT_EQ(results[0].struct_size, kOlder);
  EXPECT_EQ(results[0].score, classify(opened.model, kText).score);
  for (size_t i = kOlder; i < 2 * sizeof(exeunt_result); ++i) ASSERT_EQ(bytes[i], 0x7f) << i;

  // In a list of older results the second starts right behind the first.
  const std::vector<const char*> texts = {kText, "dull and boring"};
  ASSERT_EQ(exeunt_classify_many(opened.model, texts.data(), nullptr, 2, results.data()), EXEUNT_OK);
  int label = -1;
  float score = -1;
  std::memcpy(&label, bytes + kOlder + offsetof(exeunt_result, label), sizeof label);
  std::memcpy(&score, bytes + kOlder + offsetof(exeunt_result, score), sizeof score);
  const exeunt_result wanted = classify(opened.model, texts[1]);
  EXPECT_EQ(label, wanted.label);
  EXPECT_EQ(score, wanted.score);
}

// A program built against a newer header has longer ones, whose new fields this library does not know.
TEST(CInterface, LeavesTheUnknownFieldsOfNewerStructsAlone) {
  struct Newer {
    exeunt_options known = EXEUNT_OPTIONS_INIT;
    std::array<char, 32> unknown = {};
  } newer;
  newer.known.struct_size = sizeof newer;
  newer.known.policy = "layer:1";
  const Opened opened(&newer.known);
  EXPECT_STREQ(exeunt_policy(opened.model), "layer:1");

  struct NewerResult {
    exeunt_result known = EXEUNT_RESULT_INIT;
    std::array<unsigned char, 32> unknown = {};
  } result;
  result.known.struct_size = sizeof result;
  result.unknown.fill(0x7f);
  ASSERT_EQ(exeunt_classify(opened.model, kText, nullptr, &result.known, nullptr), EXEUNT_OK);
  EXPECT_EQ(result.known.exit_layer, 1);
  for (const unsigned char byte : result.unknown) ASSERT_EQ(byte, 0x7f);
}

TEST(CInterface, SaysWhatFailedAndWhatToDo) {
  exeunt_model* model = reinterpret_cast<exeunt_model*>(1);
  EXPECT_EQ(exeunt_open("no/such/model", nullptr, &model), EXEUNT_BAD_FILE);
  EXPECT_EQ(model, nullptr);
  EXPECT_THAT(exeunt_last_error(), HasSubstr("no/such/model"));

  exeunt_options options = EXEUNT_OPTIONS_INIT;
  options.policy = "entropie:0.2";
  EXPECT_EQ(exeunt_open(kModel, &options, &model), EXEUNT_USAGE);
  EXPECT_THAT(exeunt_last_error(), HasSubstr("entropie"));
  EXPECT_THAT(exeunt_last_hint(), HasSubstr("entropy"));

  options = EXEUNT_OPTIONS_INIT;
  options.device = "gpu";
  EXPECT_EQ(exeunt_open(kModel, &options, &model), EXEUNT_USAGE);
  EXPECT_THAT(exeunt_last_error(), HasSubstr("got 'gpu', want cpu, cuda, cuda:N or auto"));
  options.device = "cuda:4000";
  EXPECT_EQ(exeunt_open(kModel, &options, &model), EXEUNT_RESOURCES);
  EXPECT_THAT(exeunt_last_error(), HasSubstr("device cuda:4000: "));
  options = EXEUNT_OPTIONS_INIT;
  options.precision = "fp8";
  EXPECT_EQ(exeunt_open(kModel, &options, &model), EXEUNT_USAGE);
  EXPECT_THAT(exeunt_last_error(), HasSubstr("fp32, bf16 or int8"));
  EXPECT_STREQ(exeunt_last_hint(), "");
  options = EXEUNT_OPTIONS_INIT;
  options.threads = -1;
  EXPECT_EQ(exeunt_open(kModel, &options, &model), EXEUNT_USAGE);
  options = EXEUNT_OPTIONS_INIT;
  options.max_length = -1;
  EXPECT_EQ(exeunt_open(kModel, &options, &model), EXEUNT_USAGE);
  options = EXEUNT_OPTIONS_INIT;
  options.struct_size = 0;
  EXPECT_EQ(exeunt_open(kModel, &options, &model), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_open(nullptr, nullptr, &model), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_open(kModel, nullptr, nullptr), EXEUNT_USAGE);
}

TEST(CInterface, RefusesBlankTextsAndInvalidUtf8) {
  const Opened opened("full");
  exeunt_result result = EXEUNT_RESULT_INIT;
  for (const char* blank : {"", " \t\r\n"}) {
    EXPECT_EQ(exeunt_classify(opened.model, blank, nullptr, &result, nullptr), EXEUNT_BAD_FILE);
    EXPECT_STREQ(exeunt_last_error(), "text 0: got an empty text, want at least one word");
  }
  EXPECT_EQ(exeunt_classify(opened.model, "", "a great film", &result, nullptr), EXEUNT_OK) << "half a pair";
  EXPECT_EQ(exeunt_classify(opened.model, "a \xFF", nullptr, &result, nullptr), EXEUNT_BAD_FILE);
  EXPECT_STREQ(exeunt_last_error(), "text 0: byte 3 is 0xFF, want valid UTF-8");
  EXPECT_EQ(exeunt_classify(opened.model, "a", "\xC3", &result, nullptr), EXEUNT_BAD_FILE);
  const char* texts[] = {"a great film", " "};
  exeunt_result results[] = {EXEUNT_RESULT_INIT, EXEUNT_RESULT_INIT};
  results[0].layers_run = 7;
  EXPECT_EQ(exeunt_classify_many(opened.model, texts, nullptr, 2, results), EXEUNT_BAD_FILE);
  EXPECT_STREQ(exeunt_last_error(), "text 1: got an empty text, want at least one word");
  EXPECT_EQ(results[0].layers_run, 7) << "nothing is written";
}

TEST(CInterface, RefusesPairsWhereTrainingHadSingleTexts) {
  const exeunt::Scratch folder;
  std::filesystem::copy(kModel, folder.path());
  (void)folder.write("recipe.json", R"({"run": {"texts": 1}})");
  exeunt_model* model = nullptr;
  ASSERT_EQ(exeunt_open(folder.path().c_str(), nullptr, &model), EXEUNT_OK) << exeunt_last_error();
  exeunt_result result = EXEUNT_RESULT_INIT;
  EXPECT_EQ(exeunt_classify(model, "a", "b", &result, nullptr), EXEUNT_USAGE);
  EXPECT_THAT(exeunt_last_error(), testing::HasSubstr("got a pair of texts, and the model was trained on single ones"));
  EXPECT_EQ(exeunt_classify(model, "a", nullptr, &result, nullptr), EXEUNT_OK);
  exeunt_close(model);
}

TEST(CInterface, RefusesCallsWithoutModelTextOrRoomForTheResult) {
  const Opened opened;
  exeunt_result result = EXEUNT_RESULT_INIT;
  const char* none = nullptr;
  EXPECT_EQ(exeunt_classify(nullptr, kText, nullptr, &result, nullptr), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_classify(opened.model, nullptr, nullptr, &result, nullptr), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_classify(opened.model, kText, nullptr, nullptr, nullptr), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_classify_many(opened.model, &none, nullptr, 1, &result), EXEUNT_USAGE);
  result.struct_size = 0;
  EXPECT_EQ(exeunt_classify(opened.model, kText, nullptr, &result, nullptr), EXEUNT_USAGE);
  EXPECT_EQ(exeunt_classify_many(opened.model, &kText, nullptr, 1, &result), EXEUNT_USAGE);
}

TEST(CInterface, KeepsTheLastErrorOfEachThread) {
  exeunt_model* model = nullptr;
  EXPECT_EQ(exeunt_open("no/such/model", nullptr, &model), EXEUNT_BAD_FILE);
  const std::string mine = exeunt_last_error();
  std::thread([] { EXPECT_STREQ(exeunt_last_error(), ""); }).join();
  EXPECT_EQ(exeunt_last_error(), mine);
}

}  // namespace
