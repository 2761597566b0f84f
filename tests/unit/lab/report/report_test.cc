// SPDX-License-Identifier: Apache-2.0
#include "lab/report/report.h"

#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/number.h"
#include "exeunt/base/random.h"
#include "exeunt/base/sha256.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
#include "lab/elue/elue.h"
#include "lab/papers/reproduction.h"
#include "lab/report/report_figures.h"
#include "tests/fixtures/golden_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;
using testing::Not;

ReportRun run_of(const ExitTrace& trace, std::string name) {
  return {.name = std::move(name),
          .trace = &trace,
          .policy = parse_policy("entropy:0.2"),
          .settings = default_settings(trace)};
}

// Model "a" has all six tasks and 33 M parameters, "b" one task and 60 M.
TEST(Leaderboard, SortsByScoreAndGroupsByParameters) {
  const Scratch scratch;
  const std::string a = (scratch.path() / "a.json").string(), b = (scratch.path() / "b.json").string();
  for (const std::string& task : elue_tasks())
    (void)keep_elue_score(a, {.task = task, .model = "a", .baseline = "x", .result = {1.5, 81, 33'000'000}},
                          Extrapolate::clamp);
  (void)keep_elue_score(b, {.task = "SST-2", .model = "b<", .baseline = "y", .result = {9, 95, 60'000'000}},
                        Extrapolate::linear);
  const Report report = leaderboard({b, a}, "Board");
  const std::string scores = report.html.substr(report.html.find("<h2>Scores"), report.html.find("at most 40 M"));
  EXPECT_LT(scores.find(">a<"), scores.find(">b&lt;<"));  // all six tasks before one, however high
  EXPECT_THAT(scores, HasSubstr("<td>33.00 M</td><td>40 M</td><td>1.50</td>"));
  EXPECT_THAT(scores, HasSubstr("<td>60.00 M</td><td>70 M</td><td>9.00</td><td>–</td>"));
  const auto part = [&](const std::string& from) {
    const size_t at = report.html.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return report.html.substr(at, report.html.find("</table>", at) - at);
  };
  EXPECT_THAT(part("at most 40 M"), Not(HasSubstr("b&lt;")));
  EXPECT_THAT(part("at most 55 M"), HasSubstr("<td>81.00</td>"));
  EXPECT_THAT(part("at most 70 M"), HasSubstr("b&lt;"));
  EXPECT_EQ(report.json.at("models").at(1).at("overall"), 1.5);
  EXPECT_FALSE(report.json.at("models").at(0).contains("overall"));
}

TEST(Published, EveryPaperHasFiguresInOneMeaningOfSpeed) {
  std::map<std::string, int> count;
  for (const PublishedFigure& figure : published_figures()) {
    ++count[figure.paper];
    EXPECT_GT(figure.score, 0);
    EXPECT_LT(figure.score, 1);
    EXPECT_GE(figure.speedup.value_or(1), 0.999);
  }
  EXPECT_EQ(count.size(), 5U);
  // DeeBERT, BERT-base, SST-2, the middle threshold: 40 % of the time saved is 1 / 0.6 times as fast.
  const auto sst2 = published_for("SST-2", Metric::accuracy);
  EXPECT_TRUE(std::any_of(sst2.begin(), sst2.end(), [](const PublishedFigure& f) {
    return f.paper == "DeeBERT" && f.method == "DeeBERT b" && f.backbone == "bert-base" &&
           std::abs(*f.speedup - 1 / 0.6) < 1e-9 && std::abs(f.score - 0.930) < 1e-9;
  }));
}

TEST(Report, ShowsEveryRunWithoutFetchingAnything) {
  const ExitTrace one = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  const ExitTrace two = read_trace(EXEUNT_TEST_DATA "/traces/sst2-elasticbert.dev.safetensors");
  const Report report =
      make_report({run_of(one, "readers"), run_of(two, "cls")}, {.environment = {{"exeunt", "test"}}});
  EXPECT_LE(report.html.size(), kMaxReportBytes);
  for (const char* part :
       {"readers", "cls", "Quality against speed-up", "Exit distribution", "Calibration", "published", "Environment"}) {
    EXPECT_THAT(report.html, HasSubstr(part));
  }
  EXPECT_THAT(report.html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(report.html, Not(HasSubstr("src=\"http")));
  EXPECT_EQ(report.json["runs"].size(), 2U);
  EXPECT_EQ(report.json["runs"][0]["each_exit"].size(), 12U);
  EXPECT_THAT(report.csv, HasSubstr("\nreaders,full,"));
  EXPECT_GT(report.vega_lite["data"]["values"].size(), 20U);
}

// Logits that are the same on every machine and surer of the label with depth.
ExitTrace made_trace(size_t rows, int classes, uint64_t seed) {
  ExitTrace trace;
  trace.rows = rows;
  trace.exits = 4;
  trace.width = classes;
  trace.info.weights = std::string(64, 'a');
  trace.info.data = std::string(64, 'd');
  trace.info.precision = "int8";
  trace.info.layers = {3, 6, 9, 12};
  if (classes == 1) trace.info.problem = Problem::regression;
  for (int c = 0; c < classes && classes > 1; ++c) trace.info.labels.push_back(fmt::format("label {}", c));
  SplitMix64 random(seed);
  for (size_t row = 0; row < rows; ++row) {
    const auto gold = random.below(static_cast<size_t>(classes == 1 ? 5 : classes));
    for (int exit = 1; exit <= 4; ++exit) {
      for (size_t c = 0; c < static_cast<size_t>(classes); ++c) {
        const float noise = static_cast<float>(random.below(10000)) / 2000;
        const float drawn = classes == 1 ? static_cast<float>(gold) : c == gold ? static_cast<float>(exit) : 0;
        trace.logits.push_back(drawn + noise);
      }
    }
    trace.gold.push_back(static_cast<float>(gold));
    trace.index.push_back(static_cast<int64_t>(row + 100));
    trace.lengths.push_back(static_cast<int32_t>(5 + random.below(20)));
  }
  return trace;
}

// Numbers that differ in their last bits between machines are rounded.
std::string rounded_text(const OrderedJson& json) {
  OrderedJson flat = json.flatten();
  for (OrderedJson& value : flat)
    if (value.is_number_float()) value = fmt::format("{:.4g}", value.get<double>());
  return flat.dump(1) + "\n";
}

std::string rounded_csv(const std::string& csv) {
  std::string out, field;
  for (const char c : csv) {
    if (c != ',' && c != '\n') {
      field += c;
      continue;
    }
    const auto value = field.find('.') == std::string::npos ? std::nullopt : number_of<double>(field);
    out += (value ? fmt::format("{:.4g}", *value) : field) + c;
    field.clear();
  }
  return out + field;
}

// The whole report of five runs: three of a task with published figures, values, sets of labels.
TEST(Report, IsWrittenAsStored) {
  ExitTrace first = made_trace(40, 2, 1), second = made_trace(40, 2, 2), values = made_trace(20, 1, 3);
  ExitTrace sets = made_trace(12, 3, 4);
  first.info.task = second.info.task = "SST-2";
  values.info.task = "STS-B";
  sets.info.problem = Problem::multi_label;
  sets.gold.clear();
  for (size_t i = 0; i < sets.rows * 3; ++i) sets.gold.push_back(i % 3 == i / 3 % 3 || i % 5 == 0 ? 1.0F : 0.0F);
  for (float& logit : sets.logits) logit -= 2;
  for (size_t row = 0; row < second.rows; ++row) {  // fp32 answers a few texts otherwise
    const std::span<const float> last = second.at(row, 3);
    second.reference.insert(second.reference.end(), {last[row % 9 == 0 ? 1 : 0], last[row % 9 == 0 ? 0 : 1]});
  }
  ReportRun readers{.name = "readers",
                    .trace = &first,
                    .policy = parse_policy("entropy:0.3"),
                    .settings = parse_sweep("entropy:0.1|0.3|0.5|0.6")};
  readers.scoring.mflops = [](int exit, int tokens, const std::vector<int>& asked) {
    return exit + 0.25 * tokens + static_cast<double>(asked.size());
  };
  readers.scoring.milliseconds = [](int exit, int tokens, const std::vector<int>&) { return exit + 1 + tokens / 16.0; };
  readers.certificate = Certificate{.max_drop = 0.01,
                                    .delta = 0.05,
                                    .rows = 3000,
                                    .fit = {},
                                    .certify = {},
                                    .tool = {},
                                    .created = {},
                                    .tokenizer = {}};
  readers.promise = promise_of(*readers.certificate, "int8");
  readers.text = [](int64_t index) {
    return index % 3 == 0 ? std::string{}
                          : fmt::format("text {} {}", index, std::string(static_cast<size_t>(index % 7 * 60), 'x'));
  };
  ReportRun cls{.name = "cls, 2", .trace = &second, .settings = parse_sweep("patience:1|2|3")};
  ReportRun sts{.name = "sts",
                .trace = &values,
                .primary = Metric::spearmanr,
                .policy = parse_policy("patience:2,tol=0.5"),
                .settings = parse_sweep("layer:3|6|12")};
  ReportRun tags{.name = "tags",
                 .trace = &sets,
                 .primary = Metric::micro_f1,
                 .policy = parse_policy("layer:6"),
                 .settings = parse_sweep("layer:3|6|12")};
  tags.data = "tags.csv";
  ReportRun again = cls;
  again.name = "again";
  const Report report = make_report({readers, cls, again, sts, tags},
                                    {.title = "Some <runs>", .environment = {{"exeunt", "1 & 2"}, {"made", "today"}}});
  const size_t begin = report.html.find("<main>"), end = report.html.find("</main>");
  ASSERT_NE(end, std::string::npos);
  expect_golden("report/report.html", report.html.substr(begin, end - begin));
  EXPECT_THAT(report.html.substr(0, begin), HasSubstr("<title>Some &lt;runs&gt;</title>"));
  expect_golden("report/report.csv", rounded_csv(report.csv));
  expect_golden("report/report.json", rounded_text(report.json));
  expect_golden("report/vega_lite.json", rounded_text(report.vega_lite));
  const Report plain = make_report({cls, sts}, {.published = false});
  expect_golden("report/plain.html",
                plain.html.substr(plain.html.find("<main>"), plain.html.find("</main>") - plain.html.find("<main>")));
}

// A browser runs a script only if it has the hash the page names.
TEST(Report, AllowsItsOwnScriptAndNoOther) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  const std::string html = make_report({run_of(trace, "one")}, {}).html;
  const auto between = [&](std::string_view before, std::string_view after) {
    const size_t begin = html.find(before) + before.size();
    return html.substr(begin, html.find(after, begin) - begin);
  };
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string hex;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : between("script-src 'sha256-", "='")) {
    bits = (bits << 6) | static_cast<uint32_t>(kDigits.find(digit));
    for (count += 6; count >= 4 && hex.size() < 64; count -= 4) hex += fmt::format("{:x}", (bits >> (count - 4)) & 15U);
  }
  EXPECT_EQ(hex, sha256_hex(between("<script>", "</script>")));
  EXPECT_THAT(html, Not(HasSubstr("script-src 'unsafe-inline'")));
}

TEST(Report, TasksHaveFiguresOfTheirOwn) {
  const ExitTrace sst2 = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  const ExitTrace mrpc = read_trace(EXEUNT_TEST_DATA "/traces/mrpc-exeunt.dev.safetensors");
  ReportRun pair = run_of(mrpc, "pairs");
  pair.scoring.metrics = {Metric::accuracy, Metric::f1, Metric::combined_score};
  pair.primary = Metric::combined_score;
  const Report report = make_report({run_of(sst2, "readers"), pair}, {});
  for (const char* part : {"accuracy, %", "f1, %", "RomeBERT (bert-base, published)"})
    EXPECT_THAT(report.html, HasSubstr(part)) << "MRPC in F1, which the papers published";
  EXPECT_THAT(report.csv, HasSubstr("\n\nrun,policy,accuracy,f1,")) << "a header where the metrics change";
  std::set<std::string> tasks;
  for (const OrderedJson& value : report.vega_lite["data"]["values"]) tasks.insert(value["task"].get<std::string>());
  EXPECT_EQ(tasks, (std::set<std::string>{"MRPC", "SST-2"}));
}

// Two files of the user's own are two figures, named after them.
TEST(Report, DataSetsHaveFiguresOfTheirOwn) {
  ExitTrace one = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors"), two = one;
  one.info.task = two.info.task = "";
  two.info.data = std::string(64, '7');
  ReportRun first = run_of(one, "spam"), second = run_of(two, "bank");
  first.data = "spam.csv";
  second.data = "bank.csv";
  const auto runs_of = [](const Report& report) {
    std::map<std::string, std::set<std::string>> runs;
    for (const OrderedJson& value : report.vega_lite["data"]["values"]) {
      const auto name = value["run"].get<std::string>();
      runs[value["task"].get<std::string>()].insert(name.substr(0, name.find(',')));
    }
    return runs;
  };
  using Runs = std::map<std::string, std::set<std::string>>;
  const Report report = make_report({first, second}, {});
  EXPECT_EQ(runs_of(report), (Runs{{"bank.csv", {"bank"}}, {"spam.csv", {"spam"}}}));
  EXPECT_EQ(report.json["runs"][1]["data"], "bank.csv");
  const auto figures_of = [](const std::string& html, const std::string& data) {
    size_t count = 0;
    const std::string title = ">" + data + "</text>";
    for (size_t at = html.find(title); at != std::string::npos; at = html.find(title, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(figures_of(report.html, "spam.csv"), 4U) << "against speed-up, at each exit, shares of texts, calibration";
  EXPECT_EQ(figures_of(report.html, "bank.csv"), 4U);
  two.info.data = one.info.data;
  EXPECT_EQ(runs_of(make_report({first, second}, {})), (Runs{{"spam.csv", {"bank", "spam"}}}));
}

TEST(Report, LinesStayWithinTheirAxes) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/rte-exeunt.dev.safetensors");
  ReportRun run = run_of(trace, "readers");
  run.primary = Metric::accuracy;
  run.settings = parse_sweep("layer:1|2|3|6|12");
  const Report report = make_report({run}, {.published = false});
  double low = 1e9, high = -1e9;
  for (const OrderedJson& value : report.vega_lite["data"]["values"]) {
    low = std::min(low, value["quality"].get<double>());
    high = std::max(high, value["quality"].get<double>());
  }
  EXPECT_LE(high - low, 20);
}

TEST(Report, ShowsEachClassAndConfusions) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  const Report report = make_report({run_of(trace, "readers")}, {});
  for (const char* part : {"<h2>Classes</h2>", "macro f1", "Labels (rows) and answers (columns)"})
    EXPECT_THAT(report.html, HasSubstr(part));
  const OrderedJson& run = report.json["runs"][0];
  int64_t texts = 0;
  for (const OrderedJson& row : run["confusion"])
    for (const OrderedJson& count : row) texts += count.get<int64_t>();
  EXPECT_EQ(texts, static_cast<int64_t>(trace.rows));
  EXPECT_EQ(run["classes"].size(), 2U);
  EXPECT_DOUBLE_EQ(run["micro_f1"].get<double>(), run["policy"]["accuracy"].get<double>());
}

TEST(Report, ManyClassesAreListedByPairs) {
  constexpr int kClasses = 20, kRows = 40;
  ExitTrace trace;
  trace.info.layers = {1};
  trace.rows = kRows;
  trace.exits = 1;
  trace.width = kClasses;
  for (int label = 0; label < kClasses; ++label) trace.info.labels.push_back(fmt::format("class {}", label));
  for (int row = 0; row < kRows; ++row) {
    const int gold = row % kClasses, answer = gold == 3 ? 4 : gold;
    trace.gold.push_back(static_cast<float>(gold));
    trace.index.push_back(row);
    trace.lengths.push_back(5);
    for (int label = 0; label < kClasses; ++label) trace.logits.push_back(label == answer ? 5.0F : 0.0F);
  }
  ReportRun run = run_of(trace, "many");
  run.policy = parse_policy("full");
  EXPECT_THAT(make_report({run}, {}).html,
              HasSubstr("<tr><td>class 3</td><td class=\"text\">class 4</td><td>2</td><td>2</td></tr>"));
}

TEST(Report, DefinesItsTerms) {
  for (const RuleInfo& rule : kRules) EXPECT_FALSE(explained(rule.name).empty()) << rule.name;
  for (const Metric metric :
       {Metric::accuracy, Metric::f1, Metric::matthews_correlation, Metric::pearson, Metric::spearmanr,
        Metric::combined_score, Metric::exact_match, Metric::micro_f1, Metric::macro_f1}) {
    EXPECT_FALSE(explained(name_of(metric)).empty()) << name_of(metric);
  }
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  const std::string html = make_report({run_of(trace, "readers")}, {}).html;
  EXPECT_THAT(html, HasSubstr("<abbr title=\"normalised entropy, from 0 (certain) to 1"));
  EXPECT_THAT(html, HasSubstr("<abbr title=\"share of texts with the same answer as at full depth, in fp32 where that "
                              "was measured\">agreement</abbr>"));
  EXPECT_THAT(html, HasSubstr("<title>leaves when so many exits in a row")) << "pointing at a name under a figure";
  EXPECT_EQ(explained("a word of no report"), "");
}

TEST(Report, MentionsPublishedFiguresOnlyIfShown) {
  ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  EXPECT_THAT(make_report({run_of(trace, "readers")}, {}).html, HasSubstr("Hollow marks are published"));
  EXPECT_THAT(make_report({run_of(trace, "readers")}, {.published = false}).html, Not(HasSubstr("Hollow marks")));
  trace.info.task.clear();
  EXPECT_THAT(make_report({run_of(trace, "own texts")}, {}).html, Not(HasSubstr("Hollow marks")));
}

TEST(Report, ShowsTheCertificateOfARunThatHasOne) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  ReportRun certified = run_of(trace, "readers");
  certified.certificate = Certificate{.max_drop = 0.01,
                                      .delta = 0.05,
                                      .rows = 3000,
                                      .fit = {},
                                      .certify = {},
                                      .tool = {},
                                      .created = {},
                                      .tokenizer = {}};
  certified.promise = promise_of(*certified.certificate, "int8");
  EXPECT_THAT(make_report({certified}, {}).html, HasSubstr("at most 1 % of answers to distinct texts differ from the "
                                                           "int8 model at full depth, confidence 95 %; tested by "
                                                           "ltt-binomial on 3000 texts"));
  EXPECT_THAT(make_report({run_of(trace, "readers")}, {}).html, Not(HasSubstr("Certificates")));
  // It is a point of the figure, at its own speed.
  const auto points = [](const Report& report) {
    std::vector<double> speeds;
    for (const OrderedJson& value : report.vega_lite["data"]["values"])
      if (value["run"] == "readers, certified") speeds.push_back(value["speedup"].get<double>());
    return speeds;
  };
  const Report report = make_report({certified}, {});
  ASSERT_EQ(points(report).size(), 1U);
  EXPECT_NEAR(points(report)[0], report.json["runs"][0]["policy"]["speedup_ratio"].get<double>(), 1e-9);
  EXPECT_THAT(points(make_report({run_of(trace, "readers")}, {})), testing::IsEmpty());
}

// A budget of 30 % may be certified, and is drawn all the same.
TEST(Report, DrawsCertifiedPointFarBelowFullDepth) {
  ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  const auto outputs = static_cast<size_t>(trace.exits * trace.width);
  for (size_t first = 0; first < trace.logits.size(); first += outputs)  // the first exit answers the opposite
    std::swap(trace.logits[first], trace.logits[first + 1]);
  ReportRun run = run_of(trace, "readers");
  run.policy = parse_policy("layer:1");
  run.certificate.emplace();
  const Report report = make_report({run}, {.published = false});
  const double full = report.json["runs"][0]["reference"]["accuracy"];
  const double certified = report.json["runs"][0]["policy"]["accuracy"];
  ASSERT_LT(certified, full - 0.3);
  EXPECT_THAT(report.html, HasSubstr("<title>readers, certified: layer:1;"));
  double lowest = 100;  // of the lines, which stay near full depth
  for (const OrderedJson& value : report.vega_lite["data"]["values"])
    lowest = std::min(lowest, value["quality"].get<double>());
  EXPECT_NEAR(lowest, 100 * certified, 1e-9);
}

// What a promise is about: fp32 at full depth, whatever precision ran.
TEST(Report, FullDepthIsOfTheReferenceThatAgreementIsWith) {
  ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  trace.info.precision = "int8";
  const OrderedJson own = make_report({run_of(trace, "readers")}, {}).json["runs"][0]["reference"];
  EXPECT_EQ(own["name"], "int8 at full depth");
  EXPECT_DOUBLE_EQ(own["accuracy"].get<double>(), 796.0 / 872);
  for (size_t row = 0; row < trace.rows; ++row)  // fp32 answers every text as it is labelled
    for (int label = 0; label < 2; ++label)
      trace.reference.push_back(static_cast<float>(label) == trace.gold[row] ? 3.0F : -3.0F);
  const Report report = make_report({run_of(trace, "readers")}, {});
  const OrderedJson& run = report.json["runs"][0];
  EXPECT_EQ(run["reference"]["name"], "fp32 at full depth");
  EXPECT_EQ(run["reference"]["accuracy"], 1.0);
  EXPECT_DOUBLE_EQ(run["policy"]["agreement"].get<double>(), run["policy"]["accuracy"].get<double>());
  EXPECT_THAT(report.html, HasSubstr("<td>100.00 % <span class=\"soft\">fp32</span></td>"));
}

TEST(Report, WithoutAPolicyInUseAFittingOneIsShown) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  ReportRun run = run_of(trace, "readers");
  run.policy.reset();
  const OrderedJson shown = make_report({run}, {}).json["runs"][0]["policy"];
  EXPECT_GE(shown["agreement"].get<double>(), kFittingAgreement);
  EXPECT_GT(shown["speedup_ratio"].get<double>(), 2);
}

TEST(Report, ShowsPredictedTimesWhereTheyAreKnown) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  ReportRun run = run_of(trace, "readers");
  EXPECT_THAT(make_report({run}, {}).html, Not(HasSubstr("<th>ms</th>")));
  run.scoring.milliseconds = [](int, int, const std::vector<int>&) { return 1.25; };
  EXPECT_THAT(make_report({run}, {}).html, HasSubstr("<td>1.250</td>"));
}

TEST(Report, NamesAndTextsCannotBecomeMarkup) {
  ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/rte-exeunt.dev.safetensors");
  const std::string hostile = "<img src=x onerror=alert(1)>";
  trace.info.labels[0] = hostile;
  trace.info.task = hostile;
  ReportRun run = run_of(trace, hostile);
  run.text = [&](int64_t) { return hostile; };
  const Report report = make_report({run}, {.title = hostile});
  EXPECT_THAT(report.html, Not(HasSubstr("<img")));
}

TEST(Report, RegressionIsShownWithItsOwnRules) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/stsb-exeunt.dev.safetensors");
  ReportRun run = run_of(trace, "sts-b");
  run.policy = parse_policy("patience:2,tol=0.2");
  run.primary = Metric::spearmanr;
  const Report report = make_report({run}, {});
  EXPECT_THAT(report.html, HasSubstr("patience"));
  EXPECT_THAT(report.html, Not(HasSubstr("Calibration</h2>")));
}

TEST(Examples, ShowsFirstLastAndChangedAnswers) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  const Departures departures = replay(trace, parse_policy("entropy:0.3"));
  const ExampleSets sets = pick_examples(trace, departures, {}, 5);
  ASSERT_EQ(sets.early.size(), 5U);
  EXPECT_EQ(sets.early[0].layer, 1);
  EXPECT_EQ(sets.late[0].layer, 12);
  ASSERT_FALSE(sets.wrong.empty());
  for (const ExampleRow& row : sets.wrong) EXPECT_NE(row.answer, row.full_depth);
  EXPECT_EQ(sets.wrong[0].full_depth, sets.wrong[0].gold) << "what leaving early cost comes first";
  EXPECT_THAT(sets.early[0].text, HasSubstr("row "));
}

}  // namespace
}  // namespace exeunt
