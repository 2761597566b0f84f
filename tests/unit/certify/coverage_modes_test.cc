// SPDX-License-Identifier: Apache-2.0
// Is the promise kept in the modes that correct for something? Each has a population made so that its correction binds:
// with it, promises are broken no more often than promised; without it, they are, and these tests would see it.
#include "exeunt/certify/tries.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/certify/made_population.h"
#include "tests/unit/certify/made_questions.h"

namespace exeunt {
namespace {

constexpr int kDraws = 2000;
constexpr double kMadeDelta = 0.05, kMadeMaxDrop = 0.1;

CalibrationPlan entropy_plan() {
  return {.max_drops = {kMadeMaxDrop}, .delta = kMadeDelta, .families = {"entropy"}};
}

std::vector<PolicySpec> policies_of(const Calibration& calibration) {
  std::vector<PolicySpec> out;
  for (const DropOutcome& outcome : calibration.outcomes) out.push_back(outcome.policy);
  return out;
}

// The second level is just too bold: whoever certifies it has broken the promise.
const MadePopulation kPlain{{{.share = 0.5}, {.share = 0.3, .changed = 0.34}, {.share = 0.2, .changed = 0.5}},
                            {0, 1, 2}};

TEST(CoverageOfModes, OneMaxDropWithAndWithoutReport) {
  for (const SplitShares shares : {SplitShares{}, kNoReport}) {
    const MadeCoverage plain = cover_made(
        shares.certify > 0.7 ? "no report part" : "three parts", kDraws,
        [&](uint64_t draw) {
          return policies_of(calibrate(split_for_calibration(kPlain.draw(250, draw), draw, shares), entropy_plan()));
        },
        [](const std::vector<PolicySpec>& got) { return kPlain.risk(got[0]) > kMadeMaxDrop; });
    EXPECT_LE(plain.violations, allowed_of(kMadeDelta, kDraws));
    EXPECT_GT(plain.violations, 0.01) << "the budget binds";
    EXPECT_LT(plain.full_depth, 0.2);
  }
}

// Five levels, each just too bold for one more budget.
TEST(CoverageOfModes, SeveralMaxDropsShareDelta) {
  const std::vector<double> budgets{0.04, 0.08, 0.12, 0.16};
  MadePopulation made{{{.share = 0.4}}, {0}};
  for (int level = 1; level <= 4; ++level) {
    made.kinds.push_back({.share = 0.15, .changed = 0.0402 / 0.15});
    made.level.push_back(level);
  }
  const auto cover_with = [&](std::string_view name, double delta) {
    CalibrationPlan plan = entropy_plan();
    plan.max_drops = budgets;
    plan.delta = delta;
    return cover_made(
        name, kDraws,
        [&, plan](uint64_t draw) {
          return policies_of(calibrate(split_for_calibration(made.draw(600, draw), draw), plan));
        },
        [&](const std::vector<PolicySpec>& got) {
          for (size_t i = 0; i < got.size(); ++i)
            if (made.risk(got[i]) > budgets[i]) return true;
          return false;
        });
  };
  EXPECT_LE(cover_with("four budgets, each at its share of delta", kMadeDelta).violations,
            allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(cover_with("four budgets at the shares of 4 delta", 4 * kMadeDelta).violations,
            allowed_of(kMadeDelta, kDraws));
}

// Whoever splits the same rows again and again and keeps the fastest certified policy.
TEST(CoverageOfModes, AllTriesTogetherStayWithinDelta) {
  constexpr int kTries = 5;
  const auto cover_with = [&](std::string_view name, bool counted) {
    return cover_made(
        name, kDraws,
        [&, counted](uint64_t draw) {
          const ExitTrace rows = kPlain.draw(200, draw);
          PolicySpec fastest;
          double cost = 2;
          for (int k = 1; k <= kTries; ++k) {
            CalibrationPlan plan = entropy_plan();
            plan.tries = counted ? k : 0;
            const Calibration one = calibrate(split_for_calibration(rows, static_cast<uint64_t>(k)), plan);
            if (one.outcomes[0].certify_cost >= cost) continue;
            cost = one.outcomes[0].certify_cost;
            fastest = one.outcomes[0].policy;
          }
          return std::vector<PolicySpec>{fastest};
        },
        [](const std::vector<PolicySpec>& got) { return kPlain.risk(got[0]) > kMadeMaxDrop; });
  };
  const MadeCoverage shared = cover_with("the best of 5 tries, each at its share of delta", true);
  EXPECT_LE(shared.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(shared.violations, 0.01) << "the first try has nearly all of delta";
  EXPECT_LT(shared.full_depth, 0.2);
  EXPECT_GT(cover_with("the best of 5 tries, each at delta", false).violations, 2 * kMadeDelta);
}

// Whoever certifies the model in each precision and keeps the fastest.
TEST(CoverageOfModes, FastestOfThreePrecisionsStaysWithinDelta) {
  const Scratch scratch;
  ::setenv("XDG_STATE_HOME", scratch.path().c_str(), 1);
  const std::vector<std::string> precisions{"fp32", "bf16", "int8"};
  std::vector<int> numbers;
  for (const std::string& precision : precisions) {
    CalibrationData data = split_for_calibration(kPlain.draw(250, 1), 1);
    data.certify.info.precision = precision;
    data.certify.logits.front() += static_cast<float>(numbers.size());
    CalibrationPlan plan = entropy_plan();
    count_try(data, plan, {});
    numbers.push_back(plan.tries);
  }
  const auto cover_with = [&](std::string_view name, const std::vector<int>& tries) {
    return cover_made(
        name, kDraws,
        [&](uint64_t draw) {
          DropOutcome fastest{.certify_cost = 2};
          for (size_t i = 0; i < tries.size(); ++i) {
            CalibrationPlan plan = entropy_plan();
            plan.tries = tries[i];
            const ExitTrace rows = kPlain.draw(250, tries.size() * draw + i);  // the answers of each are others
            const DropOutcome one = calibrate(split_for_calibration(rows, draw), plan).outcomes[0];
            if (one.certify_cost < fastest.certify_cost) fastest = one;
          }
          return std::vector<PolicySpec>{fastest.policy};
        },
        [](const std::vector<PolicySpec>& got) { return kPlain.risk(got[0]) > kMadeMaxDrop; });
  };
  const MadeCoverage shared = cover_with("the fastest of three precisions, as the ledger counts them", numbers);
  EXPECT_LE(shared.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_LT(shared.full_depth, 0.2);
  EXPECT_GT(cover_with("the fastest of three first tries", {1, 1, 1}).violations, allowed_of(kMadeDelta, kDraws));
}

// Whoever looks at ten models on the rows that training held out and certifies the one that changes fewest answers.
TEST(CoverageOfModes, BestOfLookedAtModelsStaysWithinDelta) {
  constexpr uint64_t kModels = 10;
  const std::vector<uint64_t> held_out{1, 2, 3};
  const PolicySpec second = parse_policy("entropy:0.2");
  const Scratch scratch;
  for (uint64_t model = 0; model < kModels; ++model)
    (void)count_try(scratch.path(), fmt::format("look {}", model), held_out, {.weights = fmt::format("{}", model)});
  const int number = count_try(scratch.path(), "of the best", held_out, {.weights = "0"});
  const auto cover_with = [&](std::string_view name, int tries) {
    return cover_made(
        name, kDraws,
        [&, tries](uint64_t draw) {
          ExitTrace best;
          double least = 2;
          for (uint64_t model = 0; model < kModels; ++model) {
            ExitTrace rows = kPlain.draw(250, kModels * draw + model);
            const double loss = LossMeter(rows, RiskLoss::disagreement, {}).measure(second).mean_loss();
            if (loss >= least) continue;
            least = loss;
            best = std::move(rows);
          }
          CalibrationPlan plan = entropy_plan();
          plan.tries = tries;
          return policies_of(calibrate(split_for_calibration(best, draw, kNoReport), plan));
        },
        [](const std::vector<PolicySpec>& got) { return kPlain.risk(got[0]) > kMadeMaxDrop; });
  };
  EXPECT_LE(cover_with("the best of ten models looked at, as the ledger counts them", number).violations,
            allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(cover_with("the best of ten models looked at, as a first try", 1).violations,
            allowed_of(kMadeDelta, kDraws));
}

// A fifth of the texts is of an earlier log, chosen because they lose nothing.
TEST(CoverageOfModes, KnownRowsOnlyHarm) {
  MadePopulation made = kPlain;
  for (size_t level = 0; level < 3; ++level) {
    made.kinds.push_back({.share = kPlain.kinds[level].share / 4, .length = 40});
    made.level.push_back(static_cast<int>(level));
  }
  for (Kind& kind : made.kinds) kind.share *= 0.8;
  const auto cover_with = [&](std::string_view name, bool apart) {
    return cover_made(
        name, kDraws,
        [&, apart](uint64_t draw) {
          const CalibrationData data = split_for_calibration(made.draw(400, draw), draw, kNoReport);
          CalibrationPlan plan = entropy_plan();
          plan.tries = 1;
          for (const int32_t length : data.certify.lengths)
            if (apart) plan.known.push_back(length == 40);
          return policies_of(calibrate(data, plan));
        },
        [](const std::vector<PolicySpec>& got) { return kPlain.risk(got[0]) > kMadeMaxDrop; });
  };
  const MadeCoverage apart = cover_with("rows known before, where they lose", true);
  EXPECT_LE(apart.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(apart.violations, 0.01) << "the others bind";
  EXPECT_LT(apart.full_depth, 0.2);
  EXPECT_GT(cover_with("rows known before like any other", false).violations, 2 * kMadeDelta);
}

// In expectation there is no delta: later tries get less of the budget, so that the cheapest of them keeps it.
TEST(CoverageOfModes, TriesInExpectationShareTheBudget) {
  MadePopulation made{{{.share = 0.4}}, {0}};
  for (int level = 1; level <= 6; ++level) {  // each with 3 % more of the answers changed
    made.kinds.push_back({.share = 0.1, .changed = 0.3});
    made.level.push_back(level);
  }
  const auto mean_risk = [&](bool counted) {
    double sum = 0;
    for (uint64_t draw = 1; draw <= 300; ++draw) {
      const ExitTrace rows = made.draw(100, draw);
      double cost = 2, risk = 0;
      for (int k = 1; k <= 10; ++k) {
        CalibrationPlan plan = entropy_plan();
        plan.method = RiskMethod::crc;
        plan.tries = counted ? k : 0;
        plan.or_full_depth = true;
        const Calibration one = calibrate(split_for_calibration(rows, static_cast<uint64_t>(k)), plan);
        if (one.outcomes[0].certify_cost >= cost) continue;
        cost = one.outcomes[0].certify_cost;
        risk = made.risk(one.outcomes[0].policy);
      }
      sum += risk;
    }
    return sum / 300;
  };
  EXPECT_LE(mean_risk(true), kMadeMaxDrop);
  EXPECT_GT(mean_risk(false), kMadeMaxDrop);
}

// Half of the rows are texts asked ten times: as many rows, far fewer independent draws.
TEST(CoverageOfModes, EqualTextsCountOnce) {
  MadePopulation made;
  for (const int repeats : {1, 10}) {
    for (size_t level = 0; level < 3; ++level) {
      Kind kind = kPlain.kinds[level];
      kind.share *= repeats == 1 ? 10.0 / 11 : 1.0 / 11;
      kind.repeats = repeats;
      made.kinds.push_back(kind);
      made.level.push_back(static_cast<int>(level));
    }
  }
  const auto cover_with = [&](std::string_view name, CertifiedUnit unit, bool hashes) {
    CalibrationPlan plan = entropy_plan();
    plan.unit = unit;
    return cover_made(
        name, kDraws,
        [&, plan](uint64_t draw) {
          ExitTrace trace = made.draw(200, draw);
          if (!hashes) trace.row_hash.clear();
          return policies_of(calibrate(split_for_calibration(trace, draw, {.distinct = true}), plan));
        },
        [&](const std::vector<PolicySpec>& got) { return made.risk(got[0], unit) > kMadeMaxDrop; });
  };
  const MadeCoverage texts = cover_with("texts, equal ones once", CertifiedUnit::texts, true);
  EXPECT_LE(texts.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_LT(texts.full_depth, 0.5);
  EXPECT_GT(cover_with("every row for itself", CertifiedUnit::texts, false).violations, 2 * kMadeDelta);
}

// Questions of ten candidates, which change together: a hundred questions are not a thousand draws.
TEST(CoverageOfModes, RowsOfAClusterAreOneDraw) {
  const MadePopulation good{{{.share = 0.5}, {.share = 0.5}}, {0, 1}},
      bad{{{.share = 0.5}, {.share = 0.5, .changed = 1}}, {0, 1}};
  constexpr double kBad = 0.204;
  const auto draw_questions = [&](uint64_t draw, bool known) {
    std::mt19937_64 random(draw);
    ExitTrace all = good.draw(0, 0);
    for (uint64_t question = 0; question < 100; ++question) {
      const bool lost = std::uniform_real_distribution<double>()(random) < kBad;
      const ExitTrace one = (lost ? bad : good).draw(10, random());
      all.rows += one.rows;
      all.logits.insert(all.logits.end(), one.logits.begin(), one.logits.end());
      all.gold.insert(all.gold.end(), one.gold.begin(), one.gold.end());
      all.lengths.insert(all.lengths.end(), one.lengths.begin(), one.lengths.end());
      all.index.insert(all.index.end(), one.index.begin(), one.index.end());
      all.row_hash.insert(all.row_hash.end(), one.row_hash.begin(), one.row_hash.end());
      if (known) all.cluster.insert(all.cluster.end(), one.rows, question);
    }
    return all;
  };
  const auto cover_with = [&](std::string_view name, bool known) {
    return cover_made(
        name, kDraws,
        [&, known](uint64_t draw) {
          return policies_of(calibrate(split_for_calibration(draw_questions(draw, known), draw), entropy_plan()));
        },
        [&](const std::vector<PolicySpec>& got) {
          return kBad * bad.risk(got[0]) + (1 - kBad) * good.risk(got[0]) > kMadeMaxDrop;
        });
  };
  const MadeCoverage clusters = cover_with("questions, each one draw", true);
  EXPECT_LE(clusters.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_LT(clusters.full_depth, 0.2);
  EXPECT_GT(cover_with("every candidate a draw", false).violations, 2 * kMadeDelta);
}

// The second level is just too bold. A question counts once, however many candidates it has.
TEST(CoverageOfModes, KeepsBestOfQuestion) {
  const auto cover_with = [&](std::string_view name, size_t copies) {
    return cover_made(
        name, kDraws,
        [&, copies](uint64_t draw) {
          const ExitTrace rows = draw_questions(250, draw, copies);
          CalibrationPlan plan{
              .max_drops = {kMadeMaxDrop}, .delta = kMadeDelta, .loss = loss_named("top:2"), .families = {"patience"}};
          plan.range = {0, 10};
          const SplitShares shares = shares_for(rows, plan, {});
          return std::vector{calibrate(split_for_calibration(rows, draw, shares), plan).outcomes[0].policy};
        },
        [](const std::vector<PolicySpec>& got) { return risk_of_questions(got[0]) > kMadeMaxDrop; });
  };
  const MadeCoverage questions = cover_with("questions, each one draw", 1);
  EXPECT_LE(questions.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(questions.violations, 0.01) << "the budget binds";
  EXPECT_LT(questions.full_depth, 0.2);
  EXPECT_GT(cover_with("a question for each candidate", kValues.size()).violations, 2 * kMadeDelta);
}

// Ten of 5,000 texts are asked a hundred times as often as the others, and change more often.
TEST(CoverageOfModes, RequestsCountAsTheyCome) {
  const MadePopulation made{{{.share = 0.52},
                             {.share = 0.278, .changed = 0.078},
                             {.share = 0.002, .changed = 0.5, .repeats = 100},
                             {.share = 0.2, .changed = 0.5}},
                            {0, 1, 1, 2}};
  const auto cover_with = [&](std::string_view name, CertifiedUnit unit) {
    CalibrationPlan plan = entropy_plan();
    plan.unit = unit;
    return cover_made(
        name, kDraws,
        [&, plan](uint64_t draw) {
          const SplitShares shares{.distinct = unit == CertifiedUnit::texts};
          return policies_of(calibrate(split_for_calibration(made.draw_requests(600, 5000, draw), draw, shares), plan));
        },
        [&](const std::vector<PolicySpec>& got) { return made.risk(got[0], CertifiedUnit::requests) > kMadeMaxDrop; });
  };
  const MadeCoverage requests = cover_with("requests, repeats and all", CertifiedUnit::requests);
  EXPECT_LE(requests.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(requests.violations, 0.01) << "the budget binds";
  EXPECT_LT(requests.full_depth, 0.2);
  EXPECT_GT(cover_with("requests promised, texts counted", CertifiedUnit::texts).violations, 2 * kMadeDelta);
}

// Long texts change more often. The whole stays within the budget at the second level, the long ones do not.
TEST(CoverageOfModes, EveryGroupKeepsThePromise) {
  const MadePopulation made{{{.share = 0.3, .length = 10},
                             {.share = 0.3, .length = 40},
                             {.share = 0.2, .changed = 0.01, .length = 10},
                             {.share = 0.2, .changed = 0.26, .length = 40}},
                            {0, 0, 1, 1}};
  const auto in_a_group = [&](const std::vector<PolicySpec>& got) {
    for (const int length : {10, 40})
      if (made.risk(got[0], CertifiedUnit::texts, [&](const Kind& kind) { return kind.length == length; }) >
          kMadeMaxDrop)
        return true;
    return false;
  };
  const auto cover_with = [&](std::string_view name, const std::string& by) {
    CalibrationPlan plan = entropy_plan();
    plan.group.by = by;
    return cover_made(
        name, kDraws,
        [&, plan](uint64_t draw) {
          return policies_of(calibrate(split_for_calibration(made.draw(300, draw), draw), plan));
        },
        in_a_group);
  };
  const MadeCoverage groups = cover_with("every group tested", "length");
  EXPECT_LE(groups.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(groups.violations, 0.01) << "the worst group binds";
  EXPECT_LT(groups.full_depth, 0.2);
  EXPECT_GT(cover_with("the whole tested, groups promised", "").violations, 2 * kMadeDelta);
}

// A tenth of the texts that full depth calls so is lost at the second level, and few of all.
TEST(CoverageOfModes, MissesLabelAsSeldomAsPromised) {
  const auto made_of = [](double missed, double called) {
    return MadePopulation{{{.share = 0.1, .yes = true},
                           {.share = 0.4, .yes = false},
                           {.share = 0.1, .changed = missed, .yes = true},
                           {.share = 0.4, .changed = called, .yes = false}},
                          {0, 0, 1, 1}};
  };
  const auto cover_with = [&](std::string_view name, const MadePopulation& made, const RiskLoss& loss, bool side) {
    CalibrationPlan plan = entropy_plan();
    plan.loss = loss;
    return cover_made(
        name, kDraws,
        [&, plan](uint64_t draw) {
          return policies_of(calibrate(split_for_calibration(made.draw(500, draw), draw), plan));
        },
        [&, side](const std::vector<PolicySpec>& got) {
          return made.risk(got[0], CertifiedUnit::texts, [&](const Kind& kind) { return kind.yes == side; }) >
                 kMadeMaxDrop;
        });
  };
  RiskLoss missed = loss_named("missed:yes");
  const MadePopulation misses = made_of(0.22, 0), calls = made_of(0, 0.21);
  const MadeCoverage one = cover_with("texts called yes", misses, missed, true);
  EXPECT_LE(one.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(one.violations, 0.01) << "the texts called yes bind";
  EXPECT_LT(one.full_depth, 0.5);
  EXPECT_GT(cover_with("all texts tested, those called yes promised", misses, RiskLoss::disagreement, true).violations,
            2 * kMadeDelta);
  EXPECT_GT(cover_with("the others promised and not tested", calls, missed, false).violations, 2 * kMadeDelta);
  missed.max_false = kMadeMaxDrop;
  const MadeCoverage other = cover_with("the others", calls, missed, false);
  EXPECT_LE(other.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(other.violations, 0.01) << "the others bind";
  const MadeCoverage both = cover_with("texts called yes, with the others", misses, missed, true);
  EXPECT_LE(both.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(both.violations, 0.01);
}

// At the third level no label changes, and no score is large enough to decide by.
TEST(CoverageOfModes, KeepsDecisionWhereTheLabelIs) {
  const MadePopulation made{{{.share = 0.5}, {.share = 0.3, .changed = 0.04}, {.share = 0.2}}, {0, 1, 2}};
  const auto risk = [&](const PolicySpec& policy) {
    double lost = 0;
    for (size_t kind = 0; kind < made.kinds.size(); ++kind)
      if (made.leaves_early(kind, policy))
        lost += made.kinds[kind].share * (kind == 2 ? 0.5 : made.kinds[kind].changed);
    return lost;
  };
  const auto cover_with = [&](std::string_view name, const RiskLoss& loss) {
    CalibrationPlan plan = entropy_plan();
    plan.loss = loss;
    return cover_made(
        name, kDraws,
        [&, plan](uint64_t draw) {
          return policies_of(calibrate(split_for_calibration(made.draw(300, draw), draw), plan));
        },
        [&](const std::vector<PolicySpec>& got) { return risk(got[0]) > kMadeMaxDrop; });
  };
  const MadeCoverage decisions = cover_with("decisions", loss_named("decision:yes>=0.95"));
  EXPECT_LE(decisions.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(decisions.violations, 0.01) << "the third level binds";
  EXPECT_LT(decisions.full_depth, 0.2);
  EXPECT_GT(cover_with("labels tested, decisions promised", RiskLoss::disagreement).violations, 2 * kMadeDelta);
}

// Few texts leave early, and those that do lose much: within the budget of all, beyond twice the budget where they
// left.
TEST(CoverageOfModes, NoExitIsWorseThanTwiceTheBudget) {
  const MadePopulation made{
      {{.share = 0.15, .changed = 0.02}, {.share = 0.15, .changed = 0.4}, {.share = 0.7, .changed = 0.5}}, {0, 1, 2}};
  const auto broken = [&](const std::vector<PolicySpec>& got) {
    return made.risk(got[0], CertifiedUnit::texts, [&](const Kind& kind) {
      return made.leaves_early(static_cast<size_t>(&kind - made.kinds.data()), got[0]);
    }) > 2 * kMadeMaxDrop;
  };
  const auto cover_with = [&](std::string_view name, const std::string& by) {
    CalibrationPlan plan = entropy_plan();
    plan.group.by = by;
    return cover_made(
        name, kDraws,
        [&, plan](uint64_t draw) {
          return policies_of(calibrate(split_for_calibration(made.draw(400, draw), draw), plan));
        },
        broken);
  };
  const MadeCoverage exits = cover_with("every exit tested", "exit");
  EXPECT_LE(exits.violations, allowed_of(kMadeDelta, kDraws));
  EXPECT_GT(exits.violations, 0.01) << "the exit binds";
  EXPECT_LT(exits.full_depth, 0.5);
  EXPECT_GT(cover_with("the whole tested, exits promised", "").violations, 2 * kMadeDelta);
}

}  // namespace
}  // namespace exeunt
