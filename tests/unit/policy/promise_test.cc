// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/promise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

Certificate two_percent() {
  Certificate certificate;
  certificate.max_drop = 0.02;
  certificate.delta = 0.05;
  return certificate;
}

// What an answer is compared with is part of the promise: nothing that compares int8 with int8 bounds it against fp32.
TEST(Promise, NamesWhatIsComparedWithWhat) {
  Certificate certificate = two_percent();
  EXPECT_EQ(promise_of(certificate, "int8"),
            "at most 2 % of answers to distinct texts differ from the int8 model at full depth, confidence 95 %");
  certificate.reference = LossReference::fp32;
  EXPECT_EQ(promise_of(certificate, "int8"),
            "at most 2 % of answers to distinct texts differ from the fp32 model at full depth, confidence 95 %");
  certificate.unit = CertifiedUnit::requests;
  EXPECT_EQ(promise_of(certificate, "int8"),
            "at most 2 % of answers to requests differ from the fp32 model at full depth, "
            "confidence 95 %");
}

TEST(Promise, IsWordedByItsLossMethodAndGroups) {
  Certificate certificate = two_percent();
  certificate.loss = RiskLoss::zero_one_drop;
  EXPECT_EQ(promise_of(certificate, "fp32"),
            "at most 2 % fewer answers to distinct texts are correct than those of the fp32 model at full depth, "
            "confidence 95 %");
  certificate.loss = RiskLoss::abs_diff;
  EXPECT_EQ(promise_of(certificate, "fp32"),
            "answers to distinct texts differ from the fp32 model at full depth by at most 2 % of the range on "
            "average (at most the range counts), confidence 95 %");
  certificate.loss = RiskLoss::disagreement;
  certificate.groups.resize(3);
  certificate.method = RiskMethod::crc;
  EXPECT_EQ(promise_of(certificate, "fp32"),
            "at most 2 % of answers to distinct texts differ from the fp32 model at full depth, also in each of 3 "
            "groups, in expectation");
  EXPECT_EQ(promise_of(PolicyEntry{}), "none (not certified)");
}

TEST(Promise, NamesLabelDecisionOrExit) {
  Certificate certificate = two_percent();
  certificate.loss = loss_named("missed:toxic");
  EXPECT_EQ(promise_of(certificate, "fp32"),
            "at most 2 % of the distinct texts that the fp32 model at full depth calls 'toxic' are not called so, "
            "confidence 95 %");
  certificate.loss.max_false = 0.01;
  certificate.unit = CertifiedUnit::requests;
  EXPECT_EQ(promise_of(certificate, "fp32"),
            "at most 2 % of the requests that the fp32 model at full depth calls 'toxic' are not "
            "called so, and at most 1 % of the others are, confidence 95 %");
  certificate.unit = CertifiedUnit::texts;
  certificate.loss = loss_named("decision:>=3.5");
  EXPECT_EQ(promise_of(certificate, "fp32"),
            "at most 2 % of answers to distinct texts are on the other side of '>=3.5' than those of the fp32 model at "
            "full depth, "
            "confidence 95 %");
  certificate.loss = loss_named("top:3");
  certificate.clusters = 250;
  EXPECT_EQ(promise_of(certificate, "fp32"),
            "at most 2 % of questions get another top 3 than by the fp32 model at full depth, by a test of 250 "
            "questions, confidence 95 %");
  certificate.clusters = 0;
  certificate.loss = RiskLoss::disagreement;
  certificate.group_by = "exit";
  EXPECT_EQ(
      promise_of(certificate, "fp32"),
      "at most 2 % of answers to distinct texts differ from the fp32 model at full depth, at no exit more than 4 %, "
      "confidence 95 %");
}

TEST(Promise, CertificateCoversItsPointsOnly) {
  PolicyEntry entry{.precision = "fp32", .exits = {2, 4}, .policy = parse_policy("entropy:0.1")};
  entry.points = {{entry.policy, 0.02, 0.5}, {parse_policy("entropy:0.3"), 0.05, 0.4}};
  EXPECT_FALSE(certificate_for(entry, entry.policy));
  entry.certificate = two_percent();
  EXPECT_EQ(certificate_for(entry, entry.policy)->max_drop, 0.02);
  EXPECT_EQ(certificate_for(entry, parse_policy("entropy:0.3"))->max_drop, 0.05);
  EXPECT_FALSE(certificate_for(entry, parse_policy("entropy:0.2")));
  PolicySpec other_exits = entry.policy;
  other_exits.exits = {4};
  EXPECT_FALSE(certificate_for(entry, other_exits));
  other_exits.exits = entry.exits;
  EXPECT_TRUE(certificate_for(entry, other_exits)) << "the same, in words";
}

TEST(Promise, HoldsWhereEveryConditionDoes) {
  PolicyEntry entry{.engine = "cpu/a", .numerics = 1, .precision = "int8", .precision_map = "m"};
  entry.certificate = two_percent();
  entry.certificate->max_length = 48;
  entry.certificate->tokenizer = "t";
  entry.certificate->last_head = LastHead::ramp;
  const RunConditions same{.engine = "cpu/a",
                           .numerics = 1,
                           .precision_map = "m",
                           .max_length = 48,
                           .tokenizer = "t",
                           .last_head = LastHead::ramp};
  EXPECT_EQ(broken_condition(entry, same), "");
  const auto broken = [&](auto&& change) {
    RunConditions run = same;
    change(run);
    return broken_condition(entry, run);
  };
  EXPECT_EQ(broken([](RunConditions& r) { r.engine = "cpu/b"; }),
            "certified on cpu/a, not on cpu/b; 'exeunt calibrate --transfer' certifies it here");
  EXPECT_EQ(broken([](RunConditions& r) { r.numerics = 2; }),
            "certified with version 1 of the arithmetic of cpu/a, running with 2");
  EXPECT_EQ(broken([](RunConditions& r) { r.numerics = 0; }), "") << "not known";
  EXPECT_EQ(broken([](RunConditions& r) { r.precision_map = ""; }),
            "certified with precision.json m, running with no precision.json");
  EXPECT_EQ(broken([](RunConditions& r) { r.precision_map = "0123456789abcdef"; }),
            "certified with precision.json m, running with precision.json 0123456789ab");
  EXPECT_EQ(broken([](RunConditions& r) { r.precision_map.reset(); }), "") << "not known";
  EXPECT_EQ(broken([](RunConditions& r) { r.max_length = 64; }), "certified with max-length 48, running with 64");
  EXPECT_EQ(broken([](RunConditions& r) { r.max_length = 0; }), "") << "not known";
  EXPECT_EQ(broken([](RunConditions& r) { r.tokenizer = "0123456789abcdef"; }),
            "certified with tokenizer t, running with 0123456789ab");
  EXPECT_EQ(broken([](RunConditions& r) { r.tokenizer = ""; }), "") << "not known";
  EXPECT_EQ(broken([](RunConditions& r) { r.last_head = LastHead::final; }),
            "certified with the last layer's ramp head, running with its final head");
  // What an older certificate does not say is no condition.
  entry.numerics = 0;
  entry.engine.clear();
  entry.certificate->max_length = 0;
  entry.certificate->tokenizer.clear();
  entry.certificate->last_head.reset();
  EXPECT_EQ(broken([](RunConditions& r) {
              r = {.engine = "cpu/b", .numerics = 2, .precision_map = "m", .max_length = 64, .tokenizer = "u"};
            }),
            "");
  EXPECT_EQ(broken([](RunConditions& r) { r.engine = "cuda/b"; }),
            "certified on cpu, not on cuda/b; 'exeunt calibrate --transfer' certifies it here");
  entry.certificate.reset();
  EXPECT_EQ(broken([](RunConditions& r) { r.engine = "cuda/b"; }), "") << "nothing is promised";
}

}  // namespace
}  // namespace exeunt
