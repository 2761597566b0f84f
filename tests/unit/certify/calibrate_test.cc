// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/calibrate.h"

#include <map>
#include <numeric>
#include <random>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "exeunt/certify/losses.h"
#include "exeunt/certify/risk.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Calibrate, CertifiesARealModel) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("sst2-exeunt.held")), 42);
  const Calibration result = calibrate(data, {.max_drops = {0.01, 0.02, 0.05}, .delta = 0.05});
  ASSERT_EQ(result.outcomes.size(), 3u);
  double cost = 1;
  for (const DropOutcome& outcome : result.outcomes) {
    EXPECT_LT(outcome.certify_cost, cost) << "a larger budget buys more";
    EXPECT_LE(outcome.p_value, outcome.max_drop == 0.01 ? 0.8 * 0.05 : 0.1 * 0.05) << "the first is the one that runs";
    EXPECT_LE(outcome.report, outcome.max_drop);
    ASSERT_TRUE(outcome.interval.has_value());
    EXPECT_LT(outcome.interval->low, outcome.report);
    EXPECT_GT(outcome.interval->high, outcome.report);
    cost = outcome.certify_cost;
  }
  EXPECT_LT(cost, 0.5);
  EXPECT_EQ(result.entry.points.size(), 3u);
  EXPECT_EQ(result.entry.policy, result.entry.points[0].policy);
  EXPECT_EQ(result.entry.certificate->rows, 3000);
  EXPECT_EQ(result.entry.certificate->budgets, 3);
  EXPECT_EQ(result.entry.certificate->method, RiskMethod::ltt_binomial);
  EXPECT_EQ(result.trials.front().family, std::string(info_of(result.entry.policy.rule).name));
  const double margin = 1 + 1 / std::sqrt(1000);  // of the fit part
  for (const FamilyTrial& trial : result.trials)
    EXPECT_GE(margin * trial.cost_fraction, result.trials.front().cost_fraction);
  for (const PolicyPoint& point : result.entry.points) {
    ASSERT_EQ(point.exit_rates.size(), 12u);
    double layers = 0;  // the rates say how deep the rows went, and so must the cost
    for (size_t exit = 0; exit < 12; ++exit) layers += point.exit_rates[exit] * static_cast<double>(exit + 1);
    EXPECT_NEAR(layers / 12, point.cost_fraction, 1e-5);
  }
  // The entry stands in a file as it is.
  PolicyFile file{data.fit.info.weights, "fp32", {result.entry}};
  EXPECT_NO_THROW((void)parse_policy_file(policy_file_text(file), "p"));
  EXPECT_NO_THROW((void)bind(result.entry.complete(), data.fit.sites()));
}

// Rows of the same shape that say something else: other logits, other labels.
void overwrite(ExitTrace& part) {
  std::mt19937 random(7);
  std::normal_distribution<float> noise;
  for (float& logit : part.logits) logit = 3 * noise(random);
  for (float& score : part.lte) score = static_cast<float>(random() % 1000) / 1000;
  for (float& gold : part.gold)
    gold = part.info.problem == Problem::regression ? 9 * noise(random)
                                                    : static_cast<float>(random() % static_cast<unsigned>(part.width));
}

struct Separation {
  const char* trace;
  CalibrationPlan plan;
};

// The promise holds only if the certify rows chose nothing: not a temperature, a family, a setting or its place.
TEST(Calibrate, ChoosesNothingByTheCertifyRows) {
  const Separation cases[] = {
      {"sst2-exeunt.held", {.max_drops = {0.02, 0.05}}},
      {"mnli-exeunt.held", {.max_drops = {0.05}}},
      {"mnli-exeunt.held", {.max_drops = {0.05}, .loss = RiskLoss::zero_one_drop}},
      {"sst2-exeunt.held", {.max_drops = {0.02}, .method = RiskMethod::crc, .exits = {2, 4, 6, 12}}},
      {"stsb-exeunt.dev", {.max_drops = {0.05}}},  // and the range of its labels comes from the fit part
  };
  for (const auto& [name, plan] : cases) {
    const CalibrationData data = split_for_calibration(read_trace(real_trace(name)), 42);
    CalibrationData other = data;
    overwrite(other.certify);
    const Calibration a = calibrate(data, plan), b = calibrate(other, plan);
    EXPECT_NE(a.outcomes[0].policy, b.outcomes[0].policy) << name << ": the certify rows decide what passes";
    EXPECT_EQ(a.entry.decision_temperature, b.entry.decision_temperature) << name;
    EXPECT_EQ(a.entry.exits, b.entry.exits) << name;
    EXPECT_EQ(a.sequence, b.sequence) << name;
    ASSERT_EQ(a.trials.size(), b.trials.size()) << name;
    for (size_t i = 0; i < a.trials.size(); ++i) {
      EXPECT_EQ(a.trials[i].family, b.trials[i].family) << name;
      EXPECT_EQ(a.trials[i].cost_fraction, b.trials[i].cost_fraction) << name << ' ' << a.trials[i].family;
    }
    // Nor do the rows that report.
    other = data;
    overwrite(other.report);
    const Calibration c = calibrate(other, plan);
    EXPECT_EQ(a.sequence, c.sequence) << name;
    EXPECT_NE(a.outcomes[0].report, c.outcomes[0].report) << name;
    for (size_t i = 0; i < a.outcomes.size(); ++i) EXPECT_EQ(a.outcomes[i].policy, c.outcomes[i].policy) << name;
  }
}

// What is expected of a family on the fit part is about what its certificate then comes to, whatever the loss.
TEST(Calibrate, ExpectedCostIsCloseToCertifiedCost) {
  const Separation cases[] = {
      {"sst2-exeunt.held", {.max_drops = {0.02}}},
      {"mnli-exeunt.held", {.max_drops = {0.05}}},
      {"sst2-exeunt.held", {.max_drops = {0.02}, .loss = RiskLoss::zero_one_drop}},
      {"mnli-exeunt.held", {.max_drops = {0.05}, .loss = RiskLoss::zero_one_drop}},
      {"sst2-exeunt.held", {.max_drops = {0.02}, .method = RiskMethod::ltt_hb}},
      {"sst2-exeunt.held", {.max_drops = {0.02}, .method = RiskMethod::crc}},
      {"stsb-exeunt.dev", {.max_drops = {0.05}, .range = {{0, 5}}}},
  };
  for (auto [name, plan] : cases) {
    const CalibrationData data = split_for_calibration(read_trace(real_trace(name)), 42);
    double chosen = 0, cheapest = 1;
    for (const FamilyTrial& trial : calibrate(data, plan).trials) {
      plan.families = {trial.family};
      const double certified = calibrate(data, plan).outcomes[0].certify_cost;
      EXPECT_NEAR(trial.cost_fraction, certified, 0.15) << name << ' ' << trial.family;
      if (chosen == 0) chosen = certified;
      cheapest = std::min(cheapest, certified);
    }
    EXPECT_LT(chosen, cheapest + 0.03) << name << ": the family chosen is about the cheapest";
  }
}

TEST(Calibrate, SupportsOtherLossesAndMethods) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("mnli-exeunt.held")), 42);
  for (const RiskLoss loss : {RiskLoss::disagreement, RiskLoss::zero_one_drop}) {
    for (const RiskMethod method : {RiskMethod::ltt_hb, RiskMethod::wsr, RiskMethod::crc}) {
      // Hoeffding's bound knows no variance: over losses from -1 to 1 it would take 10,998 rows.
      if (loss == RiskLoss::zero_one_drop && method == RiskMethod::ltt_hb) continue;
      const Calibration result = calibrate(data, {.max_drops = {0.02}, .loss = loss, .method = method});
      EXPECT_LT(result.outcomes[0].certify_cost, 0.95) << name_of(loss) << ' ' << name_of(method);
      EXPECT_EQ(result.entry.certificate->method, method);
      EXPECT_EQ(result.entry.certificate->loss, loss);
    }
  }
}

TEST(Calibrate, SupportsRegression) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("stsb-exeunt.dev")), 42);
  const Calibration result = calibrate(data, {.max_drops = {0.05}, .range = {{0, 5}}});
  EXPECT_EQ(result.entry.certificate->loss, RiskLoss::abs_diff);
  EXPECT_EQ(result.entry.certificate->method, RiskMethod::wsr);
  EXPECT_EQ(info_of(result.entry.policy.rule).name, "patience");
  EXPECT_LT(result.outcomes[0].certify_cost, 0.9);
  EXPECT_NO_THROW((void)calibrate(data, {.max_drops = {0.05}})) << "the range is then that of the gold values";
}

TEST(Calibrate, NeedsNoLabels) {
  ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  std::fill(trace.gold.begin(), trace.gold.end(), NAN);
  const Calibration result = calibrate(split_for_calibration(trace, 42), {.max_drops = {0.02}});
  EXPECT_LT(result.outcomes[0].certify_cost, 0.6);
}

// Exits decide by agreement with full depth, so that labels make no difference to what is certified; they do to scores.
TEST(Calibrate, ResultDoesNotDependOnLabels) {
  ExitTrace trace = read_trace(real_trace("mnli-exeunt.held"));
  const Calibration labelled = calibrate(split_for_calibration(trace, 42), {.max_drops = {0.02}});
  std::fill(trace.gold.begin(), trace.gold.end(), NAN);
  const Calibration bare = calibrate(split_for_calibration(trace, 42), {.max_drops = {0.02}});
  EXPECT_EQ(labelled.entry.complete().temperature, bare.entry.complete().temperature);
  EXPECT_EQ(labelled.outcomes[0].policy, bare.outcomes[0].policy);
  EXPECT_EQ(bare.entry.score_temperature, std::vector<float>(12, 1.0F)) << "nothing says how sure to look";
  EXPECT_GT(labelled.entry.score_temperature.back(), 1) << "full depth is surer than right";
  EXPECT_EQ(labelled.entry.decision_temperature.back(), 1);
}

TEST(Calibrate, CertifiesEveryLabelOfMnli) {
  for (const bool gold : {true, false}) {
    ExitTrace trace = read_trace(real_trace("mnli-exeunt.held"));
    if (!gold) std::fill(trace.gold.begin(), trace.gold.end(), NAN);
    ASSERT_EQ(trace.rows, 5000U);
    CalibrationPlan plan{.max_drops = {0.05}, .tries = 1};
    plan.group.by = "label";
    const Calibration result = calibrate(split_for_calibration(trace, 42), plan);
    EXPECT_LT(result.outcomes[0].certify_cost, 0.75) << "an early exit is certified";
    const std::vector<CertifiedGroup>& groups = result.entry.certificate->groups;
    ASSERT_EQ(groups.size(), 3U);
    int64_t rows = 0;
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(groups[i].name, trace.info.labels[i]);
      EXPECT_LE(binomial_p_value(std::llround(groups[i].losses), groups[i].rows, 0.05), 0.045) << groups[i].name;
      const GroupOutcome& group = result.outcomes[0].groups[i];
      EXPECT_LE(group.interval.low, 0.05) << "fresh rows agree";
      EXPECT_GE(group.interval.high, group.report);
      rows += groups[i].rows;
    }
    EXPECT_EQ(rows, 3000);
  }
}

TEST(Calibrate, SupportsGroupsByLengthAndColumn) {
  ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  CalibrationPlan plan{.max_drops = {0.05}};
  plan.group.by = "length";
  const CalibrationData data = split_for_calibration(trace, 42);
  const Calibration lengths = calibrate(data, plan);
  ASSERT_EQ(lengths.outcomes[0].groups.size(), 4U);
  for (const GroupOutcome& group : lengths.outcomes[0].groups) EXPECT_GT(group.rows, 400) << group.name;
  int next = 0, low = 0, high = 0;
  EXPECT_EQ(std::sscanf(lengths.outcomes[0].groups[0].name.c_str(), "below %d tokens", &next), 1);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(std::sscanf(lengths.outcomes[0].groups[i].name.c_str(), "%d to %d tokens", &low, &high), 2);
    EXPECT_EQ(low, next);
    next = high + 1;
  }
  EXPECT_EQ(lengths.outcomes[0].groups[3].name, fmt::format("{} tokens and more", next));
  plan.group.by = "topic";
  for (size_t row = 0; row < trace.rows; ++row) plan.group.values.push_back(row % 3 == 0 ? "art" : "science");
  const Calibration column = calibrate(data, plan);
  ASSERT_EQ(column.outcomes[0].groups.size(), 2U);
  EXPECT_EQ(column.outcomes[0].groups[0].name, "art");
  EXPECT_NEAR(static_cast<double>(column.outcomes[0].groups[0].rows), 1000, 100);
  // A group of too few texts is named: nothing can be promised of it.
  plan.group.values.assign(trace.rows, "all");
  for (size_t row = 0; row < 30; ++row) plan.group.values[row] = "few";
  EXPECT_THAT(error_of([&] { (void)calibrate(data, plan); }).what(), HasSubstr("the group 'few' of it has"));
  plan.group.values.clear();
  for (size_t row = 0; row < trace.rows; ++row) plan.group.values.push_back(fmt::format("{}", row));
  EXPECT_THAT(error_of([&] { (void)calibrate(data, plan); }).what(), HasSubstr("want at most 64"));
}

// The figures of every group, counted again: losses of the certify rows, and shares of the report rows.
TEST(Calibrate, CountsLossesOfGroups) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("mnli-exeunt.held")), 42);
  CalibrationPlan plan{.max_drops = {0.1}};
  plan.group.by = "label";
  const DropOutcome outcome = calibrate(data, plan).outcomes.at(0);
  ASSERT_EQ(outcome.groups.size(), 3U);
  for (size_t label = 0; label < 3; ++label) {
    const auto count = [&](const ExitTrace& part) {
      std::pair<double, double> lost_of_all;
      const std::vector<double> losses = LossMeter(part, RiskLoss::disagreement, {}).measure(outcome.policy).losses;
      for (size_t row = 0; row < part.rows; ++row) {
        if (part.gold[row] != static_cast<float>(label)) continue;
        lost_of_all.first += losses[row];
        lost_of_all.second += 1;
      }
      return lost_of_all;
    };
    const GroupOutcome& group = outcome.groups[label];
    const auto [lost, all] = count(data.certify);
    EXPECT_EQ(static_cast<double>(group.rows), all);
    EXPECT_DOUBLE_EQ(group.losses, lost);
    const auto [missed, seen] = count(data.report);
    EXPECT_GT(missed, 0);
    EXPECT_EQ(static_cast<double>(group.report_rows), seen);
    EXPECT_DOUBLE_EQ(group.report, missed / seen);
    EXPECT_LT(group.interval.low, group.report);
    EXPECT_GT(group.interval.high, group.report);
  }
}

TEST(Calibrate, OutcomeHasAllItsFieldsInJson) {
  DropOutcome outcome{.max_drop = 0.01,
                      .policy = parse_policy("entropy:0.25"),
                      .losses = 2,
                      .p_value = 0.03,
                      .certify_cost = 0.4,
                      .certify = 0.05,
                      .report_cost = 0.7,
                      .report = 0.08,
                      .frequent = {.texts = 3, .lost = 1, .share = 0.25, .lost_share = 0.125, .lost_rows = {7}}};
  const Json figures = {
      {"policy", "entropy:0.25"},
      {"max_drop", 0.01},
      {"losses", 2.0},
      {"p_value", 0.03},
      {"certify_cost_fraction", 0.4},
      {"certify_risk", 0.05},
      {"report_cost_fraction", 0.7},
      {"report_risk", 0.08},
      {"report_interval", nullptr},
      {"frequent", {{"texts", 3}, {"share", 0.25}, {"lost", 1}, {"lost_share", 0.125}, {"lost_rows", {7}}}}};
  EXPECT_EQ(Json(outcome_json(outcome)), figures);
  outcome.groups = {
      {.name = "a", .rows = 10, .losses = 1, .report_rows = 11, .report = 0.12, .interval = {0.14, 0.15}}};
  Json grouped = figures;
  grouped["groups"] = {{{"name", "a"}, {"rows", 10}, {"losses", 1.0}}};
  EXPECT_EQ(Json(outcome_json(outcome)), grouped) << "no rows reported";
  outcome.interval = {0.16, 0.17};
  grouped["report_interval"] = {0.16, 0.17};
  grouped["groups"][0].update({{"report_rows", 11}, {"report_risk", 0.12}, {"report_interval", {0.14, 0.15}}});
  EXPECT_EQ(Json(outcome_json(outcome)), grouped);
  EXPECT_EQ(Json(trials_json({{.family = "entropy", .cost_fraction = 0.5}, {.family = "vote", .cost_fraction = 0.75}})),
            Json({{{"family", "entropy"}, {"cost_fraction", 0.5}}, {{"family", "vote"}, {"cost_fraction", 0.75}}}));
}

// The points of another entry, tested as they are; what they have besides rule and parameters is the entry's.
TEST(Calibrate, TransfersPointsWithExitsAndTemperatures) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("sst2-exeunt.held")), 42);
  CalibrationPlan plan{.max_drops = {0.02, 0.05}, .exits = {2, 4, 6, 12}};
  const Calibration first = calibrate(data, plan);
  plan.exits.clear();
  plan.transfer = first.entry;
  plan.transfer->score_temperature[1] = 1.5F;
  const Calibration again = calibrate(data, plan);
  EXPECT_EQ(again.entry.exits, first.entry.exits);
  EXPECT_EQ(again.entry.decision_temperature, first.entry.decision_temperature);
  EXPECT_EQ(again.entry.score_temperature, plan.transfer->score_temperature);
  ASSERT_EQ(again.entry.points.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.entry.points[i].policy, first.entry.points[i].policy) << "rule and parameters alone";
    EXPECT_EQ(again.entry.points[i].exit_rates, first.entry.points[i].exit_rates);
    EXPECT_EQ(again.entry.points[i].cost_fraction, first.entry.points[i].cost_fraction);
  }
  EXPECT_EQ(again.sequence.size(), 3U) << "full depth and the points";
  EXPECT_EQ(again.trials.size(), 0U) << "nothing is chosen";
}

// Numbers that a table of numbers would put into one bucket: whoever made the trace chose them.
TEST(Calibrate, CollidingRowHashesTakeLinearTime) {
  const auto trace = [](size_t rows) {
    ExitTrace out = random_trace({.rows = rows, .exits = 1, .classes = 2});
    std::unordered_map<uint64_t, size_t> plain;
    for (size_t row = 0; row < rows; ++row) plain.try_emplace(row, row);
    for (size_t row = 0; row < rows; ++row) out.row_hash.push_back(row * plain.bucket_count());
    return out;
  };
  EXPECT_LT(growth_exponent(2000, trace, [](const ExitTrace& made) { (void)split_for_calibration(made, 42); }), 1.5);
}

TEST(Calibrate, CountsEveryRequestOrEveryTextOnce) {
  ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  std::vector<size_t> rows(trace.rows);
  std::iota(rows.begin(), rows.end(), size_t{0});
  for (size_t row = 0; row < trace.rows; ++row) trace.row_hash.push_back(row);
  for (size_t row = 0; row < 500; ++row) rows.insert(rows.end(), 4, row);  // 500 texts come five times
  const ExitTrace all = select_rows(trace, rows);
  const auto certificate_for = [&](const CalibrationPlan& plan) {
    const CalibrationData data = split_for_calibration(all, 42, shares_for(all, plan, {}));
    return *calibrate(data, plan).entry.certificate;
  };
  const Certificate requests = certificate_for({.max_drops = {0.03}});
  EXPECT_EQ(requests.unit, CertifiedUnit::requests) << "the default";
  EXPECT_EQ(requests.method, RiskMethod::ltt_binomial);
  EXPECT_NEAR(static_cast<double>(requests.rows), 0.6 * 7000, 100);
  EXPECT_LT(requests.distinct, requests.rows - 500);
  const Certificate texts = certificate_for({.max_drops = {0.03}, .unit = CertifiedUnit::texts});
  EXPECT_EQ(texts.unit, CertifiedUnit::texts);
  EXPECT_NEAR(static_cast<double>(texts.rows), 0.6 * 5000, 100);
  EXPECT_EQ(texts.distinct, texts.rows);
  ExitTrace held_out = all;  // training drew texts, with all their rows
  held_out.info.split = kHeldOutSplit;
  EXPECT_EQ(certified_unit({}, held_out), CertifiedUnit::texts);
  EXPECT_EQ(certified_unit({.unit = CertifiedUnit::requests}, held_out), CertifiedUnit::requests);
}

// A log in which few texts make most of the requests, and a half percent of the texts changes.
TEST(Calibrate, CertifiesRequestsWithFrequentTexts) {
  constexpr size_t kTexts = 10'000, kRequests = 5'000;
  ExitTrace texts;
  texts.exits = texts.width = 2;
  texts.info.weights = std::string(64, 'a');
  texts.info.precision = "fp32";
  texts.info.labels = {"no", "yes"};
  texts.info.layers = {1, 2};
  std::vector<double> weights;
  for (size_t text = 0; text < kTexts; ++text) {
    const float last = text % 200 == 100 ? -9.0F : 9.0F;
    texts.logits.insert(texts.logits.end(), {8, 0, last, 0});
    texts.gold.push_back(NAN);
    texts.index.push_back(static_cast<int64_t>(text));
    texts.row_hash.push_back(text);
    weights.push_back(1.0 / static_cast<double>(text + 1));  // Zipf's law
  }
  texts.rows = kTexts;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    std::discrete_distribution<size_t> zipf(weights.begin(), weights.end());
    std::vector<size_t> asked(kRequests);
    for (size_t& text : asked) text = zipf(random);
    const ExitTrace log = select_rows(texts, asked);
    const CalibrationPlan plan{.max_drops = {0.02}, .unit = CertifiedUnit::requests};
    const DropOutcome outcome =
        calibrate(split_for_calibration(log, seed, shares_for(log, plan, {})), plan).outcomes[0];
    EXPECT_EQ(outcome.certify_cost, 0.5) << "every text leaves at the first exit";
    EXPECT_GT(outcome.losses, 0);
    EXPECT_GT(outcome.frequent.share, 0.3) << "the frequent texts, one by one";
    EXPECT_EQ(outcome.frequent.lost, 0);
  }
}

// Texts with something in common are in one part, and the promise says how many of these were tested.
TEST(Calibrate, ClustersAreInOnePartAndNamedInThePromise) {
  ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  for (size_t row = 0; row < trace.rows; ++row) trace.cluster.push_back(row / 5);
  const CalibrationData data = split_for_calibration(trace, 42);
  std::set<uint64_t> fit(data.fit.cluster.begin(), data.fit.cluster.end());
  const std::set<uint64_t> certify(data.certify.cluster.begin(), data.certify.cluster.end());
  EXPECT_EQ(data.certify.rows, certify.size() * 5);
  EXPECT_EQ(data.fit.rows, fit.size() * 5);
  fit.insert(certify.begin(), certify.end());
  EXPECT_EQ(fit.size() + data.report.rows / 5, trace.rows / 5) << "no cluster is in two parts";
  const Calibration questions = calibrate(data, {.max_drops = {0.05}});
  EXPECT_EQ(questions.entry.certificate->method, RiskMethod::wsr);
  EXPECT_EQ(questions.entry.certificate->clusters, static_cast<int64_t>(certify.size()));
  EXPECT_THAT(promise_of(questions.entry), HasSubstr(fmt::format("by a test of {} questions", certify.size())));
  EXPECT_LT(questions.outcomes[0].certify_cost, 0.9);
  const Calibration visits = calibrate(data, {.max_drops = {0.05}, .cluster_by = "visit"});
  EXPECT_THAT(promise_of(visits.entry), HasSubstr("clusters ('visit')"));
  // Where each row is alone, nothing changes.
  for (size_t row = 0; row < trace.rows; ++row) trace.cluster[row] = row;
  const Calibration alone = calibrate(split_for_calibration(trace, 42), {.max_drops = {0.05}});
  trace.cluster.clear();
  EXPECT_EQ(alone.outcomes[0].policy,
            calibrate(split_for_calibration(trace, 42), {.max_drops = {0.05}}).outcomes[0].policy);
  EXPECT_EQ(alone.entry.certificate->clusters, 0);
}

TEST(Calibrate, NamesClustersWhereTheyAreTooFew) {
  ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  for (size_t row = 0; row < trace.rows; ++row) trace.cluster.push_back(row / 100);
  const CalibrationData data = split_for_calibration(trace, 42);
  EXPECT_THAT(error_of([&] { (void)calibrate(data, {.max_drops = {0.02}}); }).what(),
              HasSubstr("questions without a loss, and the certify part has 30"));
  EXPECT_THAT(error_of([&] { (void)calibrate(data, {.max_drops = {0.1}, .method = RiskMethod::ltt_binomial}); }).what(),
              HasSubstr("over clusters"));
}

TEST(Calibrate, LaterTriesUseLessOfDelta) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("sst2-exeunt.held")), 42);
  double cost = 0;
  for (const int tries : {1, 2, 5}) {
    const Calibration one = calibrate(data, {.max_drops = {0.02}, .families = {"entropy"}, .tries = tries});
    EXPECT_LE(one.outcomes[0].p_value, 0.05 * share_of_try(tries));
    EXPECT_GE(one.outcomes[0].certify_cost, cost);
    EXPECT_EQ(one.entry.certificate->tries, tries);
    EXPECT_EQ(one.entry.certificate->delta, 0.05) << "of all tries together";
    cost = one.outcomes[0].certify_cost;
  }
  const CalibrationData few = split_for_calibration(read_trace(real_trace("rte-exeunt.dev")), 42);
  EXPECT_NO_THROW((void)calibrate(few, {.max_drops = {0.02}, .tries = 1}));
  EXPECT_THAT(error_of([&] { (void)calibrate(few, {.max_drops = {0.02}, .tries = 2}); }).what(),
              HasSubstr("at 95 % (try 2 on these texts) takes 297 examples"));
}

TEST(Calibrate, CertificateStoresItsConditions) {
  ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  for (size_t row = 0; row < trace.rows; ++row) trace.row_hash.push_back(row);
  trace.info.max_length = 48;
  trace.info.tokenizer = std::string(64, 'b');
  const CalibrationData data = split_for_calibration(trace, 7, kNoReport);
  const Calibration result = calibrate(data, {.max_drops = {0.02}});
  const Certificate& certificate = *result.entry.certificate;
  EXPECT_EQ(certificate.max_length, 48);
  EXPECT_EQ(certificate.tokenizer, trace.info.tokenizer);
  EXPECT_EQ(certificate.last_head, LastHead::final);
  EXPECT_EQ(certificate.seed, 7U);
  EXPECT_EQ(certificate.rows, 4000);
  EXPECT_EQ(certificate.certify.row_hashes, rows_sha256(data.certify));
  EXPECT_EQ(certificate.fit.row_hashes, rows_sha256(data.fit));
  EXPECT_NE(certificate.fit.row_hashes, certificate.certify.row_hashes);
  EXPECT_EQ(certificate.reference, LossReference::fp32) << "its own last exit";
  trace.info.precision = "int8";
  EXPECT_EQ(calibrate(split_for_calibration(trace, 7), {.max_drops = {0.02}}).entry.certificate->reference,
            LossReference::same_precision)
      << "the trace does not have the answers of fp32";
  EXPECT_FALSE(result.outcomes[0].interval.has_value()) << "no rows are left to report";
  EXPECT_EQ(result.outcomes[0].report, result.outcomes[0].certify);
}

// Against fp32, full depth in another precision is a setting like others: it is tested, and may fail.
TEST(Calibrate, FullDepthCanLoseAgainstTheReference) {
  ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  for (size_t row = 0; row < trace.rows; ++row) {
    const std::span<const float> last = trace.at(row, trace.exits - 1);
    const bool flipped = row % 200 == 0;  // 0.5 % of the answers
    trace.reference.push_back(last[flipped ? 1 : 0]);
    trace.reference.push_back(last[flipped ? 0 : 1]);
  }
  const CalibrationData data = split_for_calibration(trace, 42);
  const Calibration result = calibrate(data, {.max_drops = {0.02}});
  EXPECT_EQ(result.entry.certificate->reference, LossReference::fp32);
  EXPECT_LT(result.outcomes[0].certify_cost, 0.6);
  EXPECT_THAT(error_of([&] { (void)calibrate(data, {.max_drops = {0.003}}); }).what(), HasSubstr("even at full depth"));
  EXPECT_EQ(try_families(data, 3000, {.max_drops = {0.003}}).front().cost_fraction, INFINITY);
}

TEST(Calibrate, UsesOnlyGivenExitsAndFamilies) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("sst2-exeunt.held")), 42);
  const Calibration result = calibrate(
      data, {.max_drops = {0.02}, .families = {"patience"}, .exits = {2, 4, 6, 8, 12}, .temperatures = false});
  EXPECT_EQ(info_of(result.entry.policy.rule).name, "patience");
  EXPECT_THAT(result.entry.exits, ElementsAre(2, 4, 6, 8, 12));
  EXPECT_EQ(result.entry.decision_temperature, std::vector<float>(12, 1.0F));
}

TEST(Calibrate, RejectsTooFewRowsWithTheNumberNeeded) {
  const CalibrationData data = split_for_calibration(read_trace(real_trace("rte-exeunt.dev")), 42);
  const Error error = error_of([&] { (void)calibrate(data, {.max_drops = {0.01}}); });
  EXPECT_EQ(error.code(), Code::failure);
  EXPECT_STREQ(error.what(),
               "not enough data: certifying 1 % at 95 % takes 299 examples without a loss, and the certify part has "
               "166");
  EXPECT_EQ(error.hint(),
            "provide 499 examples in total, add texts without labels (--unlabelled FILE), or allow more: 166 examples "
            "certify 1.79 % at best");
  EXPECT_THAT(error_of([&] { (void)calibrate(data, {.max_drops = {0.005}, .method = RiskMethod::crc}); }).what(),
              HasSubstr("0.5 % in expectation takes 199 examples"));
  EXPECT_NO_THROW((void)calibrate(data, {.max_drops = {0.05}}));
}

TEST(Calibrate, ReturnsFullDepthIfNothingPasses) {
  // Early exits that know nothing: they agree with the last by chance alone.
  ExitTrace trace = random_trace({.rows = 2000, .exits = 3, .classes = 2});
  for (size_t row = 0; row < trace.rows; ++row)
    for (size_t exit = 0; exit < 2; ++exit)
      trace.logits[(row * 3 + exit) * 2] = trace.logits[(row * 3 + exit) * 2 + 1] + (row % 2 == 0 ? 5.0F : -5.0F);
  const Calibration result = calibrate(split_for_calibration(trace, 42), {.max_drops = {0.01}});
  EXPECT_EQ(str(result.entry.policy), "full");
  EXPECT_EQ(result.outcomes[0].certify_cost, 1);
  EXPECT_EQ(result.outcomes[0].losses, 0);
}

TEST(Calibrate, RejectsInvalidPlans) {
  const CalibrationData data = split_for_calibration(random_trace({.rows = 2000, .classes = 2}), 1);
  const auto refused = [&](const CalibrationPlan& plan) {
    const Error error = error_of([&] { (void)calibrate(data, plan); });
    EXPECT_EQ(error.code(), Code::usage);
    return std::string(error.what());
  };
  EXPECT_THAT(refused({.max_drops = {}}), HasSubstr("no maximum drop"));
  EXPECT_THAT(refused({.max_drops = {0}}), HasSubstr("want a share from 1e-05 to below 1"));
  EXPECT_THAT(refused({.max_drops = {1}}), HasSubstr("below 1"));
  EXPECT_THAT(refused({.max_drops = {0.02, 0.01}}), HasSubstr("increasing"));
  EXPECT_THAT(refused({.delta = 0}), HasSubstr("confidence: got 1"));
  EXPECT_THAT(refused({.families = {"entropi"}}), HasSubstr("unknown policy family"));
  EXPECT_THAT(refused({.families = {"lte"}}), HasSubstr("no learning-to-exit head"));
  EXPECT_THAT(refused({.exits = {1, 9}}), HasSubstr("after layer 9"));
}

TEST(Calibrate, TestsADropByTheMethodThatIsExpectedToGoFurther) {
  const ExitTrace all = read_trace(real_trace("mnli-exeunt.held"));
  CalibrationPlan plan{.max_drops = {0.02}, .loss = RiskLoss::zero_one_drop, .families = {"entropy"}};
  std::set<RiskMethod> methods;
  for (const size_t rows : {400, 800, 2000, 5000}) {
    std::vector<size_t> some(rows);
    std::iota(some.begin(), some.end(), size_t{0});
    const CalibrationData data = split_for_calibration(select_rows(all, some), 1, kNoReport);
    double least = INFINITY;
    for (const RiskMethod method : {RiskMethod::ltt_binomial, RiskMethod::wsr}) {
      plan.method = method;
      least = std::min(least, calibrate(data, plan).trials.front().cost_fraction);
    }
    plan.method.reset();
    const Calibration chosen = calibrate(data, plan);
    EXPECT_EQ(chosen.trials.front().cost_fraction, least) << rows;
    EXPECT_EQ(chosen.trials.front().method, chosen.entry.certificate->method) << rows;
    methods.insert(chosen.entry.certificate->method);
  }
  EXPECT_THAT(methods, ElementsAre(RiskMethod::ltt_binomial, RiskMethod::wsr));
}

// By the number of rows alone.
TEST(SharesFor, KeepsReportRowsOfManyAndCriticalNumbers) {
  const CalibrationPlan plan{.max_drops = {0.02}};
  const auto parts = [&](size_t rows, std::optional<bool> report) {
    const ExitTrace trace = random_trace({.rows = rows, .classes = 2});
    const CalibrationData data = split_for_calibration(trace, 1, shares_for(trace, plan, report));
    return std::vector{data.fit.rows, data.certify.rows, data.report.rows};
  };
  EXPECT_THAT(parts(500, {}), ElementsAre(106U, 394U, 0U)) << "394 allow 3 losses, 400 no more";
  EXPECT_THAT(parts(500, true), ElementsAre(100U, 320U, 80U)) << "300 would allow one loss, 320 allow two";
  EXPECT_THAT(parts(1500, false), ElementsAre(275U, 1225U, 0U)) << "1,200 and an eighth of those that choose";
  EXPECT_GT(losses_allowed(1225, 0.02, 0.045), losses_allowed(1224, 0.02, 0.045));
  EXPECT_EQ(parts(1499, {}).back(), 0U);
  EXPECT_GT(parts(1500, {}).back(), 0U);
  const ExitTrace trace = random_trace({.rows = 500, .classes = 2});
  EXPECT_EQ(shares_for(trace, {.max_drops = {0.02}, .loss = RiskLoss::abs_diff}, {}).max_drop, 0);
  EXPECT_NEAR(shares_for(trace, {.max_drops = {0.01, 0.02}}, {}).delta, 0.9 * 0.8 * 0.05, 1e-12);
}

TEST(DeltaOf, IsTheExactDecimal) {
  EXPECT_EQ(delta_of(0.95), 0.05);
  EXPECT_EQ(delta_of(0.99), 0.01);
  EXPECT_EQ(delta_of(0.9), CalibrationPlan{.delta = 0.1}.delta);
}

}  // namespace
}  // namespace exeunt
