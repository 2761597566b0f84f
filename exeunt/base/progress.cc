// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace exeunt {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds kRedraw{0.1};  // smooth, at negligible cost
constexpr Seconds kLogLine{10.0};

// A bar of `width` cells, filled in eighths.
std::string bar(double share, int width) {
  static constexpr const char* kEighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  const int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width * 8));
  std::string out;
  for (int cell = 0; cell < width; ++cell) out += kEighths[std::clamp(filled - 8 * cell, 0, 8)];
  return out;
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

ProgressStyle progress_on_stderr(bool quiet) {
  ProgressStyle style;
  const char* terminal = std::getenv("TERM");
  style.terminal = ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::strcmp(terminal, "dumb") != 0;
  struct winsize size {};
  if (style.terminal && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  if (!quiet) style.write = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); };
  style.now = [] { return Seconds(std::chrono::steady_clock::now().time_since_epoch()); };
  return style;
}

Progress::Progress(std::string what, int64_t total, ProgressStyle style)
    : what_(std::move(what)), total_(total), style_(std::move(style)), start_(style_.now()), drawn_(start_) {}

Progress::~Progress() {
  if (!style_.write || (!visible_ && !style_.terminal)) return;
  draw(style_.now());
  if (style_.terminal) style_.write("\n");
}

void Progress::advance(int64_t steps, std::string_view remark) {
  done_ += steps;
  remark_ = remark;
  if (!style_.write) return;
  const Seconds now = style_.now();
  if (now - drawn_ >= (style_.terminal ? kRedraw : kLogLine)) draw(now);
}

void Progress::draw(Seconds now) {
  drawn_ = now;
  visible_ = true;
  const double elapsed = (now - start_).count();
  const double rate = elapsed > 0 ? static_cast<double>(done_) / elapsed : 0;
  if (total_ <= 0) return draw_count(elapsed, rate);
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const std::string left = rate > 0 ? clock_text(static_cast<double>(total_ - done_) / rate) : "?";
  const std::string tail = fmt::format(" {}/{} [{}<{}, {:.1f}/s]{}{}", done_, total_, clock_text(elapsed), left, rate,
                                       remark_.empty() ? "" : " ", remark_);
  const std::string head = fmt::format("{} {:3.0f}%", what_, 100 * share);
  if (!style_.terminal) {
    style_.write(fmt::format("{}{}\n", head, tail));
    return;
  }
  const int room = style_.width - static_cast<int>(head.size() + tail.size()) - 3;
  const std::string middle = room >= 5 ? fmt::format("|{}|", bar(share, std::min(room, 40))) : "";
  style_.write(fmt::format("\r{}{}{}\x1b[K", head, middle, tail));
}

void Progress::draw_count(double elapsed, double rate) {
  const std::string text = fmt::format("{} {} [{}, {:.1f}/s]{}{}", what_, done_, clock_text(elapsed), rate,
                                       remark_.empty() ? "" : " ", remark_);
  style_.write(style_.terminal ? fmt::format("\r{}\x1b[K", text) : text + "\n");
}

}  // namespace exeunt
