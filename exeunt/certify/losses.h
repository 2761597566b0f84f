// SPDX-License-Identifier: Apache-2.0
// What an early answer loses against full depth, row by row: against the trace's reference (fp32) where it has one,
// else against the last exit of the same trace. The head that the trace names answers at the last layer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/certify/risk.h"
#include "exeunt/policy/replay.h"

namespace exeunt {

using ValueRange = std::optional<std::pair<double, double>>;  // of a regression's values; nothing for labels

// The range of a regression where neither the model nor the user names it: that of the gold values, else that of the
// values at full depth; nothing without rows.
[[nodiscard]] ValueRange observed_range(const ExitTrace& trace);
// `named`, else for a regression the one that the fit part shows.
[[nodiscard]] ValueRange range_or_observed(const ValueRange& named, const ExitTrace& fit);

// Losses of whole policies over one trace, which must outlive it.
class LossMeter {
 public:
  // `range` is that of regression labels; needed only for abs_diff. Throws Error (usage) if the loss does not
  // suit the trace: labels for numbers, gold that is not there.
  LossMeter(const ExitTrace& trace, const RiskLoss& loss, const ValueRange& range);

  struct Measured {
    std::vector<double> losses;  // [rows]; of questions: at the first row of each
    std::vector<uint8_t> exit;   // [rows] where each left
    double cost_fraction = 1;    // average layers over all layers

    [[nodiscard]] double mean_loss() const;
  };
  [[nodiscard]] Measured measure(const PolicySpec& policy);
  // The rows that the loss is about, by their answers at full depth, or the first of every question, which stands for
  // it; and the others, if something is promised of them.
  [[nodiscard]] const std::vector<size_t>& counted() const noexcept { return counted_; }
  [[nodiscard]] const std::vector<size_t>& others() const noexcept { return others_; }
  // Of the counted rows, those that left at each exit; none of a question, whose rows leave where they may.
  [[nodiscard]] std::vector<std::vector<size_t>> by_exit(const Measured& measured) const;
  // Answers of the last exit are the reference itself, and so lose nothing.
  [[nodiscard]] bool last_is_reference() const noexcept;

 private:
  struct Question {
    std::vector<size_t> rows, best;  // the best at full depth
  };
  void group_questions();
  void lose_by_question(std::vector<double>& values) const;  // values of all rows become losses

  const ExitTrace& trace_;
  RiskLoss loss_;
  Replayer replayer_;
  // [rows, exits, then the last ramp] of each answer, so that a policy only looks them up.
  std::vector<double> losses_;
  std::vector<size_t> counted_, others_;
  std::vector<Question> questions_;
};

// The texts that come most often, of the certify part. What one of them loses is known, not estimated.
struct FrequentTexts {
  int64_t texts = 0, lost = 0;          // lost: that lose something
  double share = 0, lost_share = 0;     // of all requests
  std::vector<int64_t> lost_rows = {};  // where each that loses first is in the data
};

// Those of the rows that come ten times or more, and are so many of all.
[[nodiscard]] FrequentTexts frequent_texts(const ExitTrace& part, const std::vector<double>& losses,
                                           const std::vector<size_t>& rows);

// Settings of one family of policies, ordered from most conservative to most aggressive by their results on data set
// aside for that.
struct Candidate {
  PolicySpec policy;
  // Mean loss on the fit part, where answers that are gained count as lost ones: by luck with a few of them, a bold
  // setting would take the place of every safer one.
  double risk = 0;
  double cost_fraction = 1;
};

struct FamilyScope {
  ExitSites sites;
  std::vector<int> exits;          // evaluated; empty = all
  std::vector<float> temperature;  // one per exit of the model; empty = 1
  float range = 0;                 // of regression labels
};

// Decreasing cost, increasing risk; the first is full depth. Of settings that cost about the same, the one with the
// least risk is kept; settings that another beats in both are dropped. Throws Error (usage) for a family that does not
// suit the model.
[[nodiscard]] std::vector<Candidate> order_candidates(std::string_view family, const FamilyScope& scope,
                                                      LossMeter& fit);

// Families that fit the model and rank its texts differently: those that calibration tries by default, or
// every one.
enum class Families { usual, all };
[[nodiscard]] std::vector<std::string> families_for(const ExitSites& sites, Families which);

}  // namespace exeunt
