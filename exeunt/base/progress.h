// SPDX-License-Identifier: Apache-2.0
// A progress bar for stderr: redrawn in place on a terminal, a line every ten seconds elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace exeunt {

struct ProgressStyle {
  bool terminal = false;                               // redraw in place
  int width = 80;                                      // columns of the terminal
  std::function<void(std::string_view)> write;         // where the text goes; empty = nowhere
  std::function<std::chrono::duration<double>()> now;  // time since an arbitrary fixed point
};

// Settings for stderr: a terminal or not, its width; silent if `quiet`.
[[nodiscard]] ProgressStyle progress_on_stderr(bool quiet);

class Progress {
 public:
  // `total` 0: unknown; a count is shown instead of a bar.
  Progress(std::string what, int64_t total, ProgressStyle style);
  ~Progress();  // ends the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `remark` is shown after the rate, e.g. "loss 0.31".
  void advance(int64_t steps = 1, std::string_view remark = {});

 private:
  void draw(std::chrono::duration<double> now);
  void draw_count(double elapsed, double rate);

  std::string what_, remark_;
  int64_t total_, done_ = 0;
  ProgressStyle style_;
  std::chrono::duration<double> start_, drawn_;
  bool visible_ = false;
};

// "03:25", "1:02:03".
[[nodiscard]] std::string clock_text(double seconds);

}  // namespace exeunt
