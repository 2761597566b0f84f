// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exeunt {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Screen {
  std::string text;
  double time = 0;
  ProgressStyle style(bool terminal) {
    return {.terminal = terminal,
            .width = 80,
            .write = [this](std::string_view part) { text += part; },
            .now = [this] { return std::chrono::duration<double>(time); }};
  }
};

TEST(Progress, TerminalShowsBarRateAndTimeLeft) {
  Screen screen;
  {
    Progress progress("trace", 200, screen.style(true));
    screen.time = 10;
    progress.advance(50);
  }
  EXPECT_THAT(screen.text, HasSubstr("\rtrace  25%|██████"));
  EXPECT_THAT(screen.text, HasSubstr("50/200 [00:10<00:30, 5.0/s]"));
  EXPECT_TRUE(screen.text.ends_with("\n"));
}

TEST(Progress, LogGetsLineEveryTenSeconds) {
  Screen screen;
  {
    Progress progress("trace", 100, screen.style(false));
    for (int i = 0; i < 25; ++i) {
      screen.time += 1;
      progress.advance();
    }
  }
  EXPECT_EQ(std::count(screen.text.begin(), screen.text.end(), '\n'), 3);
  EXPECT_THAT(screen.text, Not(HasSubstr("\r")));
}

TEST(Progress, ShowsCountWithoutTotal) {
  Screen screen;
  {
    Progress progress("predict", 0, screen.style(true));
    screen.time = 10;
    progress.advance(50, "so far");
  }
  EXPECT_THAT(screen.text, HasSubstr("\rpredict 50 [00:10, 5.0/s] so far"));
  EXPECT_THAT(screen.text, Not(HasSubstr("%")));
}

TEST(Progress, QuickJobWritesNothingToLog) {
  Screen screen;
  { Progress(std::string("x"), 3, screen.style(false)).advance(3); }
  EXPECT_EQ(screen.text, "");
}

TEST(Progress, LimitsDrawingRate) {
  Screen screen;
  {
    Progress progress("x", 1'000'000, screen.style(true));
    for (int i = 0; i < 1'000'000; ++i) {
      screen.time += 1e-6;
      progress.advance();
    }
  }
  EXPECT_LT(std::count(screen.text.begin(), screen.text.end(), '\r'), 13);
}

TEST(Progress, FormatsClockText) {
  EXPECT_EQ(clock_text(0), "00:00");
  EXPECT_EQ(clock_text(205), "03:25");
  EXPECT_EQ(clock_text(3723), "1:02:03");
}

}  // namespace
}  // namespace exeunt
