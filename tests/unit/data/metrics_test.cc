// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/metrics.h"

#include <cmath>

#include "exeunt/base/json.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

const Json& golden() {
  static const Json value = read_json(std::filesystem::path(EXEUNT_TEST_DATA) / "data/golden/metrics.json");
  return value;
}

double number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const auto word = value.get<std::string>();
  return word == "nan" ? std::nan("") : word == "inf" ? INFINITY : -INFINITY;
}

std::vector<double> numbers(const Json& values) {
  std::vector<double> out;
  for (const Json& value : values) out.push_back(number(value));
  return out;
}

void expect_equal(double got, const Json& want, const std::string& name) {
  if (std::isnan(number(want))) {
    EXPECT_TRUE(std::isnan(got)) << name << ": got " << got;
  } else {
    EXPECT_NEAR(got, number(want), 1e-12) << name;
  }
}

TEST(Metrics, ClassesAgreeWithScikitLearn) {
  ASSERT_GE(golden()["classes"].size(), 20U);
  for (const Json& item : golden()["classes"]) {
    const auto predicted = item["predicted"].get<std::vector<int>>();
    const auto gold = item["gold"].get<std::vector<int>>();
    const auto name = item["name"].get<std::string>();
    expect_equal(accuracy(predicted, gold), item["accuracy"], name);
    expect_equal(f1(predicted, gold), item["f1"], name);
    expect_equal(matthews_correlation(predicted, gold), item["matthews_correlation"], name);
  }
}

TEST(Metrics, ValuesAgreeWithSciPy) {
  ASSERT_GE(golden()["values"].size(), 30U);
  for (const Json& item : golden()["values"]) {
    const auto predicted = numbers(item["predicted"]);
    const auto gold = numbers(item["gold"]);
    const auto name = item["name"].get<std::string>();
    expect_equal(pearson(predicted, gold), item["pearson"], name);
    expect_equal(spearmanr(predicted, gold), item["spearmanr"], name);
  }
}

TEST(Metrics, NoRowsGiveNaNOrZero) {
  EXPECT_TRUE(std::isnan(accuracy({}, {})));
  EXPECT_TRUE(std::isnan(pearson({}, {})));
  EXPECT_TRUE(std::isnan(spearmanr({}, {})));
  EXPECT_EQ(f1({}, {}), 0);
  EXPECT_EQ(matthews_correlation({}, {}), 0);
}

TEST(Metrics, ValuesAtTheEdgesOfADoubleStillCorrelate) {
  const std::vector<double> huge = {1e308, -1e308, 1.5e308}, tiny = {3e-320, 1e-320, 4e-320}, plain = {2, 1, 3};
  EXPECT_GT(pearson(huge, plain), 0.9);
  EXPECT_GT(pearson(tiny, plain), 0.9);
  EXPECT_NEAR(spearmanr(huge, tiny), 1, 1e-12);
}

TEST(Metrics, InfinitiesHaveARank) {
  const std::vector<double> a = {-INFINITY, 0, INFINITY}, b = {1, 2, 3};
  EXPECT_NEAR(spearmanr(a, b), 1, 1e-12);
  EXPECT_TRUE(std::isnan(pearson(a, b)));
}

TEST(Metrics, KeysAreThoseOfTheFormats) {
  for (const char* key : {"accuracy", "f1", "matthews_correlation", "pearson", "spearmanr", "combined_score"}) {
    ASSERT_TRUE(metric_named(key)) << key;
    EXPECT_EQ(name_of(*metric_named(key)), key);
  }
  EXPECT_FALSE(metric_named("mcc"));
}

TEST(Metrics, CombinedScoreIsTheMeanOfTheOthers) {
  const std::vector<Metric> metrics = {Metric::accuracy, Metric::f1, Metric::combined_score};
  const std::vector<float> predicted = {1, 1, 0, 0, 1, 0, 1, 0}, gold = {1, 0, 0, 1, 1, 0, 1, 1};
  const auto scores = score(metrics, predicted, gold);
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_NEAR(scores[0].value, 0.625, 1e-12);
  EXPECT_NEAR(scores[1].value, 2.0 / 3, 1e-12);
  EXPECT_EQ(scores[2].metric, Metric::combined_score);
  EXPECT_NEAR(scores[2].value, (0.625 + 2.0 / 3) / 2, 1e-12);
  // It stands where it was asked for.
  const auto first = score(std::vector<Metric>{Metric::combined_score, Metric::accuracy, Metric::f1}, predicted, gold);
  EXPECT_EQ(first[0].metric, Metric::combined_score);
  EXPECT_EQ(first[0].value, scores[2].value);
  EXPECT_EQ(first[2].metric, Metric::f1);
}

TEST(Metrics, RegressionScoresReadValues) {
  const std::vector<float> predicted = {1, 2.5, 2.5, 4, 0.5}, gold = {0, 3, 2, 5, 1};
  const auto scores = score(default_metrics(Problem::regression, 0), predicted, gold);
  EXPECT_NEAR(scores[0].value, 0.927383, 1e-6);
  EXPECT_NEAR(scores[1].value, 0.872082, 1e-6);
  EXPECT_NEAR(scores[2].value, (scores[0].value + scores[1].value) / 2, 1e-12);
}

TEST(Metrics, DefaultsHaveF1OfTwoClassesOnly) {
  EXPECT_EQ(default_metrics(Problem::classification, 2),
            (std::vector{Metric::accuracy, Metric::f1, Metric::matthews_correlation}));
  EXPECT_EQ(default_metrics(Problem::classification, 3), (std::vector{Metric::accuracy, Metric::matthews_correlation}));
}

TEST(Metrics, RejectsRowWithoutGold) {
  const std::vector<Metric> metrics = {Metric::accuracy};
  const std::vector<float> predicted = {1, 1}, gold = {1, NAN};
  const Error error = error_of([&] { (void)score(metrics, predicted, gold); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("row 1: no gold label"));
}

TEST(Metrics, ChecksEqualLengths) {
  const std::vector<int> two = {1, 0}, one = {1};
  EXPECT_THROW((void)accuracy(two, one), std::logic_error);
  EXPECT_THROW((void)f1(two, one), std::logic_error);
  EXPECT_THROW((void)matthews_correlation(two, one), std::logic_error);
  const std::vector<double> x = {1, 2}, y = {1};
  EXPECT_THROW((void)pearson(x, y), std::logic_error);
  EXPECT_THROW((void)spearmanr(x, y), std::logic_error);
}

}  // namespace
}  // namespace exeunt
