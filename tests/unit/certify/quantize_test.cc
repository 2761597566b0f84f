// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/quantize.h"

#include <set>

#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

// A made-up model of which we know what each matrix does in the low precision: it flips the answers of some texts.
struct Pretended {
  std::vector<std::string> matrices;
  std::map<std::string, std::set<size_t>, std::less<>> flips;  // matrix → texts it spoils
  size_t rows = 200;
  int passes = 0;

  ExitTrace reference() const { return trace_of({}); }
  ExitTrace trace(const Exceptions& kept) {
    ++passes;
    std::set<size_t> spoiled;
    for (const auto& [matrix, texts] : flips) {
      if (!kept.contains(matrix)) spoiled.insert(texts.begin(), texts.end());
    }
    return trace_of(spoiled);
  }
  ExitTrace trace_of(const std::set<size_t>& spoiled) const {
    ExitTrace out;
    out.rows = rows;
    out.exits = 1;
    out.width = 2;
    out.info.labels = {"no", "yes"};
    out.info.layers = {4};
    for (size_t row = 0; row < rows; ++row) {
      const bool yes = (row % 2 == 1) != spoiled.contains(row);
      out.logits.insert(out.logits.end(), {yes ? 0.0F : 3.0F, yes ? 3.0F : 0.0F});
      out.gold.push_back(static_cast<float>(row % 2));
      out.lengths.push_back(8);
      out.index.push_back(static_cast<int64_t>(row));
    }
    return out;
  }
};

Pretended some_model(int layers) {
  Pretended model;
  for (int layer = 0; layer < layers; ++layer) {
    for (const char* part : {"qkv", "output", "ffn1", "ffn2"}) {
      model.matrices.push_back(fmt::format("layer.{}.{}", layer, part));
    }
  }
  return model;
}

QuantizeOutcome choose(Pretended& model, double max_changed, int trials = 64) {
  const ExitTrace reference = model.reference();
  return choose_exceptions(reference, reference,
                           {.matrices = model.matrices,
                            .policy = parse_policy("full"),
                            .max_changed = max_changed,
                            .max_accuracy_drop = max_changed,
                            .trials = trials,
                            .trace = [&](const Exceptions& kept, bool) { return model.trace(kept); }});
}

TEST(Quantize, KeepsNoMatrixWiderIfNoneIsNeeded) {
  Pretended model = some_model(4);
  model.flips["layer.0.qkv"] = {3};
  const QuantizeOutcome outcome = choose(model, 0.01);
  EXPECT_TRUE(outcome.within);
  EXPECT_TRUE(outcome.exceptions.empty());
  EXPECT_EQ(outcome.trials, 1);
  EXPECT_DOUBLE_EQ(outcome.plain.changed, 0.005);
  EXPECT_DOUBLE_EQ(outcome.plain.before, 1);
  EXPECT_DOUBLE_EQ(outcome.plain.after, 0.995);
}

TEST(Quantize, KeepsTheFewestMostHarmfulMatrices) {
  Pretended model = some_model(6);
  model.flips = {{"layer.1.ffn2", {1, 2, 3, 4, 5, 6}},
                 {"layer.3.ffn2", {11, 12, 13, 14}},
                 {"layer.5.output", {21, 22, 23}},
                 {"layer.0.qkv", {31}}};
  const QuantizeOutcome outcome = choose(model, 0.01);  // two of 200 may change
  EXPECT_TRUE(outcome.within);
  EXPECT_EQ(outcome.exceptions, (Exceptions{{"layer.1.ffn2", Precision::bf16},
                                            {"layer.3.ffn2", Precision::bf16},
                                            {"layer.5.output", Precision::bf16}}));
  EXPECT_DOUBLE_EQ(outcome.plain.changed, 14.0 / 200);
  EXPECT_DOUBLE_EQ(outcome.chosen.changed, 1.0 / 200);
  EXPECT_EQ(outcome.trials, model.passes);
}

// Doubling finds 8; the gap between 4 and 8 is halved towards 7.
TEST(Quantize, FindsShortestListBetweenTwoDoublings) {
  Pretended model = some_model(6);
  for (size_t i = 0; i < 7; ++i) model.flips[model.matrices[3 * i]] = {10 * i, 10 * i + 1, 10 * i + 2};
  const QuantizeOutcome outcome = choose(model, 0.01);  // two of 200 may change, and each spoils three
  EXPECT_TRUE(outcome.within);
  EXPECT_EQ(outcome.exceptions.size(), 7U);
  EXPECT_EQ(outcome.chosen.changed, 0);
}

TEST(Quantize, BoundsAccuracyDropSeparately) {
  Pretended model = some_model(2);
  model.flips["layer.1.ffn1"] = {1, 2, 3, 4, 5, 6};
  const ExitTrace reference = model.reference();
  const QuantizeOutcome outcome =
      choose_exceptions(reference, reference,
                        {.matrices = model.matrices,
                         .policy = parse_policy("full"),
                         .max_changed = 0.5,
                         .max_accuracy_drop = 0.01,
                         .trials = 64,
                         .trace = [&](const Exceptions& kept, bool) { return model.trace(kept); }});
  EXPECT_NEAR(outcome.plain.drop(), 0.03, 1e-12);
  EXPECT_EQ(outcome.exceptions, (Exceptions{{"layer.1.ffn1", Precision::bf16}}));
}

TEST(Quantize, LimitsTrialsOfADeepModel) {
  Pretended model = some_model(48);
  model.flips["layer.17.ffn2"] = {1, 2, 3, 4, 5, 6};
  const QuantizeOutcome outcome = choose(model, 0.01, 40);
  EXPECT_TRUE(outcome.within);
  EXPECT_TRUE(outcome.exceptions.contains("layer.17.ffn2"));
  EXPECT_LE(outcome.exceptions.size(), 10U);  // with the neighbours it was measured with
  EXPECT_LE(model.passes, 40);
}

TEST(Quantize, ReturnsBestListIfBoundsCannotBeMet) {
  Pretended model = some_model(2);
  model.flips["layer.0.qkv"] = {1, 2, 3};
  model.flips["always"] = {5, 6, 7, 8};  // no exception helps: what the higher precision itself changes
  const QuantizeOutcome outcome = choose(model, 0.001);
  EXPECT_FALSE(outcome.within);
  EXPECT_TRUE(outcome.exceptions.contains("layer.0.qkv"));
  EXPECT_DOUBLE_EQ(outcome.chosen.changed, 4.0 / 200);
}

// Three exits; each text's margin at each of them. Labels are "yes" throughout unless a margin is negative.
ExitTrace exits_of(const std::vector<std::vector<float>>& margins) {
  ExitTrace out;
  out.rows = margins.size();
  out.exits = 3;
  out.width = 2;
  out.info.labels = {"no", "yes"};
  out.info.layers = {2, 4, 6};
  for (size_t row = 0; row < margins.size(); ++row) {
    for (const float margin : margins[row]) out.logits.insert(out.logits.end(), {0, margin});
    out.gold.push_back(1);
    out.lengths.push_back(8);
    out.index.push_back(static_cast<int64_t>(row));
  }
  return out;
}

TEST(Quantize, CountsAnotherExitWithTheSameLabelAsChanged) {
  const ExitTrace before = exits_of({{6, 6, 6}, {6, 6, 6}, {1, 6, 6}, {1, 1, 6}});
  const ExitTrace after = exits_of({{6, 6, 6}, {1, 6, 6}, {6, 6, 6}, {1, 1, -6}});
  const PolicySpec early = parse_policy("confidence:0.95");
  const Change change = change_between(before, after, early);
  EXPECT_DOUBLE_EQ(change.drift.exits, 0.5);    // the second and the third text
  EXPECT_DOUBLE_EQ(change.drift.labels, 0.25);  // the fourth
  EXPECT_DOUBLE_EQ(change.changed, 0.75) << "label or exit";
  EXPECT_DOUBLE_EQ(change.drop(), 0.25);
  EXPECT_DOUBLE_EQ(change_between(before, after, parse_policy("full")).changed, 0.25) << "one exit alone is in use";

  // And the search must keep the matrix that moves nothing but exits.
  const auto choose_under = [&](const PolicySpec& policy) {
    return choose_exceptions(
        before, before,
        {.matrices = {"layer.0.qkv", "layer.0.output"},
         .policy = policy,
         .max_changed = 0.25,
         .max_accuracy_drop = 1,
         .trace = [&](const Exceptions& kept, bool) { return kept.contains("layer.0.qkv") ? before : after; }});
  };
  EXPECT_TRUE(choose_under(early).exceptions.contains("layer.0.qkv"));
  EXPECT_TRUE(choose_under(parse_policy("full")).exceptions.empty());
}

}  // namespace
}  // namespace exeunt
