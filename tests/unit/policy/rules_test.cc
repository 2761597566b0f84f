// SPDX-License-Identifier: Apache-2.0
// Every rule, by the vectors of the papers and their code.
#include <gtest/gtest.h>

#include "tests/unit/policy/walk.h"

namespace exeunt {
namespace {

TEST(Full, AnswersAtTheLastExit) {
  EXPECT_EQ(walk("full", labels({0, 0, 0, 0})), 4);
}

TEST(Layer, AnswersAtThatLayer) {
  for (int layer = 1; layer <= 4; ++layer)
    EXPECT_EQ(walk("layer:" + std::to_string(layer), labels({0, 1, 0, 1})), layer);
}

TEST(Entropy, LeavesBelowTheThresholdAndNotAtIt) {
  const Logits logits{{0, 0}, {2, 0}, {9, 0}};
  EXPECT_EQ(walk("entropy:0.7", logits), 1) << "0.7 is above ln 2";
  EXPECT_EQ(walk("entropy:0.5", logits), 2);
  EXPECT_EQ(walk("entropy:0.3", logits), 3);
  EXPECT_EQ(walk("entropy:0", Logits{{500, 0}, {500, 0}}), 2) << "an entropy of zero is not below zero";
  PolicySpec spec = parse_policy("entropy:0.1");
  spec.params[0] = compute_evidence({logits[1].data(), 2}).entropy;  // exactly the entropy of exit 2
  EXPECT_EQ(walk(bind(spec, sites_for(logits)), logits), 3);
}

TEST(Entropy, MayHaveOneThresholdPerExit) {
  const Logits logits{{2, 0}, {2, 0}, {2, 0}};
  EXPECT_EQ(walk("entropy:0.3,0.4,0", logits), 2);
  EXPECT_EQ(walk("entropy:0.3,0.3,0.9", logits), 3) << "the last value is ignored";
}

TEST(Nentropy, DividesByTheLogarithmOfTheClasses) {
  EXPECT_EQ(walk("nentropy:0.53", Logits{{2, 0}, {2, 0}}), 1);
  EXPECT_EQ(walk("nentropy:0.52", Logits{{2, 0}, {2, 0}}), 2);
  EXPECT_EQ(walk("nentropy:0.76", Logits{{1, 2, 3}, {1, 2, 3}}), 1) << ".832396 / ln 3 = .757675";
  EXPECT_EQ(walk("nentropy:0.75", Logits{{1, 2, 3}, {1, 2, 3}}), 2);
}

TEST(Confidence, LeavesAboveTheThresholdAndNotAtIt) {
  EXPECT_EQ(walk("confidence:0.9", firsts({0.85, 0.05, 0.9})), 2);
  EXPECT_EQ(walk("confidence:0.5", Logits{{0, 0}, {0, 0}}), 2);
  EXPECT_EQ(walk("confidence:1", Logits{{500, 0}, {500, 0}}), 2);
}

TEST(Margin, IsTheLeadOverTheSecond) {
  const Logits logits{{3, 3, 0}, {3, 2, 2}, {3, 0, 0}, {3, 0, 0}};
  EXPECT_EQ(walk("margin:0", logits), 2) << "a tie leads by nothing";
  EXPECT_EQ(walk("margin:0.5", logits), 3);
  EXPECT_EQ(walk("margin:0.9", logits), 4);
}

TEST(Patience, CountsAgreementsInARow) {
  EXPECT_EQ(walk("patience:1", labels({0, 1, 1, 1, 1})), 3);
  EXPECT_EQ(walk("patience:2", labels({0, 0, 0, 0})), 3);
  EXPECT_EQ(walk("patience:1", labels({1, 1, 1, 1})), 2);
  EXPECT_EQ(walk("patience:2", labels({0, 0, 1, 1, 0, 0, 0, 0})), 7);
}

TEST(Patience, LeavesAtTheEarliestOneExitAfterItsNumber) {
  const Logits agreeing = labels(std::vector<int>(12, 1));
  for (int t = 1; t < 12; ++t) EXPECT_EQ(walk("patience:" + std::to_string(t), agreeing), t + 1);
  EXPECT_EQ(walk("patience:12", agreeing), 12);
  EXPECT_EQ(walk("patience:100", agreeing), 12);
}

TEST(Patience, ZeroIsTheFullModel) {
  EXPECT_EQ(walk("patience:0", labels(std::vector<int>(12, 1))), 12);
  EXPECT_EQ(walk("patience:0", Logits{{1}, {1}, {1}}), 3) << "for a regression too, with no tolerance given";
}

TEST(Patience, NumbersAgreeWithinTheToleranceAndNotAtIt) {
  const Logits numbers{{1.0F}, {1.5F}, {1.75F}, {1.875F}, {1.9F}};
  EXPECT_EQ(walk("patience:1,tol=0.5", numbers), 3);
  EXPECT_EQ(walk("patience:1,tol=0.6", numbers), 2);
  EXPECT_EQ(walk("patience:2,tol=0.5", numbers), 4);
  EXPECT_EQ(walk("patience:1,tol=0", Logits{{1}, {1}, {1}}), 3) << "no difference is below zero";
}

TEST(Window, OneSidedWindowsLeave) {
  EXPECT_EQ(walk("window:0,3,bias_1", firsts({0.6, 0.7, 0.55, 0.9})), 3);
  EXPECT_EQ(walk("window:0,3,bias_1", firsts({0.6, 0.5, 0.7, 0.9})), 4) << "a half breaks it";
  EXPECT_EQ(walk("window:0,3,bias_1", firsts({0.4, 0.3, 0.45, 0.1})), 3);
  EXPECT_EQ(walk("window:0,3,bias_1", firsts({0.6, 0.4, 0.6, 0.6, 0.6, 0.6})), 5);
}

TEST(Window, MonotoneWindowsLeave) {
  EXPECT_EQ(walk("window:0,3,bias_2", firsts({0.6, 0.6, 0.7, 0.9})), 3) << "equal is no step back";
  EXPECT_EQ(walk("window:0,3,bias_2", firsts({0.6, 0.7, 0.65, 0.9})), 4);
  EXPECT_EQ(walk("window:0,3,bias_2", firsts({0.4, 0.3, 0.2, 0.9})), 3);
  EXPECT_EQ(walk("window:0,3,bias_2", firsts({0.4, 0.3, 0.35, 0.3, 0.2, 0.1})), 5) << "the last three fall";
  EXPECT_EQ(walk("window:0,3,bias_2", firsts({0.4, 0.6, 0.7, 0.8, 0.9})), 4) << "the oldest must be decided";
}

TEST(Window, NarrowWindowsLeave) {
  EXPECT_EQ(walk("window:0,3,bias_3,range=0.1", firsts({0.6, 0.65, 0.69, 0.9})), 3);
  EXPECT_EQ(walk("window:0,3,bias_3,range=0.1", firsts({0.6, 0.66, 0.75, 0.74, 0.7, 0.9})), 4);
  EXPECT_EQ(walk("window:0,2,bias_3,range=0", firsts({0.6, 0.7, 0.7, 0.9})), 3) << "at the range still leaves";
  EXPECT_EQ(walk("window:0,3,bias_3,range=1", firsts({0.45, 0.55, 0.45, 0.55})), 4) << "both sides";
}

TEST(Window, MarginWidensTheUndecidedMiddle) {
  EXPECT_EQ(walk("window:0,2,bias_1,margin=0.1", firsts({0.55, 0.58, 0.65, 0.7, 0.9})), 4);
  EXPECT_EQ(walk("window:0,2,bias_1,margin=0.1", firsts({0.45, 0.42, 0.35, 0.3, 0.9})), 4);
  for (const std::string stat : {"class0", "argmax-consistent"}) {  // one rule, where there are two classes
    EXPECT_EQ(walk("window:0,2,bias_1,margin=0.1,stat=" + stat, firsts({0.55, 0.58, 0.65, 0.7, 0.9})), 4) << stat;
    EXPECT_EQ(walk("window:0,2,bias_1,margin=0.05,stat=" + stat, firsts({0.55, 0.58, 0.65, 0.7, 0.9})), 3) << stat;
    EXPECT_EQ(walk("window:0,2,bias_1,margin=0.1,stat=" + stat, firsts({0.45, 0.42, 0.35, 0.3, 0.9})), 4) << stat;
  }
  EXPECT_EQ(walk("window:0,2,bias_1,margin=0.1,stat=maxprob", firsts({0.55, 0.42, 0.35, 0.7, 0.9})), 4);
}

TEST(Window, FirstStageIsNormalisedEntropy) {
  EXPECT_EQ(walk("window:0.53,3,bias_1", Logits{{2, 0}, {2, 0}, {2, 0}, {2, 0}}), 1);
  EXPECT_EQ(walk("window:0.52,3,bias_1", Logits{{2, 0}, {2, 0}, {2, 0}, {2, 0}}), 3);
}

TEST(Window, WiderThanTheExitsNeverFires) {
  EXPECT_EQ(walk("window:0,9,bias_1", firsts({0.6, 0.6, 0.6, 0.6})), 4);
  EXPECT_EQ(walk("window:0,1000,bias_3,range=1", firsts({0.6, 0.6, 0.6, 0.6})), 4);
}

TEST(Window, LabelMustHoldWithMoreThanTwoClasses) {
  // Class 0 stays below a half throughout, which the original takes for a steady opinion.
  const Logits wavering = labels({1, 2, 1, 2, 2, 2}, 3);
  EXPECT_EQ(walk("window:0,3,bias_1", wavering), 6);
  EXPECT_EQ(walk("window:0,3,bias_1,stat=argmax-consistent", wavering), 6);
  EXPECT_EQ(walk("window:0,3,bias_1,stat=class0", wavering), 3);
  EXPECT_EQ(walk("window:0,3,bias_1,stat=maxprob", wavering), 3);
  EXPECT_EQ(walk("window:0,3,bias_1", labels({1, 2, 2, 2, 2}, 3)), 4);
}

TEST(Window, MaxprobHasOneBoundOnly) {
  EXPECT_EQ(walk("window:0,2,bias_1,stat=maxprob", Logits{{0, 0, 0.1F}, {0, 0, 0.1F}, {0, 0, 0.1F}}), 3);
  EXPECT_EQ(walk("window:0,2,bias_1,stat=maxprob", firsts({0.9, 0.1, 0.9})), 2);
}

TEST(Gini, LeavesBelowItsThreshold) {
  const Logits logits = firsts({0.6, 0.9, 0.95});  // impurities 0.48, 0.18 and 0.095
  EXPECT_EQ(walk("gini:0.5", logits), 1);
  EXPECT_EQ(walk("gini:0.2", logits), 2);
  EXPECT_EQ(walk("gini:0.1,0.1,0.1", logits), 3);
}

TEST(Minprob, LeavesWhenOneClassIsRuledOut) {
  const Logits three{{1, 1, 0}, {1, 1, -3}, {9, 0, 0}};  // smallest probabilities 0.155, 0.009 and 0.0001
  EXPECT_EQ(walk("minprob:0.2", three), 1);
  EXPECT_EQ(walk("minprob:0.1", three), 2);
  EXPECT_EQ(walk("minprob:0.001", three), 3);
  EXPECT_EQ(walk("minprob:0.15", firsts({0.6, 0.9, 0.95})), walk("confidence:0.85", firsts({0.6, 0.9, 0.95})));
}

TEST(Pcee, CountsConfidentExitsWhateverTheirLabels) {
  const Logits logits{{4, 0}, {0, 0}, {0, 4}, {4, 0}, {4, 0}, {4, 0}};
  EXPECT_EQ(walk("pcee:0.2,1", logits), 1);
  EXPECT_EQ(walk("pcee:0.2,2", logits), 4);
  EXPECT_EQ(walk("pcee:0.2,3", logits), 5);
  EXPECT_EQ(walk("pcee:0.01,1", logits), 6);
}

TEST(Divergence, CountsExitsThatBarelyMoved) {
  const Logits logits{{0, 0}, {3, 0}, {3.01F, 0}, {3.02F, 0}, {0, 3}, {0, 3}};
  EXPECT_EQ(walk("divergence:0.01,1", logits), 3);
  EXPECT_EQ(walk("divergence:0.01,2", logits), 4);
  EXPECT_EQ(walk("divergence:0.01,3", logits), 6);
  EXPECT_EQ(walk("divergence:0,1", Logits{{1, 0}, {1, 0}, {1, 0}}), 3) << "no movement is not below zero";
  EXPECT_EQ(walk("divergence:1,1", logits), 2) << "the first exit has nothing to compare with";
}

TEST(Vote, AddsUpTheConfidenceOfAgreeingExits) {
  const Logits logits = firsts({0.8, 0.8, 0.2, 0.2, 0.2, 0.2});
  EXPECT_EQ(walk("vote:0.7", logits), 1);
  EXPECT_EQ(walk("vote:1.5", logits), 2);
  EXPECT_EQ(walk("vote:1.7", logits), 5) << "a new label starts from nothing";
  EXPECT_EQ(walk("vote:9", logits), 6);
  EXPECT_EQ(walk("vote:1.5,0,1,1,1,1,1", logits), 4);
}

TEST(Lte, LeavesBelowTheThresholdAndNotAtIt) {
  const Logits logits{{0, 0}, {0, 0}, {0, 0}};
  EXPECT_EQ(walk("lte:0.25", logits, {0.5F, 0.25F, 0.9F}), 3);
  EXPECT_EQ(walk("lte:0.26", logits, {0.5F, 0.25F, 0.9F}), 2);
  EXPECT_EQ(walk("lte:0.6,0.2,0", logits, {0.5F, 0.25F, 0.9F}), 1);
  EXPECT_EQ(walk("lte:0.26", Logits{{1}, {2}, {3}}, {0.5F, 0.25F, 0.9F}), 2) << "a regression may have the head too";
}

TEST(Policies, FiniteLogitsAlwaysExit) {
  const Logits extreme{{1e38F, -1e38F}, {-3.4e38F, 3.4e38F}, {0, 1e-45F}, {-1e38F, 1e38F}};
  for (const char* text :
       {"entropy:0.3", "nentropy:0.1", "confidence:0.9", "margin:0.5", "patience:2", "window:0.1,3,bias_1",
        "window:0.1,3,bias_3,range=0.5", "pcee:0.1,3", "divergence:0.01,2", "vote:2.5"}) {
    const int layer = walk(text, extreme);
    EXPECT_GE(layer, 1) << text;
    EXPECT_LE(layer, 4) << text;
  }
}

}  // namespace
}  // namespace exeunt
