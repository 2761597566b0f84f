// SPDX-License-Identifier: Apache-2.0
// The report's figures.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/report/chart.h"
#include "lab/report/report.h"

namespace exeunt {

// What is computed once for a run and shown in several places.
struct ShownRun {
  const ReportRun* run = nullptr;
  int colour = 0;
  std::vector<SweepRow> rows = {};
  std::vector<ExitScore> exits = {};
  PolicyScore full = {}, chosen = {};
  ExitScore reference = {};  // of the answers that agreement is with
  Departures departures = {};
  Metric metric = Metric::accuracy;         // on the vertical axes: the task's own, or one the papers published
  bool labelled = false;                    // else agreement with full depth is shown
  std::optional<ClassReport> classes = {};  // of the shown policy, where rows are labelled with classes

  [[nodiscard]] std::string quality_name() const;
  [[nodiscard]] std::string data_name() const;
  [[nodiscard]] double quality(const auto& score) const {  // of a policy, or of an exit
    return labelled ? primary_of(score.metrics, metric) : score.agreement;
  }
};

// "entropy" of "entropy:0.2".
[[nodiscard]] std::string rule_name(const std::string& policy);

// One figure per task or data set: quality against speed-up, the runs' rules as lines and the published points behind
// them.
[[nodiscard]] std::vector<Chart> quality_against_speed(const std::vector<ShownRun>& all, bool published);
// One figure per task or data set: every run's score at each exit, and RomeBERT's published curves behind them.
[[nodiscard]] std::vector<Chart> quality_per_exit(const std::vector<ShownRun>& all, bool published);
// Likewise: the share of texts that leave at each exit.
[[nodiscard]] std::vector<BarChart> exit_shares(const std::vector<ShownRun>& all);
// Likewise, of data with classes: the expected calibration error at each exit.
[[nodiscard]] std::vector<BarChart> calibration_errors(const std::vector<ShownRun>& all);

// The first kind of figures as a Vega-Lite specification.
[[nodiscard]] OrderedJson vega_lite_of(const std::vector<Chart>& charts);

// The whole HTML page around a body.
[[nodiscard]] std::string page(const std::string& title, const std::string& body);

// Of an exit rule ("nentropy") or a figure ("agreement"); empty for a word that needs no explanation.
[[nodiscard]] std::string_view explained(std::string_view term) noexcept;

// The word as HTML, with its explanation on hover. `shown` is what stands there, by default the word itself.
[[nodiscard]] std::string term_html(std::string_view term, std::string_view shown = {});

}  // namespace exeunt
