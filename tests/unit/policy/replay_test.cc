// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/replay.h"

#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"
#include "tests/unit/policy/walk.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Logits logits_of(const ExitTrace& trace, size_t row) {
  Logits logits;
  for (int exit = 0; exit < trace.exits; ++exit)
    logits.emplace_back(trace.at(row, exit).begin(), trace.at(row, exit).end());
  return logits;
}

std::vector<float> lte_of(const ExitTrace& trace, size_t row) {
  std::vector<float> lte;
  for (int exit = 0; exit < trace.exits; ++exit) lte.push_back(trace.lte_at(row, exit));
  return lte;
}

// The replay of a policy equals walking every row through it alone.
void expect_same_as_walking(Replayer& replayer, const ExitTrace& trace, const PolicySpec& spec) {
  const Departures departures = replayer.run(spec);
  const Policy policy = bind(spec, trace.sites());
  for (size_t row = 0; row < trace.rows; ++row)
    ASSERT_EQ(departures.exit[row] + 1, walk(policy, logits_of(trace, row), lte_of(trace, row)))
        << str(spec) << " row " << row;
}

TEST(Replay, MatchesStepwiseReplayOfEachRow) {
  for (const int classes : {2, 3, 7}) {
    const ExitTrace trace = random_trace({.rows = 200, .exits = 8, .classes = classes, .lte = true});
    Replayer replayer(trace);
    for (const char* text : {"full",
                             "layer:3",
                             "entropy:0.3",
                             "entropy:0.1,0.2,0.3,0.4,0.5,0.6,0.7,0",
                             "nentropy:0.2",
                             "confidence:0.8",
                             "margin:0.5",
                             "patience:0",
                             "patience:2",
                             "window:0.1,3,bias_1",
                             "window:0,4,bias_2",
                             "window:0.05,3,bias_3,range=0.2",
                             "window:0.05,3,bias_1,margin=0.1,stat=maxprob",
                             "pcee:0.4,2",
                             "divergence:0.05,1",
                             "divergence:0.1,2",
                             "vote:2",
                             "vote:2,0,1,2,1,1,1,1,1",
                             "lte:0.2",
                             "entropy:0.31"}) {
      expect_same_as_walking(replayer, trace, parse_policy(text));
    }
  }
}

TEST(Replay, MatchesStepwiseReplayForRegression) {
  const ExitTrace trace = random_trace({.rows = 200, .exits = 8, .classes = 1});
  Replayer replayer(trace);
  for (const char* text : {"full", "layer:2", "patience:0", "patience:1,tol=0.5", "patience:3,tol=1.5"})
    expect_same_as_walking(replayer, trace, parse_policy(text));
}

TEST(Replay, CachesEvidenceByExitsAndTemperatures) {
  const ExitTrace trace = random_trace({.rows = 100, .exits = 6, .classes = 3});
  Replayer replayer(trace);
  for (const char* text : {"entropy:0.5", "divergence:0.1,1", "entropy:0.5", "vote:1.5"}) {
    PolicySpec spec = parse_policy(text);
    expect_same_as_walking(replayer, trace, spec);
    spec.exits = {2, 5, 6};
    expect_same_as_walking(replayer, trace, spec);
    spec.temperature = {1, 0.5F, 1, 1, 3, 1};
    expect_same_as_walking(replayer, trace, spec);
    spec.exits.clear();
    expect_same_as_walking(replayer, trace, spec);
  }
}

TEST(Replay, AnswerIsThatOfTheExitTaken) {
  const ExitTrace trace = random_trace({.rows = 20, .exits = 4});
  Replayer replayer(trace);
  const Departures departures = replayer.run(parse_policy("layer:2"));
  EXPECT_EQ(replayer.answer(departures, 7).data(), trace.at(7, 1).data());
  EXPECT_TRUE(departures.by_ramp.empty());
}

// Two exits; the ramp of the last layer is sure of the wrong label.
ExitTrace ramp_trace() {
  ExitTrace trace = random_trace({.rows = 3, .exits = 2, .classes = 2, .ramp = true});
  trace.logits = {0, 0, 0, 1, /**/ 0, 0, 0, 1, /**/ 5, 0, 0, 1};
  trace.ramp = {9, 0, /**/ 0, 0, /**/ 9, 0};
  return trace;
}

TEST(Replay, UsesLastRampOnlyIfSwitchedOn) {
  const ExitTrace trace = ramp_trace();
  Replayer right(trace);
  const Departures departures = right.run(parse_policy("entropy:0.6"));
  EXPECT_THAT(departures.exit, ElementsAre(1, 1, 0));
  EXPECT_EQ(right.answer(departures, 0)[1], 1);

  Replayer faithful(trace, LastHead::ramp);
  const Departures as_coded = faithful.run(parse_policy("entropy:0.6"));
  EXPECT_THAT(as_coded.exit, ElementsAre(1, 1, 0));
  EXPECT_THAT(as_coded.by_ramp, ElementsAre(true, false, false)) << "row 1: the ramp is unsure; row 2: left before";
  EXPECT_EQ(faithful.answer(as_coded, 0)[0], 9);
  EXPECT_EQ(faithful.answer(as_coded, 1)[1], 1);
  EXPECT_THAT(faithful.run(parse_policy("full")).by_ramp, ElementsAre(false, false, false));
  EXPECT_THAT(faithful.run(parse_policy("patience:0")).by_ramp, ElementsAre(false, false, false));
}

// Row 0: the ramp says what the exit before it said and not what the last exit says; row 1: the reverse.
TEST(Replay, LastRampIsComparedWithExitBeforeIt) {
  ExitTrace trace = random_trace({.rows = 2, .exits = 2, .classes = 2, .ramp = true});
  trace.logits = {3, 0, 0, 3, /**/ 3, 0, 0, 3};
  trace.ramp = {3, 0, /**/ 0, 3};
  EXPECT_THAT(replay(trace, parse_policy("divergence:0.1,1"), LastHead::ramp).by_ramp, ElementsAre(true, false));
}

TEST(Replay, RejectsLastRampSwitchWithoutRamp) {
  const ExitTrace trace = random_trace({});
  EXPECT_THAT(error_of([&] { (void)Replayer(trace, LastHead::ramp); }).what(), HasSubstr("no ramp of the last layer"));
}

TEST(Replay, RejectsPolicyThatDoesNotFit) {
  const ExitTrace trace = random_trace({.classes = 1});
  EXPECT_EQ(error_of([&] { (void)replay(trace, parse_policy("entropy:0.3")); }).code(), Code::usage);
}

TEST(Replay, RealModelExitsEarlierWithLargerThreshold) {
  const ExitTrace trace = read_trace(real_trace("sst2-exeunt.dev"));
  Replayer replayer(trace);
  std::vector<uint8_t> before(trace.rows, 11);
  for (const float threshold : {0.0F, 0.01F, 0.1F, 0.3F, 0.6F, 0.7F}) {
    PolicySpec spec = parse_policy("entropy:0");
    spec.params[0] = threshold;
    const Departures now = replayer.run(spec);
    for (size_t row = 0; row < trace.rows; ++row) EXPECT_LE(now.exit[row], before[row]);
    before = now.exit;
  }
  EXPECT_THAT(before, testing::Each(0)) << "0.7 is above ln 2";
}

}  // namespace
}  // namespace exeunt
