// SPDX-License-Identifier: Apache-2.0
// One HTML file that shows what runs are worth: no network, readable without scripts, at most 300 KB; and the same as
// CSV, JSON and a Vega-Lite specification.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/eval/scores.h"
#include "exeunt/eval/sweep.h"

namespace exeunt {

// A text of a data set, by its row in the source; empty if it is not known.
using TextOf = std::function<std::string(int64_t index)>;

struct ReportRun {
  std::string name;
  const ExitTrace* trace = nullptr;  // outlives the report
  ScorerOptions scoring = {};
  Metric primary = Metric::accuracy;
  std::optional<PolicySpec> policy = {};  // the one in use, whose exits and examples are shown; nothing = a fitting one
  std::vector<PolicySpec> settings = {};  // the curve of quality against speed-up
  std::optional<OrderedJson> certificate = {};
  TextOf text = {};
};

// Without a policy in use: the fastest of the settings that answers as full depth on at least this share of the texts.
inline constexpr double kFittingAgreement = 0.99;

struct ReportOptions {
  std::string title = "Exeunt report";
  bool published = true;  // overlay the papers' figures
  std::vector<std::pair<std::string, std::string>> environment = {};
};

struct Report {
  std::string html, csv;
  OrderedJson json, vega_lite;
};

inline constexpr size_t kMaxReportBytes = 300 * 1024;

[[nodiscard]] Report make_report(const std::vector<ReportRun>& runs, const ReportOptions& options);

// Settings for a curve: the rules that suit the trace, from careful to bold.
[[nodiscard]] std::vector<PolicySpec> default_settings(const ExitTrace& trace);

}  // namespace exeunt
