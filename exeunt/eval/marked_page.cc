// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/marked_page.h"

#include <algorithm>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr std::string_view kOpen = "<!-- from results: ", kClose = " -->", kEnd = "<!-- end of results -->";

size_t line_at(std::string_view page, size_t place) {
  return 1 + static_cast<size_t>(std::count(page.begin(), page.begin() + static_cast<ptrdiff_t>(place), '\n'));
}

std::string at_line(const std::string& where, size_t line) {
  return fmt::format("{}:{}", where, line);
}

// The opening mark that starts at `start`.
MarkedPlace opened(std::string_view page, size_t start, const std::string& where) {
  const size_t name = start + kOpen.size(), close = page.find(kClose, name), line = line_at(page, start);
  if (close == std::string_view::npos || page.substr(name, close - name).find('\n') != std::string_view::npos)
    throw_bad_file(at_line(where, line), "got a mark without '{}' on its line, want {}NAME{}", kClose, kOpen, kClose);
  const size_t after = close + kClose.size();
  MarkedPlace place{std::string(page.substr(name, close - name)), line, after < page.size() && page[after] == '\n'};
  // Markdown takes a line that opens with a comment for HTML, and no line else.
  const bool first = start == 0 || page[start - 1] == '\n';
  if (first != place.on_lines) {
    throw_bad_file(at_line(where, line), "mark '{}': got it {}, want words before it or a line of its own", place.name,
                   first ? "at the start of a line with words" : "at the end of a line with words");
  }
  return place;
}

// Where the end mark of `place` begins.
size_t ended(std::string_view page, size_t from, const MarkedPlace& place, const std::string& where) {
  const size_t end = page.find(kEnd, from), next = page.find(kOpen, from);
  if (end == std::string_view::npos) {
    throw_bad_file(at_line(where, place.line), "mark '{}': got no end of it, want {}", place.name, kEnd);
  }
  if (next < end) {
    throw_bad_file(at_line(where, line_at(page, next)), "got a mark inside '{}' of line {}, want {} before it",
                   place.name, place.line, kEnd);
  }
  if (place.on_lines && page[end - 1] != '\n') {
    throw_bad_file(at_line(where, line_at(page, end)), "mark '{}': got its end within a line, want it on its own",
                   place.name);
  }
  return end;
}

}  // namespace

MarkedPage fill_marks(std::string_view page, const std::string& where,
                      const std::function<std::string(const MarkedPlace&)>& make) {
  MarkedPage filled;
  size_t done = 0;
  for (size_t start = page.find(kOpen); start != std::string_view::npos; start = page.find(kOpen, done)) {
    if (const size_t stray = page.substr(done, start - done).find(kEnd); stray != std::string_view::npos) break;
    const MarkedPlace place = opened(page, start, where);
    const size_t inside = start + kOpen.size() + place.name.size() + kClose.size() + (place.on_lines ? 1 : 0);
    const size_t end = ended(page, inside, place, where);
    filled.text += page.substr(done, inside - done);
    filled.text += make(place);
    filled.text += kEnd;
    filled.places.push_back(place);
    done = end + kEnd.size();
  }
  if (const size_t stray = page.find(kEnd, done); stray != std::string_view::npos)
    throw_bad_file(at_line(where, line_at(page, stray)), "got {} without a mark before it", kEnd);
  if (filled.places.empty()) {
    throw_bad_file(where, Hint{"the marks say which table stands where; docs/reproducing.md has them"},
                   "got no mark in it, want {}NAME{}", kOpen, kClose);
  }
  filled.text += page.substr(done);
  return filled;
}

std::optional<LineDifference> first_difference(std::string_view got, std::string_view want) {
  if (got == want) return std::nullopt;
  const auto [at, other] = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
  const auto place = static_cast<size_t>(at - got.begin());
  const size_t line_start = place == 0 ? 0 : got.rfind('\n', place - 1) + 1;  // npos + 1 = 0: the first line
  const auto line_of = [&](std::string_view text) {
    return std::string(text.substr(line_start, text.find('\n', line_start) - line_start));
  };
  return LineDifference{line_at(got, line_start), line_of(got), line_of(want)};
}

}  // namespace exeunt
