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

// The whole text: a bar of at most 40 cells, filled in eighths, or none where it has no room.
TEST(Progress, TerminalShowsTheseCharacters) {
  const auto shown = [](int width, int64_t done, const char* remark = "") {
    Screen screen;
    ProgressStyle style = screen.style(true);
    style.width = width;
    Progress progress("trace", 200, style);
    screen.time = 10;
    progress.advance(done, remark);
    return screen.text;
  };
  const std::string tail = " 50/200 [00:10<00:30, 5.0/s]", clear = "\x1b[K";  // 28 columns, behind 10 of the head
  EXPECT_EQ(shown(200, 50), "\rtrace  25%|██████████" + std::string(30, ' ') + "|" + tail + clear);
  EXPECT_EQ(shown(46, 50), "\rtrace  25%|█▎   |" + tail + clear);
  EXPECT_EQ(shown(45, 50), "\rtrace  25%" + tail + clear);
  EXPECT_EQ(shown(46, 0), "\rtrace   0%|          | 0/200 [00:10<?, 0.0/s]" + clear);
  EXPECT_EQ(shown(45, 200, "done"), "\rtrace 100% 200/200 [00:10<00:00, 20.0/s] done" + clear);
}

TEST(Progress, LogGetsWholeLines) {
  Screen screen;
  {
    Progress progress("trace", 100, screen.style(false)), count("read", 0, screen.style(false));
    screen.time = 9.9;
    progress.advance(9);
    EXPECT_EQ(screen.text, "");
    screen.time = 10;
    progress.advance(1, "so far");
    count.advance(3);
    EXPECT_EQ(screen.text, "trace  10% 10/100 [00:10<01:30, 1.0/s] so far\nread 3 [00:10, 0.3/s]\n");
    screen.text.clear();
    screen.time = 20;
  }
  EXPECT_EQ(screen.text, "read 3 [00:20, 0.1/s]\ntrace  10% 10/100 [00:20<03:00, 0.5/s] so far\n") << "at their ends";
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
  EXPECT_EQ(clock_text(3599.9), "59:59");
  EXPECT_EQ(clock_text(3600), "1:00:00");
  EXPECT_EQ(clock_text(3723), "1:02:03");
  EXPECT_EQ(clock_text(-5), "00:00");
}

}  // namespace
}  // namespace exeunt
