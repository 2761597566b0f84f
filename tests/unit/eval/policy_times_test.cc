// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/policy_times.h"

#include "exeunt/eval/bench.h"
#include "exeunt/model/family.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

constexpr const char* kTimed = EXEUNT_TEST_DATA "/checkpoints/bert-deebert";

TEST(PolicyTimes, RunsEveryPolicyOverTheSameTexts) {
  const Scratch scratch;
  MeasureOptions options{.model = kTimed};
  options.data.path = scratch.write("my.csv", "text,label\na great film,positive\ndull,negative\nso so,negative\n");
  options.precision = "fp32";
  options.threads = 1;
  const Checkpoint model = Checkpoint::open(kTimed);
  const std::vector<PolicySpec> policies{parse_policy("layer:1"), parse_policy("entropy:0.3")};
  const PolicyTimes times = time_policies(options, model, policies, {.seconds = 0}, {});
  EXPECT_EQ(times.texts, 3U);
  EXPECT_EQ(times.at_once, 1U);
  EXPECT_EQ(times.rounds, kLeastRounds);
  EXPECT_EQ(times.precision, "fp32");
  EXPECT_GT(times.spread, 0);  // no two rounds take the same time
  EXPECT_EQ(times.full.policy, "full");
  EXPECT_DOUBLE_EQ(times.full.average_layers, 3);
  EXPECT_DOUBLE_EQ(times.full.clock_speedup, 1);
  ASSERT_EQ(times.rows.size(), 2U);
  EXPECT_EQ(times.rows[0].policy, "layer:1");
  EXPECT_DOUBLE_EQ(times.rows[0].average_layers, 1);
  EXPECT_DOUBLE_EQ(times.rows[0].layers_speedup, 3);
  for (const PolicyTime& row : times.rows) {
    EXPECT_GT(row.ms, 0);
    EXPECT_DOUBLE_EQ(row.clock_speedup, times.full.ms / row.ms);
  }
}

// However many wait together, the last few included, each text is run once in a round.
TEST(PolicyTimes, KeepsGivenNumberOfTextsInFlight) {
  Engine engine(Checkpoint::open(kTimed), {.threads = 1});
  std::vector<Encoding> texts(5);
  for (Encoding& text : texts) text = {.ids = {2, 5, 3}, .types = {0, 0, 0}, .offsets = {}};
  const std::vector<PolicySpec> policies{parse_policy("layer:2")};
  for (const size_t at_once : {1, 2, 5, 9}) {
    const PolicyTimes times = time_policies(engine, texts, policies, {.seconds = 0, .at_once = at_once});
    EXPECT_EQ(times.at_once, at_once);
    EXPECT_DOUBLE_EQ(times.full.average_layers, 3) << at_once;
    EXPECT_DOUBLE_EQ(times.rows.front().average_layers, 2) << at_once;
  }
}

TEST(PolicyTimes, TextsAreSpreadEvenlyOverTheData) {
  const Scratch scratch;
  MeasureOptions options{.model = kTimed};
  options.data.path =
      scratch.write("my.csv", "text,label\na,positive\na a,negative\na a a,negative\na a a a,negative\n");
  const Checkpoint model = Checkpoint::open(kTimed);
  const auto lengths = [&](size_t most) {
    std::vector<size_t> out;
    for (const Encoding& text : encoded_texts(options, model, most, {})) out.push_back(text.ids.size());
    return out;
  };
  EXPECT_THAT(lengths(0), testing::ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(lengths(2), testing::ElementsAre(3, 5));
  EXPECT_THAT(lengths(9), testing::ElementsAre(3, 4, 5, 6));
}

TEST(PolicyTimes, RejectsPolicyThatDoesNotFitTheModel) {
  Engine engine(Checkpoint::open(kTimed), {.threads = 1});
  const std::vector<Encoding> texts(1);
  const std::vector<PolicySpec> policies{parse_policy("layer:9")};
  EXPECT_EQ(error_of([&] { (void)time_policies(engine, texts, policies, {.seconds = 0}); }).code(), Code::usage);
  EXPECT_THAT(error_of([&] { (void)time_policies(engine, {}, policies, {.seconds = 0}); }).what(),
              testing::HasSubstr("no texts"));
}

}  // namespace
}  // namespace exeunt
