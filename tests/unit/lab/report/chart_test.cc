// SPDX-License-Identifier: Apache-2.0
#include "lab/report/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fixtures/golden_text.h"

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

TEST(Chart, PointsHaveTooltipsWithoutScripts) {
  const std::string svg =
      draw(Chart{"Quality", "layers", "accuracy", {{"ours", Mark::line, 0, {{3, 0.9, "entropy:0.2"}, {6, 0.92}}}}});
  EXPECT_THAT(svg, HasSubstr("<title>ours: entropy:0.2; layers 3, accuracy 0.9</title>"));
  EXPECT_THAT(svg, HasSubstr("<polyline"));
  EXPECT_THAT(svg, HasSubstr("aria-label=\"Quality\""));
}

// Every mark, axis and name at its place.
TEST(Chart, PicturesAreDrawnAsStored) {
  const std::vector<ChartPoint> rising{{1, 0.5, "entropy:0.1"}, {2.5, 0.75}, {4, 0.96}};
  const std::vector<ChartPoint> falling{{1, 0.9}, {4, -0.25, "a & b"}};
  std::string all;
  all += draw(Chart{"Quality",
                    "speed-up",
                    "accuracy",
                    {{"ours", Mark::line, 0, rising, false, 5, "what it is"},
                     {"circles", Mark::dots, 1, falling, true, 0},
                     {"squares", Mark::dots, 2, falling, false, 1},
                     {"triangles", Mark::dots, 3, falling, false, 2},
                     {"größer und länger als die anderen", Mark::dots, 4, falling, false, 7},
                     {"one point", Mark::line, 5, {{2, 0.5}}, false, 1},
                     {"in a second row of names, as it is long", Mark::line, 6, {}}}});
  all += draw(Chart{"Ranges", "x", "y", {{"s", Mark::line, 0, rising}}, {{0, 2}}, {{0.2, 0.8}}, 3, 400, 200});
  all += draw(Chart{"One value", "x", "y", {{"s", Mark::dots, 0, {{-3, 0}}}}});
  all += draw(Chart{"Nothing", "x", "y", {}});
  all += draw(BarChart{"Exits",
                       "layer",
                       "share",
                       {"1", "2", "3"},
                       {{"one", 1, {0.25, 0.75}, "help"}, {"two", 2, {0.1, 0.2, 0.7, 0.9}}},
                       true});
  all += draw(BarChart{"Counts", "layer", "texts", {"1", "<2>"}, {{"one", 0, {12, 1250}}}});
  all += draw(BarChart{"No counts", "layer", "texts", {"1"}, {{"one", 0, {0}}}});
  expect_golden("report/charts.svg", all);
}

TEST(Chart, TicksOfEveryWidth) {
  using testing::DoubleNear;
  EXPECT_THAT(round_ticks(0, 7, 10), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(round_ticks(0, 45, 5), ElementsAre(0, 10, 20, 30, 40)) << "steps of 1, 2, 5 and 10";
  EXPECT_THAT(round_ticks(0, 450, 5), ElementsAre(0, 100, 200, 300, 400));
  EXPECT_THAT(round_ticks(0.03, 0.34, 4), ElementsAre(DoubleNear(0.1, 1e-12), 0.2, DoubleNear(0.3, 1e-12)));
  EXPECT_THAT(round_ticks(-1, 1, 2), ElementsAre(-1, 0, 1));
  EXPECT_THAT(round_ticks(3, 3, 5), ElementsAre(3, 4));
  EXPECT_THAT(round_ticks(5, 2, 5), ElementsAre(5, 6));
  EXPECT_THAT(round_ticks(0, 10, 0), ElementsAre(0, 10));
  EXPECT_THAT(round_ticks(0.4, 0.7, 1), ElementsAre(0.4, 0.7)) << "no two round numbers lie inside";
  EXPECT_EQ(tick_text(12345.6), "1.235e+04");
  EXPECT_EQ(tick_text(0.12345), "0.1235");
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
