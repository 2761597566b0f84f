// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/eval/examples.h"
#include "exeunt/eval/published.h"
#include "exeunt/exits/policy_text.h"

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
       {"readers", "cls", "Quality against speed-up", "Where texts leave", "Calibration", "published", "Environment"}) {
    EXPECT_THAT(report.html, HasSubstr(part));
  }
  EXPECT_THAT(report.html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(report.html, Not(HasSubstr("src=\"http")));
  EXPECT_EQ(report.json["runs"].size(), 2U);
  EXPECT_EQ(report.json["runs"][0]["each_exit"].size(), 12U);
  EXPECT_THAT(report.csv, HasSubstr("\nreaders,full,"));
  EXPECT_GT(report.vega_lite["data"]["values"].size(), 20U);
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

TEST(Report, ARegressionIsShownWithItsOwnRules) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/stsb-exeunt.dev.safetensors");
  ReportRun run = run_of(trace, "sts-b");
  run.policy = parse_policy("patience:2,tol=0.2");
  run.primary = Metric::spearmanr;
  const Report report = make_report({run}, {});
  EXPECT_THAT(report.html, HasSubstr("patience"));
  EXPECT_THAT(report.html, Not(HasSubstr("Expected calibration error")));
}

TEST(Examples, AreTheFirstTheLastAndThoseAnsweredDifferently) {
  const ExitTrace trace = read_trace(EXEUNT_TEST_DATA "/traces/sst2-exeunt.dev.safetensors");
  const Departures departures = replay(trace, parse_policy("entropy:0.3"));
  const ExampleSets sets = pick_examples(trace, departures, {}, 5);
  ASSERT_EQ(sets.early.size(), 5U);
  EXPECT_EQ(sets.early[0].layer, 1);
  EXPECT_EQ(sets.late[0].layer, 12);
  ASSERT_FALSE(sets.wrong.empty());
  for (const ExampleRow& row : sets.wrong) EXPECT_NE(row.answer, row.full_depth);
  EXPECT_THAT(sets.early[0].text, HasSubstr("row "));
}

}  // namespace
}  // namespace exeunt
