// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/split.h"

#include <algorithm>
#include <random>
#include <set>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/certify/risk.h"
#include "exeunt/data/learned_rows.h"

namespace exeunt {
namespace {

// Of a trace (of its distinct texts, by the first row of each, if asked), the rows that are drawn together.
std::vector<std::vector<size_t>> draws_of(const ExitTrace& trace, bool distinct) {
  std::vector<std::vector<size_t>> draws;
  std::set<uint64_t> seen;  // not a hash table: a file can choose its hashes
  std::map<uint64_t, size_t> known;
  for (size_t row = 0; row < trace.rows; ++row) {
    if (distinct && !trace.row_hash.empty() && !seen.insert(trace.row_hash[row]).second) continue;
    const uint64_t key = trace.cluster.empty() ? row : trace.cluster[row];
    const auto [at, fresh] = known.try_emplace(key, draws.size());
    if (fresh) draws.emplace_back();
    draws[at->second].push_back(row);
  }
  return draws;
}

// One part in so many of the rows that choose or report may go to those that certify.
constexpr size_t kSparedFit = 6, kSparedReport = 2;
constexpr size_t kLengths = 4;

// The shortest texts of each quarter; fewer where many texts have one length.
std::vector<int32_t> quarters(std::vector<int32_t> lengths) {
  std::sort(lengths.begin(), lengths.end());
  std::vector<int32_t> least{0};
  for (size_t i = 1; i < kLengths; ++i) {
    const int32_t length = lengths[i * lengths.size() / kLengths];
    if (length > std::max(least.back(), lengths.front())) least.push_back(length);
  }
  return least;
}

// For each row, the most that any of the models learned of it.
std::vector<Overlap> overlaps(std::span<ExitTrace* const> traces) {
  std::vector<Overlap> most(traces.front()->rows);
  for (const ExitTrace* trace : traces) {
    for (size_t row = 0; row < std::min(trace->learned.size(), most.size()); ++row)
      most[row] = std::max(most[row], static_cast<Overlap>(trace->learned[row]));
  }
  return most;
}

}  // namespace

size_t distinct_rows(const ExitTrace& trace) {
  return trace.row_hash.empty() ? trace.rows : std::set(trace.row_hash.begin(), trace.row_hash.end()).size();
}

CalibrationData split_for_calibration(const ExitTrace& trace, uint64_t seed, SplitShares shares) {
  const double reported = 1 - shares.fit - shares.certify;
  check(shares.fit > 0 && shares.certify > 0 && reported > -1e-9, "the shares make one at most");
  const size_t kept = reported > 1e-9 ? 1 : 0;  // rows that report at least
  std::vector<std::vector<size_t>> draws = draws_of(trace, shares.distinct);
  const size_t count = draws.size();
  const bool alone = std::all_of(draws.begin(), draws.end(), [](const auto& rows) { return rows.size() == 1; });
  if (count < 2 + kept)
    throw Error(Code::failure, fmt::format("not enough data: got {} {}, want at least {}", count,
                                           alone ? "examples" : "clusters of examples", 2 + kept));
  // Fisher-Yates by hand: std::shuffle may differ between libraries, and a split must not.
  std::mt19937_64 random(seed);
  for (size_t i = count - 1; i > 0; --i) std::swap(draws[i], draws[random() % (i + 1)]);
  const auto share = [&](double part) {
    return std::max<size_t>(1, static_cast<size_t>(part * static_cast<double>(count)));
  };
  size_t fit = share(shares.fit);
  size_t certify = kept == 0 ? count - fit : std::min(share(shares.certify), count - fit - kept);
  if (shares.max_drop > 0 && (alone || shares.questions)) {
    const size_t spare = kept == 0 ? fit / kSparedFit : (count - fit - certify) / kSparedReport;
    certify = static_cast<size_t>(critical_rows(static_cast<int64_t>(certify), static_cast<int64_t>(certify + spare),
                                                shares.max_drop, shares.delta));
    if (kept == 0) fit = count - certify;
  }
  const auto part = [&](size_t first, size_t end) {
    PartRows out;
    for (size_t i = first; i < end; ++i) out.row.insert(out.row.end(), draws[i].begin(), draws[i].end());
    return out;
  };
  CalibrationData data;
  data.seed = seed;
  data.fit_rows = part(0, fit);
  data.certify_rows = part(fit, fit + certify);
  data.report_rows = part(fit + certify, count);
  data.fit = select_rows(trace, data.fit_rows.row);
  data.certify = select_rows(trace, data.certify_rows.row);
  data.report = select_rows(trace, data.report_rows.row);
  return data;
}

Grouping::Grouping(const GroupPlan& plan, const CalibrationData& data) : plan_(plan) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::usage, fmt::format("groups by {}: {}", plan.by, why));
  };
  if (plan.by.empty() || plan.by == "exit") return;
  if (plan.by == "label") {
    if (data.fit.info.problem == Problem::regression) refuse("a model that predicts numbers has no labels");
    multi_label_ = data.fit.info.problem == Problem::multi_label;
    gold_ = data.fit.labelled() && data.certify.labelled() && data.report.labelled();
    names_ = data.fit.info.labels;
  } else if (plan.by == "length") {
    if (data.fit.lengths.empty()) refuse("the trace has no lengths");
    least_ = quarters(data.fit.lengths);
    for (size_t i = 0; i < least_.size(); ++i) {
      names_.push_back(i + 1 == least_.size() ? fmt::format("{} tokens and more", least_[i])
                       : i == 0               ? fmt::format("below {} tokens", least_[1])
                                              : fmt::format("{} to {} tokens", least_[i], least_[i + 1] - 1));
    }
  } else {
    const std::set<std::string> names(plan.values.begin(), plan.values.end());
    if (names.size() > kMaxGroups) refuse(fmt::format("got {} values, want at most {}", names.size(), kMaxGroups));
    names_.assign(names.begin(), names.end());
  }
}

size_t Grouping::group_of(const ExitTrace& part, const PartRows& rows, size_t row) const {
  if (plan_.by == "label") {
    if (gold_) return static_cast<size_t>(part.gold[row]);
    return static_cast<size_t>(best_label(part.info, part.full_depth(row)));
  }
  if (plan_.by == "length") {
    const auto after = std::upper_bound(least_.begin(), least_.end(), part.lengths[row]);
    return static_cast<size_t>(after - least_.begin()) - 1;
  }
  const std::string& value = plan_.values.at(rows.row.at(row));
  return static_cast<size_t>(std::lower_bound(names_.begin(), names_.end(), value) - names_.begin());
}

bool Grouping::has(const ExitTrace& part, size_t row, int label) const {
  if (gold_) return part.gold[row * part.gold_width() + static_cast<size_t>(label)] == 1;
  return has_label(part.exit_logits(part.full_depth(row)), label);
}

std::vector<std::vector<size_t>> Grouping::rows_of(const ExitTrace& part, const PartRows& rows) const {
  std::vector<std::vector<size_t>> groups(names_.size());
  if (names_.empty()) return groups;
  for (size_t row = 0; row < part.rows; ++row) {
    if (!multi_label_) groups[group_of(part, rows, row)].push_back(row);
    for (int label = 0; multi_label_ && label < part.width; ++label)
      if (has(part, row, label)) groups[static_cast<size_t>(label)].push_back(row);
  }
  return groups;
}

void keep_new_rows(std::span<ExitTrace* const> traces, bool strict, const Observer& observer) {
  const size_t rows = traces.front()->rows;
  if (std::any_of(traces.begin(), traces.end(), [](const ExitTrace* trace) { return trace->learned.empty(); }))
    observer.notice("training texts unknown: cannot rule out that the model was trained on these texts");
  const std::vector<Overlap> most = overlaps(traces);
  const auto equal = std::count(most.begin(), most.end(), Overlap::equal);
  const auto partial = std::count(most.begin(), most.end(), Overlap::partial);
  std::vector<size_t> kept;
  for (size_t row = 0; row < rows; ++row) {
    if (most[row] == Overlap::none || (most[row] == Overlap::partial && !strict)) kept.push_back(row);
  }
  if (2 * static_cast<size_t>(equal) > rows || (kept.empty() && rows > 0)) {
    throw Error(Code::usage,
                fmt::format("the model was trained on {} of these {} texts{}: figures on them are biased", equal, rows,
                            strict && partial > 0 ? fmt::format(", and parts of {} more", partial) : ""),
                "bring texts that it was not trained on, such as those that training held out or --split dev");
  }
  if (equal > 0)
    observer.notice(fmt::format("{} of {} texts are left out: the model was trained on them", equal, rows));
  if (partial > 0) {
    observer.notice(fmt::format("{} of {} texts contain a training text of the model, or are part of one{}", partial,
                                rows, strict ? ": left out" : "; --strict-new leaves them out"));
  }
  if (kept.size() == rows) return;
  for (ExitTrace* trace : traces) {
    if (trace->rows == rows) *trace = select_rows(*trace, kept);  // others are refused where runs are compared
  }
}

std::string learned_text(const ExitTrace& trace) {
  const auto equal = std::count(trace.learned.begin(), trace.learned.end(), static_cast<uint8_t>(Overlap::equal));
  if (equal == 0) return {};
  return fmt::format("the model was trained on {} of these {} texts: scores on them are biased", equal, trace.rows);
}

}  // namespace exeunt
