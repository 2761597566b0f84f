// SPDX-License-Identifier: Apache-2.0
#include "lab/report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Chart, TicksAreRoundAndCoverTheRange) {
  EXPECT_THAT(round_ticks(0, 1, 5), ElementsAre(0, 0.2, 0.4, testing::DoubleNear(0.6, 1e-12), 0.8, 1.0));
  EXPECT_THAT(round_ticks(1, 12, 8), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_GE(round_ticks(0.91234, 0.91235, 6).size(), 2U);
  EXPECT_EQ(tick_text(0.1 + 0.2), "0.3");
  EXPECT_EQ(tick_text(-0.0), "0");
}

TEST(Chart, EveryPointSaysItsValuesWithoutScripts) {
  const std::string svg =
      draw(Chart{"Quality", "layers", "accuracy", {{"ours", Mark::line, 0, {{3, 0.9, "entropy:0.2"}, {6, 0.92}}}}});
  EXPECT_THAT(svg, HasSubstr("<title>ours: entropy:0.2; layers 3, accuracy 0.9</title>"));
  EXPECT_THAT(svg, HasSubstr("<polyline"));
  EXPECT_THAT(svg, HasSubstr("aria-label=\"Quality\""));
}

TEST(Chart, NamesFromOutsideCannotBecomeMarkup) {
  const std::string hostile = "</svg><script>alert('x')</script>\"&\x01\xFF";
  const std::string svg = draw(Chart{hostile, hostile, hostile, {{hostile, Mark::dots, 0, {{1, 1, hostile}}}}}) +
                          draw(BarChart{hostile, hostile, hostile, {hostile}, {{hostile, 0, {1}}}});
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("alert('")));
  EXPECT_THAT(svg, Not(HasSubstr("\x01")));
  EXPECT_EQ(escape_html("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
}

TEST(Chart, EmptyAndDegenerateDataStillMakeAPicture) {
  for (const auto& points : std::vector<std::vector<ChartPoint>>{{}, {{1, 1}}, {{1, 0}, {1, 0}}}) {
    const std::string svg = draw(Chart{"t", "x", "y", {{"s", Mark::line, 0, points}}});
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
    EXPECT_THAT(svg, HasSubstr("</svg>"));
  }
  EXPECT_THAT(draw(BarChart{"t", "x", "y", {}, {}}), HasSubstr("</svg>"));
}

TEST(Chart, BarsStandForTheirShares) {
  const std::string svg = draw(BarChart{"Exits", "layer", "share", {"1", "2"}, {{"run", 1, {0.25, 0.75}}}, true});
  EXPECT_THAT(svg, HasSubstr("<title>run, layer 2: 75 %</title>"));
}

}  // namespace
}  // namespace exeunt
