// SPDX-License-Identifier: Apache-2.0
// The settings of each rule that calibration tries.
#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/certify/losses.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;

TEST(Candidates, AreOrderedFromFullDepthToMostAggressive) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.dev"));
  LossMeter fit(trace, RiskLoss::disagreement, {});
  for (const char* family : {"entropy", "confidence", "margin", "patience", "pcee", "divergence", "vote", "window"}) {
    const auto candidates = order_candidates(family, {trace.sites(), {}, {}, 0}, fit);
    ASSERT_GT(candidates.size(), 4u) << family;
    EXPECT_EQ(str(candidates[0].policy), "full");
    EXPECT_EQ(candidates[0].risk, 0);
    for (size_t i = 1; i < candidates.size(); ++i) {
      EXPECT_GE(candidates[i].risk, candidates[i - 1].risk) << family;
      EXPECT_LE(candidates[i].cost_fraction, candidates[i - 1].cost_fraction) << family;
      EXPECT_EQ(info_of(candidates[i].policy.rule).name, family);
    }
    EXPECT_LT(candidates.back().cost_fraction, 0.5) << family;
  }
}

// Of 4 texts that leave early, all gain an answer or as many lose one as gain one: by mean losses, the bolder setting
// would take the place of the other.
TEST(Candidates, AreComparedByChangedAnswersWhereSomeAreGained) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.held"));
  const std::vector<size_t> rows = [&] {
    std::vector<size_t> few(150);
    std::iota(few.begin(), few.end(), size_t{0});
    return few;
  }();
  const ExitTrace few = select_rows(trace, rows);
  LossMeter fit(few, RiskLoss::zero_one_drop, {});
  for (const Candidate& one : order_candidates("entropy", {few.sites(), {}, {}, 0}, fit)) {
    const std::vector<double> losses = fit.measure(one.policy).losses;
    const auto changed = std::count_if(losses.begin(), losses.end(), [](double loss) { return loss != 0; });
    EXPECT_EQ(one.risk, static_cast<double>(changed) / 150) << str(one.policy);
  }
  EXPECT_GT(order_candidates("entropy", {few.sites(), {}, {}, 0}, fit).size(), 10U);
}

// The digits of a number that count: 3 of "0.0125", 4 of "8.751e-05".
size_t digits_in(std::string text) {
  text = text.substr(0, text.find('e'));
  std::erase(text, '.');
  const size_t first = text.find_first_not_of('0');
  return first == std::string::npos ? 0 : text.size() - first;
}

TEST(Candidates, AreRoundedNumbers) {
  for (const RuleInfo& rule : kRules) {
    const bool from_one = rule.name == "confidence" || rule.name == "margin";  // 0.999986 has its digits behind nines
    for (const int classes : {1, 2, 3, 7}) {
      std::set<std::string> texts;
      const std::vector<Params> settings = rule.candidates({.classes = classes, .exits = 12, .range = 4.7F});
      for (const Params& params : settings) {
        texts.insert(fmt::format("{}", fmt::join(params, ",")));
        for (size_t i = 0; i < rule.params.size(); ++i) {
          if (rule.params[i].kind != ParamKind::number || params[i] == rule.params[i].absent) continue;
          EXPECT_LE(digits_in(shortest(params[i])), from_one ? 7U : 4U) << rule.name << " " << shortest(params[i]);
        }
      }
      // Entropy over one class is 0 throughout; such settings are never tried.
      EXPECT_EQ(texts.size(), classes > 1 ? settings.size() : texts.size()) << rule.name << ": they stay apart";
    }
  }
}

// The grid of the labels may be as large as it likes; a policy's text with such a value must still be one.
TEST(Candidates, AreWithinTheRangesOfTheirParameters) {
  for (const RuleInfo& rule : kRules) {
    for (const Scope& scope : {Scope{.classes = 2, .exits = 3}, Scope{.classes = 1000, .exits = 64},
                               Scope{.classes = 1000, .exits = 2, .problem = Problem::multi_label}}) {
      for (const Params& params : rule.candidates(scope)) {
        for (size_t i = 0; i < rule.params.size(); ++i) {
          if (params[i] == rule.params[i].absent) continue;
          EXPECT_GE(params[i], rule.params[i].low) << rule.name << " " << rule.params[i].name;
          EXPECT_LE(params[i], rule.params[i].high) << rule.name << " " << rule.params[i].name;
        }
      }
    }
  }
}

TEST(Candidates, ComeFromFamiliesOfTheModel) {
  const ExitSites two{{1, 2}, 2}, three{{1, 2}, 3}, headed{{1, 2}, 2, Problem::classification, true},
      number{{1, 2}, 1, Problem::regression};
  EXPECT_THAT(families_for(two, Families::usual), ElementsAre("entropy", "patience", "pcee", "vote"));
  EXPECT_THAT(families_for(three, Families::usual), ElementsAre("entropy", "margin", "patience", "pcee", "vote"));
  EXPECT_THAT(families_for(headed, Families::usual), ElementsAre("entropy", "patience", "pcee", "vote", "lte"));
  EXPECT_THAT(families_for(number, Families::usual), ElementsAre("patience"));
  EXPECT_THAT(families_for(number, Families::all), ElementsAre("patience"));
  // For two classes confidence and margin rank texts as entropy does; H / ln C always does.
  EXPECT_THAT(families_for(two, Families::all), IsSupersetOf({"entropy", "patience", "window", "divergence"}));
  EXPECT_THAT(families_for(two, Families::all),
              Not(Contains(AnyOf("confidence", "margin", "nentropy", "lte", "full"))));
  EXPECT_THAT(families_for(three, Families::all), IsSupersetOf({"confidence", "margin"}));
  EXPECT_THAT(families_for(three, Families::all), Not(Contains("nentropy")));
}

// A rule that says it repeats another does: in the order that entropy gives any texts, it leaves none out of turn.
TEST(Candidates, EquivalentRulesExitTheSameTexts) {
  for (const int classes : {2, 3}) {
    const ExitTrace trace = random_trace({.rows = 300, .exits = 1, .classes = classes});
    for (const RuleInfo& rule : kRules) {
      if (!rule.repeats_another(classes)) continue;
      PolicySpec spec;
      for (size_t i = 0; i < kRules.size(); ++i)
        if (kRules[i].name == rule.name) spec.rule = Rule{static_cast<uint8_t>(i)};
      const Policy policy = bind(spec, trace.sites());
      for (const Params& params : rule.candidates({.classes = classes, .exits = 1, .range = 1})) {
        float most = 0, least = 100;  // the largest entropy that leaves, the smallest that stays
        for (size_t row = 0; row < trace.rows; ++row) {
          Policy tried = policy;
          tried.exit_value[0] = tried.params[0] = params[0];
          const Evidence e = compute_evidence({trace.at(row, 0).data(), classes});
          const bool leaves = step(tried, 0, e, nullptr, nullptr) == Step::leave;
          (leaves ? most : least) = leaves ? std::max(most, e.entropy) : std::min(least, e.entropy);
        }
        EXPECT_LE(most, least + 1e-6F) << rule.name << " " << params[0] << " " << classes;
      }
    }
  }
}

TEST(Candidates, RejectUnknownFamilyWithSuggestion) {
  const ExitTrace trace = random_trace({});
  LossMeter fit(trace, RiskLoss::disagreement, {});
  EXPECT_EQ(error_of([&] {
              (void)order_candidates("entrop", {trace.sites(), {}, {}, 0}, fit);
            }).hint(),
            "did you mean 'entropy'?");
  EXPECT_EQ(error_of([&] {
              (void)order_candidates("full", {trace.sites(), {}, {}, 0}, fit);
            }).code(),
            Code::usage)
      << "full depth is no family";
}

TEST(FrequentTexts, NamesTheRowsOfThoseThatLose) {
  ExitTrace log;
  std::vector<double> losses;
  std::vector<size_t> rows;
  for (size_t row = 0; row < 1000; ++row) {  // from 900 on, two texts fifty times each
    log.row_hash.push_back(row < 900 ? row : 5000 + row % 2);
    log.index.push_back(static_cast<int64_t>(2000 - row));
    losses.push_back(row == 3 || (row >= 900 && row % 2 == 0) ? 1 : 0);
    rows.push_back(row);
  }
  const FrequentTexts frequent = frequent_texts(log, losses, rows);
  EXPECT_EQ(frequent.texts, 2);
  EXPECT_DOUBLE_EQ(frequent.lost_share, 0.05);
  EXPECT_THAT(frequent.lost_rows, testing::ElementsAre(2000 - 998));
}

}  // namespace
}  // namespace exeunt
