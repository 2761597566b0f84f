// SPDX-License-Identifier: Apache-2.0
#include "lab/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "exeunt/base/utf8.h"
#include "exeunt/text/normalized_text.h"

namespace exeunt {
namespace {

// The plot area inside the picture, and how values map to it.
struct Frame {
  double left = 62, right = 16, top = 34, bottom = 46;
  int width, height;
  std::pair<double, double> x, y;

  [[nodiscard]] double to_x(double value) const {
    return left + (value - x.first) / (x.second - x.first) * (width - left - right);
  }
  [[nodiscard]] double to_y(double value) const {
    return height - bottom - (value - y.first) / (y.second - y.first) * (height - top - bottom);
  }
};

// The range of the values, widened to the ticks around it; a single value gets room on both sides.
std::pair<double, double> covering(double low, double high, const std::optional<std::pair<double, double>>& given) {
  if (given) return *given;
  if (!(low <= high)) return {0, 1};
  if (high - low < 1e-12 * std::max(1.0, std::fabs(high))) {
    const double margin = high == 0 ? 1 : std::fabs(high) * 0.1;
    return {low - margin, high + margin};
  }
  const std::vector<double> ticks = round_ticks(low, high, 6);
  const double step = ticks[1] - ticks[0];
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step};
}

std::string open_picture(std::string_view kind, std::string_view title, int width, int height) {
  return fmt::format(
      R"(<svg class="chart" data-kind="{}" viewBox="0 0 {} {}" role="img" aria-label="{}" xmlns="http://www.w3.org/2000/svg">)"
      "\n"
      R"(<text class="title" x="12" y="20">{}</text>)"
      "\n",
      kind, width, height, escape_html(title), escape_html(title));
}

std::string y_axis(const Frame& frame, std::string_view label, bool percent) {
  std::string out;
  for (const double tick : round_ticks(frame.y.first, frame.y.second, 6)) {
    const double y = frame.to_y(tick);
    out += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", frame.left,
                       frame.width - frame.right, y, y);
    out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)"
                       "\n",
                       frame.left - 6, y + 4, percent ? tick_text(100 * tick) + " %" : tick_text(tick));
  }
  const double middle = (frame.top + frame.height - frame.bottom) / 2;
  return out +
         fmt::format(
             R"svg(<text class="axis" x="14" y="{0:.1f}" text-anchor="middle" transform="rotate(-90 14 {0:.1f})">{1}</text>)svg"
             "\n",
             middle, escape_html(label));
}

std::string x_label(const Frame& frame, std::string_view label) {
  return fmt::format(R"(<text class="axis" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)"
                     "\n",
                     (frame.left + frame.width - frame.right) / 2, frame.height - 8, escape_html(label));
}

std::string x_axis(const Frame& frame, std::string_view label, int ticks) {
  std::string out;
  for (const double tick : round_ticks(frame.x.first, frame.x.second, ticks)) {
    out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", frame.to_x(tick),
                       frame.height - frame.bottom + 16, tick_text(tick));
  }
  out += fmt::format(R"(<line class="base" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)"
                     "\n",
                     frame.left, frame.width - frame.right, frame.height - frame.bottom);
  return out + x_label(frame, label);
}

// A point's mark around (x, y): a circle, square, triangle or diamond, as `style` says.
std::string shape_at(int style, double x, double y, double r) {
  switch (style % kStyles) {
    case 1:
      return fmt::format(R"(<rect class="mark" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">)", x - r, y - r,
                         2 * r, 2 * r);
    case 2:
      return fmt::format(R"(<path class="mark" d="M{:.1f} {:.1f}l{:.1f} {:.1f}h{:.1f}z">)", x, y - 1.2 * r, 1.15 * r,
                         2.1 * r, -2.3 * r);
    case 3:
      return fmt::format(
          R"(<path class="mark" d="M{0:.1f} {1:.1f}l{2:.1f} {2:.1f}l-{2:.1f} {2:.1f}l-{2:.1f} -{2:.1f}z">)", x,
          y - 1.3 * r, 1.3 * r);
    default:
      return fmt::format(R"(<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="{:.1f}">)", x, y, r);
  }
}

std::string_view closing(int style) {
  constexpr std::array<std::string_view, kStyles> kTags{"</circle>", "</rect>", "</path>", "</path>"};
  return kTags[static_cast<size_t>(style % kStyles)];
}

std::string draw_series(const Frame& frame, const Chart& chart, const ChartSeries& series) {
  std::string out = fmt::format(R"(<g class="series c{} s{}{}">)", series.colour, series.style % kStyles,
                                series.faint ? " faint" : "");
  if (series.mark == Mark::line && series.points.size() > 1) {
    out += R"(<polyline points=")";
    for (const ChartPoint& p : series.points) out += fmt::format("{:.1f},{:.1f} ", frame.to_x(p.x), frame.to_y(p.y));
    out += R"("/>)";
  }
  const int style = series.mark == Mark::dots ? series.style : 0;
  for (const ChartPoint& p : series.points) {
    const std::string note = p.note.empty() ? "" : p.note + "; ";
    out += fmt::format("{}<title>{}: {}{} {}, {} {}</title>{}",
                       shape_at(style, frame.to_x(p.x), frame.to_y(p.y), series.mark == Mark::dots ? 4 : 2.6),
                       escape_html(series.name), escape_html(note), escape_html(chart.x_label), tick_text(p.x),
                       escape_html(chart.y_label), tick_text(p.y), closing(style));
  }
  return out + "</g>\n";
}

// The legend symbol of a series: its dashed line, or its mark.
std::string sign_of(const ChartSeries& series, double x, double y) {
  if (series.mark == Mark::dots) return shape_at(series.style, x + 9, y, 4) + std::string(closing(series.style));
  return fmt::format(R"(<line class="sample" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", x, x + 18, y, y);
}
std::string sign_of(const BarGroup&, double x, double y) {
  return fmt::format(R"(<rect class="sample" x="{:.1f}" y="{:.1f}" width="18" height="8" rx="2"/>)", x, y - 4);
}
std::string class_of(const ChartSeries& series) {
  return fmt::format("key c{} s{}{}", series.colour, series.style % kStyles, series.faint ? " faint" : "");
}
std::string class_of(const BarGroup& group) {
  return fmt::format("key c{}", group.colour);
}

// Names with their colours under the picture, wrapped; the picture grows by the returned height.
template <class Series>
std::pair<std::string, int> legend(const std::vector<Series>& all, int width, int height) {
  std::string out;
  double x = 16, y = height + 14;
  for (const Series& series : all) {
    const double needed = 38 + 6.8 * static_cast<double>(count_code_points(series.name));
    if (x > 16 && x + needed > width) {
      x = 16;
      y += 18;
    }
    const std::string help = series.help.empty() ? "" : fmt::format("<title>{}</title>", escape_html(series.help));
    out += fmt::format(R"(<g class="{}">{}{}<text x="{:.1f}" y="{:.1f}">{}</text></g>)"
                       "\n",
                       class_of(series), help, sign_of(series, x, y - 4), x + 24, y, escape_html(series.name));
    x += needed;
  }
  return {out, all.empty() ? 0 : static_cast<int>(y) - height + 10};
}

}  // namespace

std::string escape_html(std::string_view raw) {
  constexpr std::array<std::pair<char, std::string_view>, 5> kEscapes{
      {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}}};
  std::string out;
  for (const char c : replace_invalid_utf8(raw)) {
    const auto* known = std::find_if(kEscapes.begin(), kEscapes.end(), [c](const auto& one) { return one.first == c; });
    if (known != kEscapes.end()) {
      out += known->second;
    } else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
      out += "\xE2\x90\xA3";  // XML forbids control characters; a visible box says that something stood here
    } else {
      out += c;
    }
  }
  return out;
}

std::vector<double> round_ticks(double low, double high, int wanted) {
  if (!(high > low)) return {low, low + 1};
  const double rough = (high - low) / std::max(1, wanted);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * 0.999) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (double k = first; k * step <= high + 1e-9 * step; ++k) ticks.push_back(k * step == 0 ? 0 : k * step);
  if (ticks.size() < 2) ticks = {low, high};
  return ticks;
}

std::string tick_text(double value) {
  std::string text = fmt::format("{:.4g}", value);
  return text == "-0" ? "0" : text;
}

std::string draw(const Chart& chart) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double x_low = kInfinity, x_high = -kInfinity, y_low = kInfinity, y_high = -kInfinity;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& p : series.points) {
      y_low = std::min(y_low, p.y), y_high = std::max(y_high, p.y);
      x_low = std::min(x_low, p.x), x_high = std::max(x_high, p.x);
    }
  }
  const Frame frame{.width = chart.width,
                    .height = chart.height,
                    .x = covering(x_low, x_high, chart.x_range),
                    .y = covering(y_low, y_high, chart.y_range)};
  const auto [key, key_height] = legend(chart.series, chart.width, chart.height);
  std::string out = open_picture("xy", chart.title, chart.width, chart.height + key_height);
  out += y_axis(frame, chart.y_label, false) + x_axis(frame, chart.x_label, chart.x_ticks);
  // A nested picture clips what is outside a given range; marks on the frame itself stay whole.
  const double wide = frame.width - frame.left - frame.right + 12, tall = frame.height - frame.top - frame.bottom + 12;
  out += fmt::format(
      R"(<svg class="plot" x="{0:.1f}" y="{1:.1f}" width="{2:.1f}" height="{3:.1f}" viewBox="{0:.1f} {1:.1f} {2:.1f} {3:.1f}">)",
      frame.left - 6, frame.top - 6, wide, tall);
  for (const bool faint : {true, false}) {
    for (const ChartSeries& series : chart.series) {
      if (series.faint == faint) out += draw_series(frame, chart, series);
    }
  }
  return out + "</svg>\n" + key + "</svg>\n";
}

std::string draw(const BarChart& chart) {
  double high = 0;
  for (const BarGroup& group : chart.groups) {
    for (const double value : group.values) high = std::max(high, value);
  }
  const Frame frame{.width = chart.width,
                    .height = chart.height,
                    .x = {0, std::max<double>(1, static_cast<double>(chart.labels.size()))},
                    .y = covering(0, high == 0 ? 1 : high, std::nullopt)};
  const auto [key, key_height] = legend(chart.groups, chart.width, chart.height);
  std::string out = open_picture("bars", chart.title, chart.width, chart.height + key_height);
  out += y_axis(frame, chart.y_label, chart.percent) + R"(<g class="plot">)";
  const double slot = frame.to_x(1) - frame.to_x(0);
  const double bar = slot * 0.76 / std::max<double>(1, static_cast<double>(chart.groups.size()));
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    const BarGroup& group = chart.groups[g];
    out += fmt::format(R"(<g class="bars c{}">)", group.colour);
    for (size_t i = 0; i < group.values.size() && i < chart.labels.size(); ++i) {
      const double x = frame.to_x(static_cast<double>(i)) + slot * 0.12 + bar * static_cast<double>(g);
      const double top = frame.to_y(group.values[i]);
      const std::string value = chart.percent ? tick_text(100 * group.values[i]) + " %" : tick_text(group.values[i]);
      out += fmt::format(
          R"(<rect class="mark" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1"><title>{}, {} {}: {}</title></rect>)",
          x, top, std::max(0.5, bar - 1), std::max(0.0, frame.height - frame.bottom - top), escape_html(group.name),
          escape_html(chart.x_label), escape_html(chart.labels[i]), value);
    }
    out += "</g>\n";
  }
  out += "</g>\n";
  for (size_t i = 0; i < chart.labels.size(); ++i) {
    out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
                       frame.to_x(static_cast<double>(i) + 0.5), frame.height - frame.bottom + 16,
                       escape_html(chart.labels[i]));
  }
  out += fmt::format(R"(<line class="base" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)", frame.left,
                     frame.width - frame.right, frame.height - frame.bottom);
  return out + x_label(frame, chart.x_label) + key + "</svg>\n";
}

}  // namespace exeunt
