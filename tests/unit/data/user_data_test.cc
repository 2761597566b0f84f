// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/user_data.h"

#include <cmath>

#include "exeunt/base/sha256.h"
#include "exeunt/data/labels.h"
#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Dataset csv(std::string_view bytes, UserColumns columns = {}) {
  columns.format = DataFormat::csv;
  return parse_user_data(bytes, "f.csv", columns);
}

Dataset jsonl(std::string_view bytes, UserColumns columns = {}) {
  columns.format = DataFormat::jsonl;
  return parse_user_data(bytes, "f.jsonl", columns);
}

template <class Act>
std::string message(Act&& act) {
  const Error error = error_of(act);
  EXPECT_EQ(error.code(), Code::bad_file);
  return std::string(error.what()) + " | " + error.hint();
}

std::vector<float> gold(const Dataset& data) {
  std::vector<float> out;
  for (const Example& example : data.examples) out.push_back(example.gold);
  return out;
}

TEST(UserData, ReadsTheColumnOfClusters) {
  const auto clusters = [](const Dataset& data) {
    std::vector<std::string> out;
    for (const Example& example : data.examples) out.emplace_back(cluster_of(example));
    return out;
  };
  const std::string rows = "text,other,visit,label\na,x,7,p\na,y,8,q\n";
  UserColumns columns;
  EXPECT_THAT(clusters(csv(rows, columns)), ElementsAre("", ""));
  columns.cluster = "visit";
  EXPECT_THAT(clusters(csv(rows, columns)), ElementsAre("7", "8"));
  columns.cluster = "vist";
  EXPECT_THAT(message([&] { (void)csv(rows, columns); }), HasSubstr("visit"));
  columns = {};
  columns.pair = "other";
  EXPECT_THAT(clusters(csv(rows, columns)), ElementsAre("a", "a")) << "the first text of a pair";
  columns.cluster = "none";
  EXPECT_THAT(clusters(csv(rows, columns)), ElementsAre("", ""));
  columns = {};
  columns.label.clear();
  columns.cluster = "visit";
  EXPECT_THAT(clusters(jsonl("{\"text\": \"a\", \"visit\": 7}\n", columns)), ElementsAre("7"));
}

TEST(UserData, InfersLabelsInSortedOrder) {
  const Dataset data = csv("id,text,label\n1,a,spam\n2,b,ham\n3,c,spam\n");
  EXPECT_NE(data.problem, Problem::regression);
  EXPECT_THAT(data.labels, ElementsAre("ham", "spam"));
  EXPECT_THAT(gold(data), ElementsAre(1, 0, 1));
  EXPECT_THAT(csv("text,label\na,10\nb,9\n").labels, ElementsAre("9", "10"));
  EXPECT_THAT(csv("text,label\na,-1\nb,1\n").labels, ElementsAre("-1", "1"));
}

TEST(UserData, GivenLabelsKeepTheirOrderAndRejectOthers) {
  UserColumns columns;
  columns.labels = {"spam", "ham"};
  EXPECT_THAT(gold(csv("text,label\na,ham\nb,ham\n", columns)), ElementsAre(1, 1));
  EXPECT_THAT(message([&] { (void)csv("text,label\na,ham\nb,hamm\n", columns); }),
              HasSubstr("f.csv:3: column 2 ('label'): got label 'hamm', want one of spam, ham | did you mean 'ham'?"));
}

TEST(UserData, ManyGivenLabelsTakeLinearTime) {
  const auto labelled = [](size_t count) {
    std::pair<std::string, UserColumns> out;
    out.first = "text,label\n";
    out.second.format = DataFormat::csv;
    for (size_t i = 0; i < count; ++i) {
      out.second.labels.push_back(fmt::format("l{}", i));
      out.first += fmt::format("a,l{}\n", i);
    }
    return out;
  };
  EXPECT_LT(
      growth_exponent(3000, labelled, [](const auto& data) { (void)parse_user_data(data.first, "f", data.second); }),
      1.5);
}

TEST(UserData, QuotedFieldsPairsAndOtherColumnNames) {
  UserColumns columns;
  columns.text = "question";
  columns.pair = "the answer";
  columns.label = "ok";
  const Dataset data = csv("ok,question,note,the answer\r\nyes,\"a, \"\"b\"\"\nc\",,d\r\nno,e,x,\"\"\r\n", columns);
  ASSERT_EQ(data.examples.size(), 2U);
  EXPECT_EQ(data.examples[0].text, "a, \"b\"\nc");
  EXPECT_EQ(data.examples[0].pair, "d");
  EXPECT_EQ(data.examples[1].pair, "");
  EXPECT_THAT(data.labels, ElementsAre("no", "yes"));
}

TEST(UserData, NumbersWithAFractionAreARegression) {
  const Dataset data = csv("text,label\na,1\nb,2.5\nc,-3e0\n");
  EXPECT_EQ(data.problem, Problem::regression);
  EXPECT_THAT(gold(data), ElementsAre(1, 2.5F, -3));
  EXPECT_THAT(data.labels, IsEmpty());
  EXPECT_EQ(data.range, std::make_pair(-3.0, 2.5));
}

TEST(UserData, AcceptsGivenProblem) {
  UserColumns columns;
  columns.problem = Problem::regression;
  EXPECT_THAT(gold(csv("text,label\na,1\nb,2\n", columns)), ElementsAre(1, 2));
  EXPECT_THAT(message([&] { (void)csv("text,label\na,1\nb,good\n", columns); }),
              HasSubstr("f.csv:3: column 2 ('label'): got 'good', want a finite number"));
  columns.problem = Problem::classification;
  EXPECT_THAT(csv("text,label\na,1.5\nb,2.5\n", columns).labels, ElementsAre("1.5", "2.5"));
  columns.problem = Problem::regression;
  columns.labels = {"a", "b"};
  EXPECT_EQ(error_of([&] { (void)csv("text,label\na,1\n", columns); }).code(), Code::usage);
}

TEST(UserData, WithoutALabelColumnThereIsNoGold) {
  UserColumns columns;
  columns.label = "";
  const Dataset data = csv("text\na\n\nb\n", columns);
  ASSERT_EQ(data.examples.size(), 2U);
  EXPECT_TRUE(std::isnan(data.examples[0].gold));
  EXPECT_FALSE(data.labelled);
}

TEST(UserData, RejectsMissingAndDuplicateColumns) {
  EXPECT_THAT(message([] { (void)csv("sentence,label\na,b\n"); }),
              HasSubstr("f.csv:1: no column 'text' in the header, got 'sentence', 'label'"));
  UserColumns columns;
  columns.text = "sentense";
  EXPECT_THAT(message([&] { (void)csv("sentence,label\na,b\n", columns); }), HasSubstr("did you mean 'sentence'?"));
  EXPECT_THAT(message([] { (void)csv("text,label,text\na,b,c\n"); }),
              HasSubstr("column 'text' occurs 2 times in the header"));
}

TEST(UserData, RejectsRowsOfAnotherWidth) {
  EXPECT_THAT(message([] { (void)csv("text,label\na,b\nc, d,e\n"); }),
              HasSubstr("f.csv:3: got 3 columns, want 2 as in the header | put fields that contain a separator"));
  UserColumns columns;
  columns.format = DataFormat::tsv;
  EXPECT_THAT(message([&] { (void)parse_user_data("text\tlabel\na\n", "f.tsv", columns); }),
              HasSubstr("f.tsv:2: got 1 columns, want 2 as in the header | TSV has no quoting"));
}

TEST(UserData, RejectsEmptySingleAndTooManyLabels) {
  EXPECT_THAT(message([] { (void)csv("text,label\na,x\nb,\n"); }),
              HasSubstr("f.csv:3: column 2 ('label'): got an empty label"));
  EXPECT_THAT(message([] { (void)csv("text,label\na,x\nb,x\n"); }), HasSubstr("got one label only, 'x'"));
  std::string many = "text,label\n";
  for (size_t i = 0; i <= kMaxLabels; ++i) many += "a,l" + std::to_string(i) + "\n";
  EXPECT_THAT(message([&] { (void)csv(many); }), HasSubstr("got 65537 different labels, want at most 65536"));
}

TEST(UserData, RejectsInvalidUtf8StrayQuotesAndEmptyFiles) {
  EXPECT_THAT(message([] { (void)csv("text,label\nok,x\n\"caf\xE9\",y\n"); }),
              HasSubstr("f.csv:3: column 1 ('text'): byte 4 is 0xE9, want valid UTF-8"));
  EXPECT_THAT(message([] { (void)csv("text,label\n5\" disk,x\n"); }), HasSubstr("f.csv:2: column 1: got a quote"));
  EXPECT_THAT(message([] { (void)csv(""); }), HasSubstr("got an empty file"));
  EXPECT_THAT(message([] { (void)csv("text,label\n"); }), HasSubstr("got no row of data"));
  EXPECT_THAT(message([] { (void)csv(std::string_view("\xFF\xFEt\0", 4)); }), HasSubstr("UTF-16"));
}

TEST(UserData, JsonlAcceptsStringsNumbersAndBooleansAsLabels) {
  const Dataset words =
      jsonl("{\"text\":\"a\\nb\",\"label\":\"x\",\"other\":[1]}\n\n{\"label\":\"y\",\"text\":\"\\u00e9\"}");
  EXPECT_EQ(words.examples[0].text, "a\nb");
  EXPECT_EQ(words.examples[1].text, "é");
  EXPECT_EQ(words.examples[1].index, 1);
  EXPECT_THAT(jsonl("{\"text\":\"a\",\"label\":1}\n{\"text\":\"b\",\"label\":0}").labels, ElementsAre("0", "1"));
  EXPECT_THAT(jsonl("{\"text\":\"a\",\"label\":true}\n{\"text\":\"b\",\"label\":false}").labels,
              ElementsAre("false", "true"));
  EXPECT_THAT(gold(jsonl("{\"text\":\"a\",\"label\":1.25}\n{\"text\":\"b\",\"label\":3}")), ElementsAre(1.25F, 3));
}

TEST(UserData, JsonlErrorsHaveTheLine) {
  const std::string good = "{\"text\":\"a\",\"label\":\"x\"}\n";
  EXPECT_THAT(message([&] { (void)jsonl(good + "{\"text\":\"a\",}\n"); }),
              HasSubstr("f.jsonl:2: no valid JSON at column 13"));
  EXPECT_THAT(message([&] { (void)jsonl(good + "[1]\n"); }), HasSubstr("f.jsonl:2: got a list, want one object"));
  EXPECT_THAT(message([&] { (void)jsonl(good + "{\"txt\":\"a\",\"label\":\"x\"}\n"); }),
              HasSubstr("f.jsonl:2: no field 'text' | did you mean 'txt'?"));
  EXPECT_THAT(message([&] { (void)jsonl(good + "{\"text\":7,\"label\":\"x\"}\n"); }),
              HasSubstr("f.jsonl:2: field 'text': got 7, want a string"));
  EXPECT_THAT(message([&] { (void)jsonl(good + "{\"text\":\"a\",\"label\":null}\n"); }),
              HasSubstr("f.jsonl:2: field 'label': got null, want a string or a number"));
  EXPECT_THAT(message([&] { (void)jsonl(good + "{\"text\":\"\xFF\",\"label\":\"x\"}\n"); }),
              HasSubstr("f.jsonl:2: column 1: byte 10 is 0xFF, want valid UTF-8"));
}

TEST(UserData, ReadsFilesByExtension) {
  const Scratch scratch;
  const std::string tsv = "text\tlabel\n\"a\tx\nb\ty\n";
  const Dataset data = read_user_data(scratch.write("d.tsv", tsv), {});
  EXPECT_EQ(data.examples[0].text, "\"a");
  EXPECT_EQ(data.sha256, sha256_hex(tsv));
  EXPECT_EQ(read_user_data(scratch.write("d.csv", "text,label\na,x\nb,y\n"), {}).examples.size(), 2U);
  EXPECT_EQ(read_user_data(scratch.write("d.ndjson", "{\"text\":\"a\",\"label\":0.5}"), {}).examples.size(), 1U);
  const Error error = error_of([&] { (void)read_user_data(scratch.write("d.xlsx", "PK"), {}); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("got extension '.xlsx', want .csv, .tsv or .jsonl"));
  EXPECT_EQ(error_of([&] { (void)read_user_data(scratch.path() / "none.csv", {}); }).code(), Code::bad_file);
}

TEST(UserData, SkipsRowsWithoutTextWithNotice) {
  const Dataset data = csv("text,label\na,x\n,x\nb,y\n\" \t\n\",odd\n");
  EXPECT_THAT(data.labels, ElementsAre("x", "y")) << "the label of a row that is left out is none";
  EXPECT_THAT(gold(data), ElementsAre(0, 1));
  EXPECT_EQ(data.examples[1].index, 2);
  EXPECT_EQ(data.skipped, 2);
  EXPECT_THAT(data.notices, ElementsAre("f.csv: skipped 2 rows without a text, the first at f.csv:3"));
  EXPECT_THAT(jsonl("{\"text\":\"a\",\"label\":0.5}\n{\"text\":\"\",\"label\":0.5}\n").notices,
              ElementsAre("f.jsonl:2: skipped a row without a text"));
  EXPECT_THAT(message([&] { (void)csv("text,label\n,x\n,y\n"); }),
              HasSubstr("f.csv: got 2 rows without a text, want texts | check that 'text' is the text column"));
}

TEST(UserData, PairIsBlankIfBothTextsAre) {
  UserColumns columns;
  columns.pair = "pair";
  const Dataset data = csv("text,pair,label\n,b,x\na,,y\n , ,x\n", columns);
  EXPECT_EQ(data.examples.size(), 2U);
  EXPECT_EQ(data.skipped, 1);
}

TEST(UserData, ColumnsSurviveJson) {
  UserColumns columns;
  columns.text = "body";
  columns.pair = "title";
  columns.separator = ';';
  const UserColumns again = columns_from(Json::parse(columns_json(columns).dump()));
  EXPECT_EQ(again.text, "body");
  EXPECT_EQ(again.pair, "title");
  EXPECT_EQ(again.label, "label");
  EXPECT_EQ(again.separator, ';');
  for (const char* text : {"null", "[]", "{\"text\": 3, \"separator\": \"ab\"}"}) {
    EXPECT_EQ(columns_from(Json::parse(text)).text, "text") << text;
    EXPECT_EQ(columns_from(Json::parse(text)).separator, ',') << text;
  }
}

TEST(UserData, ReadsAndSuggestsAnotherSeparator) {
  UserColumns columns;
  EXPECT_THAT(message([&] { (void)csv("text;label\na;x\n", columns); }),
              HasSubstr("no column 'text' in the header, got 'text;label' | if ';' separates the columns, add "
                        "--separator ';'"));
  EXPECT_THAT(message([&] { (void)csv("text\tlabel\na\tx\n", columns); }), HasSubstr("add --separator tab"));
  columns.separator = ';';
  EXPECT_EQ(csv("text;label\na, b;x\n\"c;d\";y\n", columns).examples[1].text, "c;d");
}

TEST(UserData, BadRowsCanBeCollectedInstead) {
  UserColumns columns;
  columns.format = DataFormat::csv;
  int problems = 0;
  const Dataset data =
      parse_user_data("text,label\na,x\nb\nc,y\n", "f.csv", columns, [&](const Error&) { ++problems; });
  EXPECT_EQ(problems, 1);
  EXPECT_EQ(data.skipped, 1);
  EXPECT_THAT(gold(data), ElementsAre(0, 1));
  EXPECT_EQ(data.examples[1].index, 2);
}

// The index joins predictions, traces and texts: it is the row in the file, whatever was left out before it.
TEST(UserData, IndexCountsOmittedRowsInEveryFormat) {
  const std::vector<std::tuple<DataFormat, char, std::string>> files = {
      {DataFormat::csv, ',', "text,label\na,x\n ,x\nb\nc,y\n"},
      {DataFormat::csv, ';', "text;label\na;x\n ;x\nb\nc;y\n"},
      {DataFormat::tsv, ',', "text\tlabel\na\tx\n \tx\nb\nc\ty\n"},
      {DataFormat::jsonl, ',',
       "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\" \",\"label\":\"x\"}\n{\"text\":\"b\"}\n"
       "{\"text\":\"c\",\"label\":\"y\"}\n"}};
  for (const auto& [format, separator, bytes] : files) {
    UserColumns columns;
    columns.format = format;
    columns.separator = separator;
    int problems = 0;
    const Dataset data = parse_user_data(bytes, "f", columns, [&](const Error&) { ++problems; });
    EXPECT_EQ(problems, 1) << bytes;
    EXPECT_EQ(data.skipped, 2) << bytes;
    ASSERT_EQ(data.examples.size(), 2U) << bytes;
    EXPECT_EQ(data.examples[0].index, 0) << bytes;
    EXPECT_EQ(data.examples[1].index, 3) << bytes;
    EXPECT_THAT(gold(data), ElementsAre(0, 1)) << bytes;
  }
}

TEST(UserData, FlagsListOnlyNonDefaultValues) {
  EXPECT_EQ(flags_for(DataSource{}), "");
  DataSource source{.path = "my data.csv", .limit = 5};
  source.columns.text = "body";
  source.columns.separator = '\t';
  source.columns.labels = {"no", "yes"};
  EXPECT_EQ(flags_for(source), " --data 'my data.csv' --text-column body --separator tab --labels no,yes --limit 5");
  EXPECT_EQ(flags_for(DataSource{.task = "RTE", .path = "glue", .split = "train"}),
            " --task RTE --data glue --split train");
}

TEST(UserData, FlagsListEveryColumn) {
  UserColumns columns;
  columns.text = "body";
  columns.pair = "other";
  columns.label = "kind";
  columns.separator = ';';
  columns.skip_bad = true;
  columns.problem = Problem::regression;
  EXPECT_EQ(flags_for(columns),
            " --text-column body --pair-column other --label-column kind --separator ';' --skip-bad --regression");
  columns = {};
  columns.problem = Problem::multi_label;
  EXPECT_EQ(flags_for(columns), " --multi-label");
  columns.label_columns = {"a", "b"};
  EXPECT_EQ(flags_for(columns), " --label-columns a,b");
}

TEST(UserData, LinesOfTextHaveNoLabels) {
  const Scratch scratch;
  UserColumns columns;
  columns.label.clear();
  const Dataset data = read_user_data(scratch.write("d.txt", "one, \"two\"\nthree\n").string(), columns);
  ASSERT_EQ(data.examples.size(), 2U);
  EXPECT_EQ(data.examples[0].text, "one, \"two\"");
  EXPECT_EQ(data.examples[1].text, "three");
  EXPECT_EQ(data.examples[1].index, 1);
  EXPECT_TRUE(std::isnan(data.examples[0].gold));
  EXPECT_FALSE(data.labelled);
  EXPECT_EQ(error_of([&] { (void)read_user_data((scratch.path() / "d.txt").string(), {}); }).code(), Code::usage)
      << "labels are asked for";
}

TEST(UserData, SourceLacksLabelsWithoutTheirColumn) {
  const Scratch scratch;
  const auto lacks = [&](const char* name, const char* bytes, auto&& change) {
    DataSource source{.path = scratch.write(name, bytes).string()};
    change(source);
    return lacks_labels(source);
  };
  const auto as_it_is = [](DataSource&) {};
  EXPECT_TRUE(lacks("a.csv", "text,other\na,b\n", as_it_is));
  EXPECT_FALSE(lacks("a.csv", "text,label\na,b\n", as_it_is));
  EXPECT_FALSE(lacks("a.csv", "text,lable\na,b\n", as_it_is)) << "a typo, which reading reports";
  EXPECT_TRUE(lacks("a.txt", "a\nb\n", as_it_is));
  EXPECT_FALSE(lacks("a.csv", "text,other\n", as_it_is)) << "no rows, which reading reports";
  EXPECT_FALSE(lacks("a.csv", "text,other\na,b\n", [](DataSource& s) { s.task = "RTE"; }));
  EXPECT_FALSE(lacks("a.csv", "text,other\na,b\n", [](DataSource& s) { s.columns.label = "kind"; }));
  EXPECT_FALSE(lacks("a.csv", "text,other\na,b\n", [](DataSource& s) { s.columns.label_columns = {"x"}; }));
  EXPECT_FALSE(lacks_labels({.path = (scratch.path() / "none.csv").string()}));
}

TEST(UserData, CountsBadRowsInMessageAndNotice) {
  const auto bad = [](int rows) {
    std::string bytes = "text,label\na,x\nb,y\n";
    for (int i = 0; i < rows; ++i) bytes += "c\n";
    return bytes;
  };
  const std::string first = "f.csv:4: got 1 columns, want 2";
  EXPECT_THAT(message([&] { (void)csv(bad(1)); }),
              AllOf(HasSubstr(first), Not(HasSubstr("more bad")), HasSubstr("--skip-bad leaves the row out")));
  EXPECT_THAT(message([&] { (void)csv(bad(2)); }),
              AllOf(HasSubstr("(and 1 more bad row)"), HasSubstr("--skip-bad leaves such rows out")));
  EXPECT_THAT(message([&] { (void)csv(bad(3)); }), HasSubstr("(and 2 more bad rows)"));
  UserColumns columns;
  columns.skip_bad = true;
  EXPECT_THAT(csv(bad(1), columns).notices.at(0),
              testing::StartsWith("f.csv: --skip-bad: skipped 1 bad row, the first: " + first));
  EXPECT_THAT(csv(bad(2), columns).notices.at(0), testing::StartsWith("f.csv: --skip-bad: skipped 2 bad rows, the"));
}

TEST(UserData, RefusesAFileWithoutRows) {
  const Scratch scratch;
  Dataset none;
  EXPECT_STREQ(error_of([&] { keep_first_rows(none, 3, "f.csv"); }).what(), "f.csv: got no rows, want at least one");
}

TEST(UserData, SourceIsFileOrTaskInFolder) {
  const Scratch scratch;
  const std::string file = scratch.write("d.csv", "text,label\na,x\nb,y\nc,x\n").string();
  EXPECT_EQ(load_data({.path = file}).examples.size(), 3U);
  EXPECT_EQ(load_data({.path = file, .limit = 2}).examples.size(), 2U);
  EXPECT_EQ(load_data({.path = file, .limit = 9}).examples.size(), 3U);
  const auto refused = [](const DataSource& source) {
    return std::string(error_of([&] { (void)load_data(source); }).what());
  };
  EXPECT_THAT(refused({}), HasSubstr("--data is required"));
  EXPECT_THAT(refused({.path = file, .split = "dev"}), HasSubstr("--split goes with --task"));
  std::filesystem::create_directory(scratch.path() / "empty");
  EXPECT_THAT(refused({.path = (scratch.path() / "empty").string()}),
              HasSubstr("want .csv, .tsv or .jsonl files in it"));
  EXPECT_THAT(refused({.task = "RTE", .path = scratch.path().string()}), HasSubstr("no dev.tsv of task RTE"));
}

}  // namespace
}  // namespace exeunt
