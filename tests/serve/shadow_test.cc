// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/shadow.h"

#include "tests/scratch.h"
#include "tests/serve/fake_engine.h"

namespace exeunt::serve {
namespace {

class TestShadow : public FakeContext {
 public:
  explicit TestShadow(ShadowOptions options) : shadow_(context_, policies_, options) {}
  ~TestShadow() { end_engine(); }
  TestShadow(const TestShadow&) = delete;
  TestShadow& operator=(const TestShadow&) = delete;

  // A request of these texts, answered by the default policy, goes by.
  void sample(const std::vector<std::string>& texts, double fill = 0, Ended ended = Ended::policy) {
    const auto request = std::make_shared<ActiveRequest>();
    for (const std::string& text : texts) {
      request->job.texts.push_back({.text = text});
      TextOutcome& outcome = request->outcomes.emplace_back();
      outcome.answer.ended = ended;
      outcome.answer.evidence.label = static_cast<int>(text.size() % 2);
    }
    shadow_.sample(request, fill);
  }
  Metrics::Now report() const {
    Metrics::Now now;
    shadow_.report(now);
    return now;
  }
  bool until_watched(uint64_t texts) {
    return until([&] { return report().shadows == texts; });
  }
  Shadow& shadow() { return shadow_; }
  ServedPolicies& policies() { return policies_; }

 private:
  ServiceContext context_ = context();
  ServedPolicies policies_{certified(), bind_policy};
  Shadow shadow_;
};

TEST(Shadow, RunsItsShareOfTheTextsWhateverTheRequestsTheyComeIn) {
  TestShadow test({.share = 0.25});
  for (int i = 0; i < 6; ++i) test.sample({"a", "bc", "dx"});  // 18 texts: the 4th, 8th, 12th and 16th run
  ASSERT_TRUE(test.until_watched(4));
  EXPECT_EQ(test.engine().begun(), 4);
  EXPECT_EQ(test.report().disagreements, 1U);  // of "a", "bc", "dx", "a"
  EXPECT_EQ(test.report().agreement, 0.75);
  EXPECT_EQ(test.report().shadows_skipped, 0U);
}

TEST(Shadow, LeavesOutTextsThatNoPolicyDecided) {
  TestShadow test({.share = 1});
  for (const Ended ended : {Ended::deadline, Ended::cancelled, Ended::failed}) test.sample({"a"}, 0, ended);
  test.sample({"a"}, 0, Ended::last_exit);
  ASSERT_TRUE(test.until_watched(1));
  EXPECT_EQ(test.engine().begun(), 1);
}

TEST(Shadow, GivesWayToClients) {
  TestShadow test({.share = 1});
  test.sample({"a"}, 0.51);
  EXPECT_EQ(test.report().shadows_skipped, 1U);
  test.engine().hold(true);
  test.sample(std::vector<std::string>(20, "a"), 0.5);  // 16 at a time
  EXPECT_EQ(test.report().shadows_skipped, 5U);
  test.engine().hold(false);
  ASSERT_TRUE(test.until_watched(16));
  test.sample({"a"});  // there is room again
  ASSERT_TRUE(test.until_watched(17));
  test.shadow().stop();
  test.sample({"a"});
  EXPECT_EQ(test.report().shadows_skipped, 5U);
  EXPECT_EQ(test.engine().begun(), 17);
}

TEST(Shadow, ABrokenPromiseIsLoggedOnceAndTightensWhereAsked) {
  for (const bool tighten : {false, true}) {
    TestShadow test({.share = 1, .tighten_on_alarm = tighten});
    test.sample({"dx", "dx"});
    ASSERT_TRUE(test.until_watched(2));
    EXPECT_TRUE(test.report().alarm);  // two of two, where 1 % was promised
    EXPECT_EQ(test.policies().tightened(), tighten);
    EXPECT_THAT(test.log(), testing::HasSubstr(tighten ? "action=\"full depth from now on\"" : "action=none"));
    const std::string said = test.log();
    test.sample({"dx"});
    if (tighten) {
      EXPECT_EQ(test.engine().begun(), 2);  // full depth needs no shadow
    } else {
      ASSERT_TRUE(test.until_watched(3));
    }
    EXPECT_EQ(test.log(), said);
  }
}

TEST(Shadow, FailuresAreNotCountedAsDisagreement) {
  TestShadow test({.share = 1});
  test.sample({"fail"});
  test.sample({"ab"});
  ASSERT_TRUE(test.until_watched(1));
  EXPECT_EQ(test.engine().begun(), 2);
  EXPECT_EQ(test.report().disagreements, 0U);
}

}  // namespace
}  // namespace exeunt::serve
