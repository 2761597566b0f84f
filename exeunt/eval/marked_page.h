// SPDX-License-Identifier: Apache-2.0
// A page that is written by hand but for its figures. Each stands between two comments that no reader sees,
// <!-- from results: NAME --> and <!-- end of results -->: within a line a few words, on lines of its own a table.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exeunt {

struct MarkedPlace {
  std::string name = {};
  size_t line = 0;        // of the opening mark, from 1
  bool on_lines = false;  // the marks have their lines to themselves
};

struct MarkedPage {
  std::string text = {};  // with what belongs between the marks
  std::vector<MarkedPlace> places = {};
};

// Puts what `make` gives for each mark between it and its end. Throws Error (bad_file) for marks without an end, within
// one another or not there at all; `where` names the page.
[[nodiscard]] MarkedPage fill_marks(std::string_view page, const std::string& where,
                                    const std::function<std::string(const MarkedPlace&)>& make);

struct LineDifference {
  size_t line = 0;  // from 1
  std::string got = {}, want = {};
};

// The first line in which two texts differ.
[[nodiscard]] std::optional<LineDifference> first_difference(std::string_view got, std::string_view want);

}  // namespace exeunt
