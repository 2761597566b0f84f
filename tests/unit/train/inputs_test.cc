// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/inputs.h"

#include <cmath>

#include "exeunt/base/sha256.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/data/task.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class InputsTest : public testing::Test {
 protected:
  [[nodiscard]] LoadedData load(const TrainingSource& source) {
    notices_.clear();
    return load_training(source, model_, [&](std::string_view text) { notices_.emplace_back(text); });
  }
  [[nodiscard]] std::string message(const TrainingSource& source) {
    return error_of([&] { (void)load(source); }).what();
  }
  // `count` texts of each of two labels.
  [[nodiscard]] std::string file(int count, const std::string& name = "my.csv") const {
    std::string text = "text,label\n";
    for (int i = 0; i < count; ++i) text += fmt::format("Great film {},positive\nDull and boring {},negative\n", i, i);
    return scratch_.write(name, text).string();
  }
  [[nodiscard]] std::string features(const std::string& name, const std::vector<std::string>& labels,
                                     const std::vector<float>& gold, bool pairs = false) const {
    Features made;
    made.info = {.tokenizer = std::string(64, 'a'),
                 .data = std::string(64, 'b'),
                 .task = {},
                 .split = "train",
                 .labels = labels,
                 .max_length = 12};
    for (size_t row = 0; row < gold.size(); ++row) {
      made.ids.insert(made.ids.end(), {2, static_cast<int32_t>(10 + row % 2), 3, 9, 3});
      made.types.insert(made.types.end(), {0, 0, 0, static_cast<uint8_t>(pairs), static_cast<uint8_t>(pairs)});
      made.offsets.push_back(static_cast<int64_t>(made.ids.size()));
      made.gold.push_back(gold[row]);
      made.index.push_back(static_cast<int64_t>(row));
    }
    const std::filesystem::path path = scratch_.path() / name;
    write_features(path, made);
    return path.string();
  }

  const Checkpoint model_ = Checkpoint::open(EXEUNT_TEST_DATA "/checkpoints/bert-backbone");
  const Scratch scratch_;
  std::vector<std::string> notices_;
};

TEST_F(InputsTest, HoldsOutRowsOfAFileThatComesAlone) {
  const std::string path = file(30);
  const LoadedData loaded = load({.data = path, .hold_out = 0.3});
  const TrainingData& data = loaded.data;
  EXPECT_EQ(data.train.rows(), 42U);
  EXPECT_EQ(data.eval.rows(), 6U);
  EXPECT_EQ(loaded.held_out_rows, 12U);
  EXPECT_DOUBLE_EQ(loaded.hold_out, 0.2);
  EXPECT_TRUE(loaded.user_file);
  EXPECT_EQ(std::count(loaded.held_out.begin(), loaded.held_out.end(), '\n'), 13);
  EXPECT_THAT(data.outcome.labels, ElementsAre("negative", "positive"));
  EXPECT_EQ(data.outcome.problem, Problem::classification);
  EXPECT_EQ(data.metrics, default_metrics(Problem::classification, 2));
  EXPECT_EQ(data.primary, Metric::accuracy);
  EXPECT_EQ(data.task, "");
  EXPECT_FALSE(data.of_pairs);
  ASSERT_TRUE(data.columns);
  EXPECT_EQ(data.columns->label, "label");
  EXPECT_EQ(data.baseline.size(), 2U);
  EXPECT_EQ(data.train.info.tokenizer, tokenizer_sha256(model_.folder()));
  EXPECT_EQ(data.train.info.max_length, 64);
  EXPECT_THAT(notices_, testing::IsEmpty());
  const TrainingFacts facts = data.facts();
  EXPECT_EQ(facts.rows, 42);
  EXPECT_EQ(facts.labels, 2);
  EXPECT_EQ(facts.pairs, 0);
  EXPECT_FALSE(facts.of_pairs);
}

TEST_F(InputsTest, TrainsOnAllRowsWhereTooFewCanBeHeldOut) {
  const std::string path = file(24);
  LoadedData loaded = load({.data = path, .hold_out = 0.3});
  EXPECT_EQ(loaded.data.train.rows(), 48U);
  EXPECT_EQ(loaded.held_out_rows, 0U);
  EXPECT_TRUE(loaded.held_out.empty());
  EXPECT_THAT(notices_, ElementsAre(path + ": 48 rows are too few to hold any out; training on all of them"));
  loaded = load({.data = file(25), .hold_out = 0.3});
  EXPECT_GT(loaded.held_out_rows, 0U) << "50 rows are enough";
  loaded = load({.data = file(30)});
  EXPECT_EQ(loaded.data.train.rows(), 60U) << "nothing was asked to be held out";
  EXPECT_EQ(loaded.data.eval.rows(), 0U);
  EXPECT_TRUE(loaded.data.baseline.empty());
  loaded = load({.data = file(30), .limit = 7});
  EXPECT_EQ(loaded.data.train.rows(), 7U);
  loaded = load({.data = file(3), .limit = 6});
  EXPECT_EQ(loaded.data.train.rows(), 6U);
}

TEST_F(InputsTest, QuestionsAColumnWithNearlyAsManyLabelsAsRows) {
  std::string rows = "id,text\n";
  for (int i = 0; i < 60; ++i) rows += fmt::format("{},Great film {}\n", i, i);
  const std::string path = scratch_.write("ids.csv", rows).string();
  TrainingSource source{.data = path, .hold_out = 0.3};
  source.columns.label = "id";
  EXPECT_EQ(load(source).data.train.rows(), 60U);
  EXPECT_THAT(notices_, testing::Contains(path + ": 60 different labels in 60 rows: is 'id' the right --label-column? "
                                                 "The file has id, text"));
  EXPECT_THAT(notices_, testing::Contains(path + ": no label has enough rows to hold any out; training on all 60"));
  // Half as many labels as rows are believed.
  rows = "label,text\n";
  for (int i = 0; i < 60; ++i) rows += fmt::format("{},Great film {}\n", i / 2, i);
  (void)load({.data = scratch_.write("half.csv", rows).string()});
  EXPECT_THAT(notices_, testing::Not(testing::Contains(HasSubstr("different labels"))));
}

TEST_F(InputsTest, EvaluatesOnAnotherFileAndCountsSharedRows) {
  const std::string train = file(10), eval = file(2, "eval.csv");
  const LoadedData loaded = load({.data = train, .eval_data = eval, .hold_out = 0.3});
  EXPECT_EQ(loaded.data.train.rows(), 20U);
  EXPECT_EQ(loaded.data.eval.rows(), 4U);
  EXPECT_EQ(loaded.held_out_rows, 0U);
  EXPECT_EQ(loaded.data.baseline.size(), 2U);
  EXPECT_THAT(notices_,
              testing::Contains(fmt::format(
                  "{}: 4 of 4 rows are in {}, too: scores on rows that were learned are too good", eval, train)));
}

TEST_F(InputsTest, SaysWhatIsTruncated) {
  const std::string path = file(3);
  const LoadedData loaded = load({.data = path, .max_length = 4});
  EXPECT_EQ(loaded.data.train.info.max_length, 4);
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("6 of 6 texts are longer than 4 tokens")));
  EXPECT_THAT(notices_.front(), testing::EndsWith("; raise --max-length"));
  std::string longest = "text,label\n";
  for (int i = 0; i < 80; ++i) longest += "film ";
  (void)load({.data = scratch_.write("long.csv", longest + ",a\nfilm,b\n").string(), .max_length = 500});
  EXPECT_THAT(notices_, testing::Contains(HasSubstr("longer than 64 tokens")));
  EXPECT_THAT(notices_, testing::Not(testing::Contains(HasSubstr("raise --max-length")))) << "the model has no more";
}

TEST_F(InputsTest, TakesTheRangeOfValues) {
  TrainingSource source{.data = scratch_.write("v.csv", "text,label\na,1.5\nb,-2\nc,4\n").string()};
  source.columns.problem = Problem::regression;
  const TrainingData data = load(source).data;
  EXPECT_EQ(data.outcome.range, std::pair(-2.0, 4.0));
  EXPECT_EQ(data.primary, data.metrics.front());
}

TEST_F(InputsTest, ReadsPairs) {
  TrainingSource source{.data = scratch_.write("p.csv", "text,pair,label\na,b,x\nc,d,y\n").string()};
  source.columns.pair = "pair";
  const TrainingFacts facts = load(source).data.facts();
  EXPECT_EQ(facts.pairs, 2);
  EXPECT_TRUE(facts.of_pairs);
}

TEST_F(InputsTest, ReadsFeaturesAndFurtherSets) {
  const std::vector<std::string> two{"no", "yes"};
  const std::string train = features("train.safetensors", two, {0, 1, 0, 1}),
                    eval = features("eval.safetensors", two, {1, 0});
  const std::string more = features("more.safetensors", two, {1, 1, 0});
  const LoadedData loaded =
      load({.train_features = train, .eval_features = eval, .also = {"held-out=" + more, "b=" + eval}});
  EXPECT_EQ(loaded.data.train.rows(), 4U);
  EXPECT_EQ(loaded.data.eval.rows(), 2U);
  ASSERT_EQ(loaded.data.also.size(), 2U);
  EXPECT_EQ(loaded.data.also[0].name, "held-out");
  EXPECT_EQ(loaded.data.also[0].features.gold, (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(loaded.data.also[1].name, "b");
  EXPECT_EQ(loaded.data.outcome.problem, Problem::classification);
  EXPECT_EQ(loaded.data.outcome.labels, two);
  EXPECT_FALSE(loaded.user_file);
  EXPECT_FALSE(loaded.data.of_pairs);
  // Each token is a word for the linear model: token 10 says no, 11 yes, and the evaluation rows have them the wrong
  // way.
  ASSERT_EQ(loaded.data.baseline.size(), 2U);
  EXPECT_EQ(loaded.data.baseline[1].metrics.front().value, 0);
  EXPECT_TRUE(load({.train_features = features("pairs.safetensors", two, {0, 1}, true)}).data.of_pairs);
  EXPECT_EQ(load({.train_features = features("values.safetensors", {}, {0.5F, 1})}).data.outcome.problem,
            Problem::regression);
}

TEST_F(InputsTest, RejectsFurtherSetsThatDoNotFit) {
  const std::vector<std::string> two{"no", "yes"};
  const std::string train = features("train.safetensors", two, {0, 1});
  const auto also = [&](const std::string& text) { return message({.train_features = train, .also = {text}}); };
  for (const std::string wrong : {"=" + train, train, std::string("name=")})
    EXPECT_EQ(also(wrong), fmt::format("--also: got '{}', want NAME=FILE, e.g. held-out=rows.safetensors", wrong));
  EXPECT_EQ(also("a/b=" + train), "--also: got the name 'a/b', want one without '/'");
  const std::string other = features("other.safetensors", {"yes", "no"}, {0, 1});
  EXPECT_EQ(also("x=" + other), other + ": its labels are not those of the training features");
  const std::string open = features("open.safetensors", two, {0, NAN});
  EXPECT_EQ(also("x=" + open), open + ": row 1 has no label");
  EXPECT_EQ(message({.train_features = open}), open + ": row 1 has no label");
  EXPECT_EQ(message({.train_features = train, .eval_features = other}),
            other + ": its labels are not those of the training features");
  EXPECT_EQ(message({.train_features = train, .eval_features = open}), "evaluation data: row 1 has no label");
  const std::string none = features("none.safetensors", two, {});
  EXPECT_EQ(message({.train_features = none}), none + ": got no rows, want at least one");
  EXPECT_EQ(message({}), "--data is required");
}

TEST_F(InputsTest, ReadsTasksAsThePapersDo) {
  std::filesystem::create_directories(scratch_.path() / "SST-2");
  scratch_.write("SST-2/train.tsv", "sentence\tlabel\na great film\t1\na dull plot\t0\n");
  scratch_.write("SST-2/dev.tsv", "sentence\tlabel\nnever good\t0\n");
  const LoadedData loaded = load({.task = "SST-2", .data = scratch_.path().string(), .hold_out = 0.3});
  EXPECT_EQ(loaded.data.task, "SST-2");
  EXPECT_EQ(loaded.data.train.rows(), 2U);
  EXPECT_EQ(loaded.data.eval.rows(), 1U);
  EXPECT_FALSE(loaded.user_file);
  EXPECT_FALSE(loaded.data.columns);
  EXPECT_EQ(loaded.data.metrics, find_task("SST-2").metrics);
  EXPECT_EQ(loaded.data.primary, find_task("SST-2").primary);
  EXPECT_EQ(loaded.data.train.info.max_length, 64) << "128, or the model's positions";
  EXPECT_EQ(loaded.data.train.info.split, "train");
}

}  // namespace
}  // namespace exeunt
