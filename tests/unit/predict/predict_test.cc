// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/predict.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "exeunt/engine/classifier.h"
#include "exeunt/predict/answer_lines.h"
#include "exeunt/predict/keep_if.h"
#include "exeunt/predict/predict_job.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

constexpr const char* kClassifierModel = EXEUNT_TEST_DATA "/checkpoints/bert-deebert";

ClassifierOptions options_of(const std::string& policy = "full", int threads = 3) {
  ClassifierOptions options;
  options.engine.precision = Precision::fp32;
  options.engine.threads = threads;
  options.policy = policy;
  return options;
}

// `count` texts of different lengths; `place` of each names its row.
std::function<bool(TextRow&)> many_texts(int count, std::string_view odd = "great", int odd_row = -1) {
  return [=, at = 0](TextRow& row) mutable {
    if (at == count) return false;
    std::string text = at == odd_row ? std::string(odd) : "a film";
    for (int i = 0; i < at % 17 && at != odd_row; ++i) text += " dull great";
    row = {.text = text, .pair = {}, .index = at, .place = "row " + std::to_string(at)};
    ++at;
    return true;
  };
}

TEST(Predict, AnswersComeInTheOrderOfTheTextsAndEqualSingleOnes) {
  Classifier classifier(kClassifierModel, options_of("entropy:0.5"));
  std::vector<Prediction> got;
  const PredictCounts counts =
      predict(classifier, {.next = many_texts(700), .answered = [&](const Prediction& text) { got.push_back(text); }});
  ASSERT_EQ(got.size(), 700U);
  EXPECT_EQ(counts.rows, 700);
  EXPECT_EQ(counts.answered, 700);
  EXPECT_EQ(counts.truncated, 0);
  auto next = many_texts(700);
  for (TextRow row; next(row);) {
    const Prediction& text = got[static_cast<size_t>(row.index)];
    ASSERT_EQ(text.index, row.index);
    if (row.index % 50 != 0) continue;
    const Answer alone = classifier.answer(row.text);
    EXPECT_EQ(text.answer.logits, alone.logits);
    EXPECT_EQ(text.answer.layer, alone.layer);
  }
}

TEST(Predict, OnlyAWindowOfTextsIsInFlight) {
  Classifier classifier(kClassifierModel, options_of("full", 2));
  int64_t read = 0, answered = 0, most = 0;
  auto texts = many_texts(1000);
  (void)predict(classifier, {.next =
                                 [&](TextRow& row) {
                                   most = std::max(most, read - answered);
                                   ++read;
                                   return texts(row);
                                 },
                             .answered = [&](const Prediction&) { ++answered; }});
  EXPECT_EQ(answered, 1000);
  EXPECT_LE(most, 2 * 64 + 1);
}

TEST(Predict, ShardAnswersItsRowsAlone) {
  Classifier classifier(kClassifierModel, options_of("layer:2"));
  std::vector<int64_t> rows;
  const PredictCounts counts = predict(
      classifier, {.shard = {.number = 2, .of = 3}, .next = many_texts(8), .answered = [&](const Prediction& text) {
                     rows.push_back(text.index);
                   }});
  EXPECT_THAT(rows, testing::ElementsAre(1, 4, 7));
  EXPECT_EQ(counts.rows, 8);
  EXPECT_EQ(counts.answered, 3);
  EXPECT_EQ(counts.layers, 3 * 2);
}

TEST(Predict, EmptyAndTooLongTextsNameTheirPlace) {
  const auto run = [&](std::string_view odd, bool strict, int max_length = 8, int odd_row = 5) {
    ClassifierOptions options = options_of();
    options.max_length = max_length;
    Classifier classifier(kClassifierModel, options);
    return predict(classifier,
                   {.strict = strict, .next = many_texts(9, odd, odd_row), .answered = [](const Prediction&) {}});
  };
  for (const char* blank : {"", " \t ", "\v"}) {
    const Error error = error_of([&] { (void)run(blank, false); });
    EXPECT_EQ(error.code(), Code::bad_file);
    EXPECT_THAT(error.what(), HasSubstr("row 5: got an empty text"));
  }
  EXPECT_GT(run("great", false, 8).truncated, 0);
  EXPECT_EQ(run("great", true, 64).truncated, 0);
  // Texts grow from row to row, so row 3 is the first that is too long; the first text of all is no exception.
  EXPECT_STREQ(error_of([&] { (void)run("great", true); }).what(), "row 3: the text is longer than 8 tokens");
  EXPECT_STREQ(error_of([&] { (void)run("a dull film and a great dull film", true, 8, 0); }).what(),
               "row 0: the text is longer than 8 tokens");
}

class PredictJobTest : public testing::Test {
 protected:
  PredictSummary run(const PredictJob& job) {
    written_.clear();
    shown_.clear();
    notices_.clear();
    double seconds = 0;
    Observer observer{.notice = [&](const std::string& text) { notices_.push_back(text); }};
    observer.progress = {.write = [&](std::string_view text) { shown_ += text; },
                         .now = [seconds]() mutable { return std::chrono::duration<double>(seconds += 11); }};
    return run_predict_job(
        job, [&](std::string_view text) { written_ += text; }, observer);
  }
  [[nodiscard]] PredictJob job(const std::string& file) const {
    PredictJob job{.model = kClassifierModel, .classifier = options_of("layer:2", 1)};
    job.file = file;
    return job;
  }
  const Scratch scratch_;
  std::string written_, shown_;
  std::vector<std::string> notices_;
};

TEST_F(PredictJobTest, CountsAnswersAndBytesOfTheFile) {
  const std::string file = scratch_.write("t.txt", "a great film\n\ndull\n").string();
  const PredictSummary done = run(job(file));
  EXPECT_EQ(done.layers, 3);
  EXPECT_EQ(done.max_length, 64);
  EXPECT_EQ(done.counts.rows, 3);
  EXPECT_EQ(done.counts.answered, 2);
  EXPECT_EQ(done.counts.layers, 2 * 2);
  EXPECT_EQ(std::count(written_.begin(), written_.end(), '\n'), 4) << written_;
  EXPECT_THAT(written_, testing::StartsWith("index\tlabel\tscore\texit_layer\tlayers_run\n0\t"));
  EXPECT_THAT(shown_, HasSubstr("predict 100% 19/19 ["));
  EXPECT_THAT(shown_, HasSubstr("3 texts"));
  EXPECT_THAT(notices_, testing::IsEmpty());
}

TEST_F(PredictJobTest, AnswersGivenTexts) {
  PredictJob given = job("-");
  given.texts = {"a great film", "dull"};
  EXPECT_EQ(run(given).counts.answered, 2);
  EXPECT_THAT(shown_, HasSubstr("predict 100% 2/2 ["));
}

TEST_F(PredictJobTest, WritesNothingOfABadFile) {
  const std::string file = scratch_.write("t.txt", "a\xff\n").string();
  EXPECT_EQ(error_of([&] { (void)run(job(file)); }).code(), Code::bad_file);
  EXPECT_EQ(written_, "");
  PredictJob strict = job(scratch_.write("blank.txt", "fine\n \n").string());
  strict.strict = true;
  EXPECT_THAT(error_of([&] { (void)run(strict); }).what(), HasSubstr("blank.txt:2: got an empty text"));
}

TEST(KeepIf, ReadsALabelAScoreOrAValue) {
  const OutputSpec one{.labels = {"ham", "spam"}};
  const OutputSpec several{.problem = Problem::multi_label, .labels = {"rude", "loud"}};
  const OutputSpec value{.problem = Problem::regression};
  const auto answer = [](std::vector<float> logits, std::vector<float> scores) {
    Answer out{.logits = std::move(logits), .probabilities = std::move(scores)};
    out.evidence.value = out.logits[0];
    return out;
  };
  const Answer spam = answer({0, 2}, {0.2F, 0.8F}), both = answer({1, 1}, {0.6F, 0.7F}),
               rude = answer({1, -1}, {0.6F, 0.3F});
  EXPECT_TRUE(KeepIf("label=spam", one)(spam));
  EXPECT_FALSE(KeepIf("label=ham", one)(spam));
  EXPECT_TRUE(KeepIf("spam>=0.8", one)(spam));
  EXPECT_FALSE(KeepIf("spam>=0.81", one)(spam));
  EXPECT_TRUE(KeepIf("ham>=0.1", one)(spam));
  EXPECT_TRUE(KeepIf("label=loud", several)(both));
  EXPECT_FALSE(KeepIf("label=loud", several)(rude));
  EXPECT_TRUE(KeepIf("loud>=0.25", several)(rude));
  EXPECT_TRUE(KeepIf(">=3.5", value)(answer({3.5F}, {})));
  EXPECT_FALSE(KeepIf(">=-1", value)(answer({-1.5F}, {})));
}

TEST(KeepIf, RefusesWhatTheModelCannotAnswer) {
  const OutputSpec one{.labels = {"ham", "spam"}}, value{.problem = Problem::regression};
  for (const char* text :
       {"", "spam", "label=", "label=span", "span>=0.5", "spam>=x", "spam>=", ">=0.5", "spam>=1.5", "spam>=0"})
    EXPECT_EQ(error_of([&] { (void)KeepIf(text, one); }).code(), Code::usage) << text;
  for (const char* text : {"label=spam", "spam>=0.5", "3"})
    EXPECT_EQ(error_of([&] { (void)KeepIf(text, value); }).code(), Code::usage) << text;
  EXPECT_THAT(error_of([&] { (void)KeepIf("label=span", one); }).hint(), HasSubstr("did you mean 'spam'?"));
}

TEST(AnswerLines, EveryFormHasWhatItsReadersWant) {
  Classifier classifier(kClassifierModel, options_of("layer:2"));
  const Prediction text{.index = 7, .truncated = false, .answer = classifier.answer("a great film")};
  const auto lines = [&](AnswerForm form) {
    return AnswerLines(form, classifier.checkpoint(), classifier.ask().policy->bound,
                       classifier.checkpoint().exits().labels);
  };
  const std::string label = classifier.label(text.answer);
  EXPECT_EQ(lines(AnswerForm::tsv).head(), "index\tlabel\tscore\texit_layer\tlayers_run\n");
  EXPECT_EQ(lines(AnswerForm::tsv).line(text),
            fmt::format("7\t{}\t{:.6f}\t2\t2\n", label,
                        text.answer.probabilities.at(static_cast<size_t>(text.answer.evidence.label))));
  EXPECT_EQ(lines(AnswerForm::glue).head() + lines(AnswerForm::glue).line(text),
            fmt::format("index\tprediction\n7\t{}\n", label));
  EXPECT_EQ(lines(AnswerForm::elue).line(text),
            fmt::format("7\t{}\t({}),emb; ({},{}),layer_1; ({},{}),layer_2; ({}),exit_2\n", label, text.answer.tokens,
                        text.answer.tokens, classifier.checkpoint().spec().hidden, text.answer.tokens,
                        classifier.checkpoint().spec().hidden, classifier.checkpoint().spec().hidden));
  const std::vector<ExitModule> from_0{{.after = 0}, {.after = 2}};
  EXPECT_EQ(modules_run(from_0, 768, 10, 0), "(10),exit_0");
  EXPECT_EQ(modules_run(from_0, 768, 10, 2), "(10),exit_0; (10),emb; (10,768),layer_1; (10,768),layer_2; (768),exit_2");
  EXPECT_EQ(lines(AnswerForm::jsonl).head(), "");
  const std::string json = lines(AnswerForm::jsonl).line(text);
  EXPECT_THAT(json, HasSubstr("\"label\":\"" + label + "\""));
  EXPECT_THAT(json, HasSubstr("\"exit_layer\":2,\"layers_run\":2}\n"));
  EXPECT_THAT(json, HasSubstr("\"scores\":{\"negative\":"));
  Prediction cut = text;  // no certificate covers what the policy did not decide
  cut.answer.stop_reason = StopReason::max_layers;
  EXPECT_THAT(lines(AnswerForm::jsonl).line(cut), HasSubstr("\"layers_run\":2,\"covered\":false}\n"));
}

// The line of a model with these exits for an answer.
std::string line_of(AnswerForm form, const ExitLayout& layout, const Evidence& evidence) {
  const Checkpoint model = make_model(small_spec(), layout);
  Answer answer;
  answer.evidence = evidence;
  answer.layer = answer.layers_run = 3;
  answer.probabilities.assign(static_cast<size_t>(layout.outputs), 0.5F);
  answer.logits.assign(static_cast<size_t>(layout.outputs), 0.0F);
  answer.logits[static_cast<size_t>(evidence.label)] = layout.problem == Problem::regression ? evidence.value : 1;
  return AnswerLines(form, model, {}, model.exits().labels).line({.index = 7, .answer = answer});
}

TEST(AnswerLines, GlueGetsARegressionsValueWithinTheRangeOfItsLabels) {
  ExitLayout layout = own_exits(small_spec(), 1);
  layout.problem = Problem::regression;
  layout.labels.clear();
  EXPECT_EQ(line_of(AnswerForm::glue, layout, {.value = 5.25F}), "7\t5.250\n") << "no range is known";
  layout.range = {0, 5};
  EXPECT_EQ(line_of(AnswerForm::glue, layout, {.value = 5.25F}), "7\t5.000\n");
  EXPECT_EQ(line_of(AnswerForm::glue, layout, {.value = -0.5F}), "7\t0.000\n");
  EXPECT_EQ(line_of(AnswerForm::glue, layout, {.value = 2.5F}), "7\t2.500\n");
  EXPECT_EQ(line_of(AnswerForm::tsv, layout, {.value = 5.25F}), "7\t5.25\t3\t3\n") << "what the model said";
}

TEST(AnswerLines, LabelKeepsToItsColumn) {
  ExitLayout layout = own_exits(small_spec());
  layout.labels[1] = "very\tgood\r\nindeed";
  EXPECT_EQ(line_of(AnswerForm::tsv, layout, {.label = 1, .confidence = 0.5F}),
            "7\tvery good  indeed\t0.500000\t3\t3\n");
  EXPECT_EQ(line_of(AnswerForm::glue, layout, {.label = 1}), "7\tvery good  indeed\n");
}

TEST(AnswerLines, SeveralLabelsStandInOneColumn) {
  ExitLayout layout = own_exits(small_spec());
  layout.problem = Problem::multi_label;
  layout.logit_thresholds.assign(layout.labels.size(), 0.5F);
  EXPECT_EQ(line_of(AnswerForm::tsv, layout, {.label = 1}), fmt::format("7\t{}\t0.500000\t3\t3\n", layout.labels[1]));
  layout.logit_thresholds.assign(layout.labels.size(), -1);
  EXPECT_EQ(line_of(AnswerForm::csv, layout, {.label = 1}),
            fmt::format("7,{},{},3,3\n", fmt::join(layout.labels, "|"),
                        fmt::join(std::vector<std::string>(layout.labels.size(), "0.500000"), "|")));
  EXPECT_THAT(line_of(AnswerForm::jsonl, layout, {.label = 1}), HasSubstr("\"labels\":[\"" + layout.labels[0] + "\""));
  layout.logit_thresholds.assign(layout.labels.size(), 2);
  EXPECT_EQ(line_of(AnswerForm::tsv, layout, {.label = 1}), "7\t\t\t3\t3\n");
}

}  // namespace
}  // namespace exeunt
