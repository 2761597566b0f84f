// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/served_policies.h"

#include "exeunt/serve/http_message.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/fake_engine.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

std::string current(const ServedPolicies& policies) {
  return str(policies.current()->spec);
}

TEST(ServedPolicies, StepsAlongAllowedCertifiedPointsUnderLoad) {
  ServedPolicies policies(certified(0.02), bind_policy);
  Clock::time_point now = Clock::time_point{} + 1h;
  EXPECT_EQ(policies.adapt_at(false), Clock::time_point::max());  // idle, and at its default
  EXPECT_LT(policies.adapt_at(true), now);
  EXPECT_EQ(current(policies), "entropy:0.1");
  EXPECT_EQ(policies.max_drop(), 0.01);
  for (int i = 0; i < 100; ++i) policies.adapt(now += 25ms, 1.0);
  EXPECT_EQ(current(policies), "entropy:0.2");  // 5 % would be the next
  EXPECT_EQ(policies.max_drop(), 0.02);
  EXPECT_EQ(policies.level(), 1);
  EXPECT_EQ(policies.adapt_at(false), now + 25ms);  // it still has to come down
  for (int i = 0; i < 100; ++i) policies.adapt(now += 25ms, 0.0);
  EXPECT_EQ(current(policies), "entropy:0.1");
}

TEST(ServedPolicies, AdaptsAtIntervals) {
  ServedPolicies policies(certified(0.05), bind_policy);
  const Clock::time_point start = Clock::time_point{} + 1h;
  policies.adapt(start, 0.0);
  policies.adapt(start + 10ms, 1.0);  // too early to be seen
  policies.adapt(start + 25ms, 1.0);
  policies.adapt(start + 74ms, 1.0);
  EXPECT_EQ(policies.level(), 0);
  policies.adapt(start + 99ms, 1.0);
  EXPECT_EQ(policies.level(), 1);
}

TEST(ServedPolicies, CertifiesNothingBeforeWeightsAreHashed) {
  PolicySettings settings = certified(0.05);
  settings.hashed = false;
  settings.promise = "none (the weights are not hashed yet)";
  ServedPolicies policies(settings, bind_policy);
  Clock::time_point now = Clock::time_point{} + 1h;
  for (int i = 0; i < 100; ++i) policies.adapt(now += 25ms, 1.0);
  EXPECT_EQ(current(policies), "entropy:0.1");  // points of larger loss need a certificate
  EXPECT_FALSE(policies.certified());
  EXPECT_EQ(policies.max_drop(), 0);
  EXPECT_EQ(policies.promise(), settings.promise);
  policies.weights_hashed(true);
  EXPECT_TRUE(policies.certified());
  EXPECT_EQ(policies.max_drop(), 0.01);
  EXPECT_THAT(policies.promise(), testing::HasSubstr("at most 1 % of answers to distinct texts differ"));

  ServedPolicies other(settings, bind_policy);
  other.weights_hashed(false);
  EXPECT_FALSE(other.certified());
  EXPECT_EQ(current(other), "full");
  EXPECT_EQ(other.promise(), "none (the weights are not those that the manifest tells)");
}

TEST(ServedPolicies, ReplacesTightenedPointByNextSafer) {
  ServedPolicies policies(certified(0.05), bind_policy);
  EXPECT_TRUE(policies.certified());
  Clock::time_point now = Clock::time_point{} + 1h;
  for (int i = 0; i < 100; ++i) policies.adapt(now += 25ms, 1.0);
  EXPECT_EQ(current(policies), "entropy:0.4");
  policies.tighten(2);
  EXPECT_EQ(current(policies), "entropy:0.2");
  EXPECT_EQ(policies.max_drop(), 0.02);
  policies.tighten(0);
  EXPECT_EQ(current(policies), "entropy:0.2");  // not tightened
  for (int i = 0; i < 200; ++i) policies.adapt(now += 25ms, 0.0);
  EXPECT_EQ(policies.level(), 0);
  EXPECT_EQ(current(policies), "full");
  EXPECT_EQ(policies.max_drop(), 0);
  EXPECT_FALSE(policies.certified());
  EXPECT_FALSE(policies.point_of(*policies.current()).has_value());
  EXPECT_EQ(str(policies.named("entropy:0.2")->spec), "entropy:0.2");  // clients may still ask for less
}

TEST(ServedPolicies, ReportsEpsilonOfEachPoint) {
  const ServedPolicies policies(certified(0.02), bind_policy);
  ASSERT_EQ(policies.points(), 2U);
  EXPECT_EQ(policies.promised(0), 0.01);
  EXPECT_EQ(policies.promised(1), 0.02);
  EXPECT_EQ(policies.point_of(policies.point(1)), 1U);
}

TEST(ServedPolicies, DescribesPromiseOfActivePoint) {
  ServedPolicies policies(certified(0.02), bind_policy);
  EXPECT_THAT(policies.promise(), testing::HasSubstr("at most 1 % of answers to distinct texts differ"));
  Clock::time_point now = Clock::time_point{} + 1h;
  for (int i = 0; i < 100; ++i) policies.adapt(now += 25ms, 1.0);
  EXPECT_THAT(policies.promise(), testing::HasSubstr("at most 2 % of answers to distinct texts differ"));
  policies.tighten(0);
  policies.tighten(1);
  EXPECT_EQ(policies.promise(), "none (found broken on the texts of this server)");
  PolicySettings chosen = certified();
  chosen.chosen = "entropy:0.3";
  chosen.promise = "none (named by hand)";
  EXPECT_EQ(ServedPolicies(chosen, bind_policy).promise(), "none (named by hand)");
}

TEST(ServedPolicies, PromisesNothingTestableForAccuracyDropQuestionsOrCrc) {
  PolicySettings drop = certified(), questions = certified(), expected = certified();
  drop.entry->certificate->loss = RiskLoss::zero_one_drop;
  questions.entry->certificate->loss = loss_named("top:3");
  expected.entry->certificate->method = RiskMethod::crc;
  for (const PolicySettings& settings : {drop, questions, expected}) {
    const ServedPolicies policies(settings, bind_policy);
    EXPECT_TRUE(policies.certified());
    EXPECT_FALSE(policies.promised(0).has_value());
  }
}

TEST(ServedPolicies, ChosenPolicyHasNoPromiseAndIgnoresLoad) {
  PolicySettings settings = certified();
  settings.chosen = "entropy:0.3";
  ServedPolicies policies(settings, bind_policy);
  EXPECT_EQ(current(policies), "entropy:0.3");
  EXPECT_FALSE(policies.certified());
  EXPECT_FALSE(policies.promised(0).has_value());
  EXPECT_EQ(policies.adapt_at(true), Clock::time_point::max());
  EXPECT_EQ(policies.allowed(), "full,entropy:0.3");
}

TEST(ServedPolicies, LimitsCacheOfClientPolicies) {
  PolicySettings settings = certified();
  settings.allowed = "entropy:0..0.9";
  int bound = 0;
  ServedPolicies policies(settings, [&](const PolicySpec& spec, std::vector<float> rates) {
    ++bound;
    return bind_policy(spec, std::move(rates));
  });
  const int at_start = bound;
  (void)policies.named("entropy:0.5");
  (void)policies.named("entropy:0.5");
  EXPECT_EQ(bound, at_start + 1);
  for (int i = 0; i < 300; ++i) (void)policies.named(fmt::format("entropy:0.{:03}", i));
  (void)policies.named("entropy:0.5");
  EXPECT_EQ(bound, at_start + 302);
  EXPECT_THROW((void)policies.named("entropy:0.95"), Refusal);
  EXPECT_THROW((void)policies.named(std::string(257, 'x')), Refusal);
}

}  // namespace
}  // namespace exeunt::serve
