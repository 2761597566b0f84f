// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/output.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "exeunt/base/utf8.h"

namespace exeunt::apps {
namespace {

bool colours_on_stderr() {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  if (set("NO_COLOR")) return false;
  if (set("FORCE_COLOR")) return true;
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::strcmp(terminal, "dumb") != 0;
}

std::string painted(std::string_view text, int colour) {
  return colours_on_stderr() ? fmt::format("\x1b[1;{}m{}\x1b[0m", colour, text) : std::string(text);
}

bool is_numeric(std::string_view cell) {
  if (cell.empty() || cell.find(' ') != std::string_view::npos) return false;  // several words are a text
  return std::isdigit(static_cast<unsigned char>(cell[0])) != 0 || cell[0] == '-' || cell[0] == '.';
}

std::string padded(const std::string& cell, size_t width, bool to_the_right) {
  const std::string blanks(width - std::min(width, width_of(cell)), ' ');
  return to_the_right ? blanks + cell : cell + blanks;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string aligned(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, width_of(name));
  std::string out;
  for (const auto& [name, value] : rows)
    out += terminal_line(without_trailing_blanks(padded(name, width + 2, false) + value)) + "\n";
  return out;
}

}  // namespace

size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

int report(const Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "{} {}\n", painted("error:", 31), terminal_text(error.what()));
  if (!error.hint().empty()) fmt::print(stderr, "  {} {}\n", painted("hint:", 36), terminal_text(error.hint()));
  return static_cast<int>(error.code());
}

void notice(const Common& common, std::string_view text) {
  if (!common.quiet) fmt::print(stderr, "{} {}\n", painted("notice:", 33), terminal_text(text));
}

void print_json(const OrderedJson& value) {
  fmt::print("{}", json_text(value));
}

void print_json_line(const OrderedJson& value) {
  fmt::print("{}\n", value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

int finish_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error(Code::resources, fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
  return 0;
}

void print_pairs(const std::vector<std::pair<std::string, std::string>>& rows) {
  fmt::print("{}", aligned(rows));
}

void notice_pairs(const Common& common, const std::vector<std::pair<std::string, std::string>>& rows) {
  if (!common.quiet) fmt::print(stderr, "{}", aligned(rows));
}

void print_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t column = 0; column < header.size(); ++column) {
    size_t width = width_of(header[column]);
    for (const auto& row : rows) width = std::max(width, width_of(row.at(column)));
    widths.push_back(width);
  }
  const auto print_row = [&](const std::vector<std::string>& row, bool is_header) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      const bool right = is_header ? !rows.empty() && is_numeric(rows[0][column]) : is_numeric(row[column]);
      line += padded(row[column], widths[column], right) + "  ";
    }
    fmt::print("{}\n", terminal_line(without_trailing_blanks(std::move(line))));
  };
  print_row(header, true);
  for (const auto& row : rows) print_row(row, false);
}

std::string short_count(double value) {
  static constexpr std::array<std::pair<double, const char*>, 4> kUnits{
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [size, unit] : kUnits) {
    if (std::fabs(value) < size) continue;
    const double scaled = value / size;
    const int decimals = scaled < 10 ? 2 : scaled < 100 ? 1 : 0;
    return fmt::format("{:.{}f} {}", scaled, decimals, unit);
  }
  return fmt::format("{}", value);
}

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f}", 100 * share) : "-";
}

void print_problems(const std::vector<std::string>& problems, int64_t count, const std::string& where) {
  for (const std::string& problem : problems) fmt::print("{}\n", terminal_text(problem));
  const auto unlisted = count - static_cast<int64_t>(problems.size());
  if (unlisted > 0) fmt::print("{}: {} more problems\n", where, unlisted);
}

}  // namespace exeunt::apps
