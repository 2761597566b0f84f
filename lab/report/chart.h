// SPDX-License-Identifier: Apache-2.0
// Charts as SVG text: readable with scripts off (every mark has a <title>), coloured by the page's CSS variables so
// that light and dark work, and carrying their data as attributes so that a script can add hover and zoom.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exeunt {

struct ChartPoint {
  double x = 0, y = 0;
  std::string note = {};  // shown on hover, after x and y
};

enum class Mark { line, dots };

struct ChartSeries {
  std::string name;
  Mark mark = Mark::line;
  int colour = 0;  // index into the page's palette; equal = same colour
  std::vector<ChartPoint> points = {};
  bool faint = false;     // published figures, drawn behind ours
  int style = 0;          // lines: how they are dashed; dots: their shape; both repeat after kStyles
  std::string help = {};  // shown when pointing at its name
};
inline constexpr int kStyles = 4;

struct Chart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  std::optional<std::pair<double, double>> x_range = {}, y_range = {};  // values outside are clipped
  int x_ticks = 8;
  int width = 720, height = 380;
};

struct BarGroup {
  std::string name;
  int colour = 0;
  std::vector<double> values = {};  // one per label
  std::string help = {};            // shown when pointing at its name
};

struct BarChart {
  std::string title, x_label, y_label;
  std::vector<std::string> labels;
  std::vector<BarGroup> groups;
  bool percent = false;  // values are shares of one
  int width = 720, height = 300;
};

[[nodiscard]] std::string draw(const Chart& chart);
[[nodiscard]] std::string draw(const BarChart& chart);

// Text made safe for HTML and SVG, in content and in attributes.
[[nodiscard]] std::string escape_html(std::string_view text);

// About `wanted` round numbers that cover [low, high]: 0, 0.2, 0.4 …
[[nodiscard]] std::vector<double> round_ticks(double low, double high, int wanted);

// An axis label: at most four significant digits, no trailing zeros.
[[nodiscard]] std::string tick_text(double value);

}  // namespace exeunt
