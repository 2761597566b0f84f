// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/calibrate_output.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/thresholds.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"

namespace exeunt::apps {
namespace {

OrderedJson point_json(const DropOutcome& outcome, const PolicyScore& score) {
  OrderedJson out = outcome_json(outcome);
  out["report_metrics"] = metrics_json(score.metrics);
  return out;
}

std::string share_text(double share) {
  return fmt::format("{:.2f}%", 100 * share);
}

std::string interval_text(const LossInterval& interval) {
  return fmt::format("{:.2f}-{:.2f}%", 100 * interval.low, 100 * interval.high);
}

void print_outcomes(const Calibrated& done) {
  const std::vector<DropOutcome>& outcomes = done.calibration.outcomes;
  const bool report = done.data.report.rows > 0;
  std::vector<std::string> header{"budget", "policy", "loss"};
  if (report) header.emplace_back("95 %");
  header.emplace_back("fewer layers");
  for (const Score& metric : done.scores.front().metrics) header.emplace_back(name_of(metric.metric));
  std::vector<std::vector<std::string>> rows{{"-", "full", "0.00%"}};
  rows.front().resize(header.size() - done.scores.front().metrics.size() - 1, "-");
  rows.front().emplace_back("1.00x");
  for (const DropOutcome& outcome : outcomes) {
    std::vector<std::string> row{fmt::format("{:g}%", 100 * outcome.max_drop), str(outcome.policy),
                                 share_text(outcome.report)};
    if (report) row.push_back(interval_text(*outcome.interval));
    row.push_back(fmt::format("{:.2f}x", 1 / outcome.report_cost));
    rows.push_back(std::move(row));
  }
  for (size_t i = 0; i < rows.size(); ++i)
    for (const Score& metric : done.scores[i].metrics) rows[i].push_back(fmt::format("{:.2f}", 100 * metric.value));
  print_table(header, rows);
}

// Of the first budget, whose policy is the default.
void print_groups(const Calibrated& done) {
  const DropOutcome& outcome = done.calibration.outcomes.front();
  if (outcome.groups.empty()) return;
  std::vector<std::string> header{"group", "texts", "lost"};
  if (outcome.interval) header.insert(header.end(), {"other texts", "loss", "95 %"});
  std::vector<std::vector<std::string>> rows;
  for (const GroupOutcome& group : outcome.groups) {
    rows.push_back({group.name, fmt::format("{}", group.rows), fmt::format("{:g}", group.losses)});
    if (!outcome.interval) continue;
    const std::vector<std::string> report{fmt::format("{}", group.report_rows), share_text(group.report),
                                          interval_text(group.interval)};
    rows.back().insert(rows.back().end(), report.begin(), report.end());
  }
  fmt::print("\neach group keeps {:g}%, too:\n", 100 * outcome.max_drop);
  print_table(header, rows);
}

// What the texts that left at each exit lost, and what it is at most with 95 %: of fresh texts, if there are any.
void print_exits(const Calibrated& done) {
  const DropOutcome& outcome = done.calibration.outcomes.front();
  const bool report = outcome.interval.has_value();
  const PolicyEntry& entry = done.calibration.entry;  // whose last layer is the reference itself, or is not
  const bool reference = entry.precision == "fp32" || entry.certificate->reference == LossReference::same_precision;
  std::vector<std::vector<std::string>> rows;
  for (const GroupOutcome& exit : outcome.exits) {
    const bool full_depth = exit.name == fmt::format("{}", done.data.certify.info.layers.back());
    if (full_depth && reference) continue;
    const int64_t texts = report ? exit.report_rows : exit.rows;
    rows.push_back({exit.name, fmt::format("{}", texts),
                    share_text(report ? exit.report : exit.losses / static_cast<double>(std::max<int64_t>(1, texts))),
                    share_text(exit.interval.high)});
  }
  if (rows.empty()) return;
  fmt::print("\nwhere texts left, of those that {}:\n", report ? "measured" : "certified");
  print_table({"layer", "texts", "loss", "at most"}, rows);
}

// Expected times, of the precisions that the choice was made from.
void print_precisions(const Calibrated& done) {
  if (done.trials.size() < 2) return;
  std::vector<std::string> tried;
  for (const PrecisionTrial& trial : done.trials) {
    tried.push_back(std::isfinite(trial.milliseconds)
                        ? fmt::format("{} {:.3g} ms ({:.0f} % likely to pass)", str(trial.setting), trial.milliseconds,
                                      100 * trial.chance)
                        : fmt::format("{} loses too much", str(trial.setting)));
  }
  fmt::print("precisions tried, with the expected time of a text: {}\n", fmt::join(tried, ", "));
}

OrderedJson precisions_json(const Calibrated& done) {
  OrderedJson out = OrderedJson::array();
  for (const PrecisionTrial& trial : done.trials) {
    out.push_back({{"precision", name_of(trial.setting.precision)},
                   {"exceptions", trial.setting.exceptions.size()},
                   {"changed", trial.changed},
                   {"chance", trial.chance},
                   {"expected_ms", std::isfinite(trial.expected_ms) ? OrderedJson(trial.expected_ms) : nullptr}});
  }
  return out;
}

// What a promise is for, where it is made: texts drawn as these were, whose answers came in these shares.
void print_limits(const Calibrated& done) {
  constexpr size_t kShown = 3;
  const Certificate& certificate = *done.calibration.entry.certificate;
  const std::vector<std::string>& labels = done.data.certify.info.labels;
  std::string shares;
  if (certificate.answers.size() == labels.size() && !labels.empty()) {
    std::vector<size_t> order(labels.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return certificate.answers[a] > certificate.answers[b]; });
    std::vector<std::string> parts;
    for (const size_t label : order) {
      if (parts.size() == kShown) break;
      parts.push_back(fmt::format("{} {:.1f} %", labels[label],
                                  100.0 * static_cast<double>(certificate.answers[label]) /
                                      static_cast<double>(std::max<size_t>(1, done.data.certify.rows))));
    }
    shares = fmt::format(" ({}{} of {} answers)", fmt::join(parts, ", "), labels.size() > kShown ? " …" : "",
                         done.data.certify.rows);
  }
  fmt::print(
      "it holds for texts drawn as these were (exchangeable with them), in these shares of classes{}, and for no "
      "others\n",
      shares);
}

// Where all rows have labels, the promise may be about accuracy.
void print_other_loss(const Calibrated& done) {
  if (done.calibration.entry.certificate->loss != RiskLoss::disagreement || !done.data.certify.labelled()) return;
  fmt::print("{}\n", kAccuracyOffer);
}

std::string_view unit_name(const Certificate& certificate) {
  return names_of(CertifiedUnit{})[static_cast<size_t>(certificate.unit)];
}

// What is counted: questions, or texts or requests.
std::string counted_name(const Certificate& certificate) {
  return info_of(certificate.loss).questions ? unit_of(certificate.cluster_by) : std::string(unit_name(certificate));
}

// What a policy did on texts that chose nothing.
std::string figures_text(const CertifiedChoice& done, size_t budget, const PolicyScore& full,
                         const PolicyScore& early) {
  const DropOutcome& outcome = done.calibration.outcomes[budget];
  const bool reported = done.data.report.rows > 0;
  const ExitTrace& rows = reported ? done.data.report : done.data.certify;
  std::string text = done.calibration.outcomes.size() > 1 ? fmt::format("{:g} %: ", 100 * outcome.max_drop) : "";
  const Certificate& certificate = *done.calibration.entry.certificate;
  text += fmt::format("{:.2f} % {} on {} {} {}", 100 * outcome.report, info_of(certificate.loss).figure,
                      reported ? outcome.report_rows : outcome.rows, reported ? "test" : "certification",
                      counted_name(certificate));
  if (outcome.interval)
    text += fmt::format(" (95 %: {:.2f} to {:.2f} %)", 100 * outcome.interval->low, 100 * outcome.interval->high);
  if (outcome.others) {
    const GroupOutcome& others = *outcome.others;
    text += fmt::format(", {:g} of {} others called so",
                        reported ? others.report * static_cast<double>(others.report_rows) : others.losses,
                        reported ? others.report_rows : others.rows);
  }
  text += fmt::format(", {:.2f} of {} layers", early.cost.average_layers, rows.info.layers.back());
  for (size_t i = 0; i < early.metrics.size(); ++i)
    text += fmt::format(", {} {:.2f} → {:.2f}", name_of(early.metrics[i].metric), 100 * full.metrics[i].value,
                        100 * early.metrics[i].value);
  return text;
}

void print_promise(const Calibrated& done) {
  const Certificate& certificate = *done.calibration.entry.certificate;
  fmt::print("\n{} with {} {}", name_of(certificate.method), certificate.rows, counted_name(certificate));
  fmt::print("{}\n", certificate.distinct == static_cast<int64_t>(done.data.certify.rows)
                         ? ""
                         : fmt::format(" of {} texts", certificate.distinct));
  const FrequentTexts& frequent = done.calibration.outcomes.front().frequent;
  if (frequent.texts > 0) {
    fmt::print("the {} most frequent texts are {:.1f} % of the requests: {} of them ({:.2f} %) lose{}\n",
               frequent.texts, 100 * frequent.share, frequent.lost, 100 * frequent.lost_share,
               frequent.lost > 0 ? fmt::format(", in rows {} of the data", fmt::join(frequent.lost_rows, ", ")) : "");
  }
  if (done.calibration.outcomes.size() > 1) fmt::print("all budgets hold together\n");
  const ExitTrace& report = done.data.report;
  if (report.rows > 0) {
    fmt::print("loss, layers{}: measured on {} other texts; temperatures and rule chosen on {} more\n",
               report.labelled() ? " and scores" : "", report.rows, done.data.fit.rows);
  } else {
    fmt::print(
        "loss, layers{}: of the texts that certified, which looks better than fresh ones will; temperatures and "
        "rule chosen on {} others\n",
        done.data.certify.labelled() ? " and scores" : "", done.data.fit.rows);
  }
  print_limits(done);
  print_other_loss(done);
  fmt::print("known tries on these texts: {}\n",
             certificate.tries > 0 ? fmt::format("{}", certificate.tries) : "they cannot be counted");
  const std::vector<FamilyTrial>& trials = done.calibration.trials;
  if (trials.size() > 1) {
    std::vector<std::string> tried;
    for (const FamilyTrial& trial : trials)
      tried.push_back(fmt::format("{} {:.0f} %", trial.family, 100 * trial.cost_fraction));
    fmt::print("rules tried, with the expected share of layers: {}\n", fmt::join(tried, ", "));
  }
}

}  // namespace

void print_certified(const CertifiedChoice& done, const PolicyScore& full, const std::vector<PolicyScore>& early) {
  fmt::print("{}\npromise: {}\n", verdict_of(done), promise_of(done.calibration.entry));
  for (size_t i = 0; i < early.size(); ++i) fmt::print("{}\n", figures_text(done, i, full, early[i]));
}

void print_calibrated(const Calibrated& done, bool verbose) {
  if (verbose) {
    print_outcomes(done);
    print_groups(done);
    print_exits(done);
    print_promise(done);
    print_precisions(done);
    if (!done.logit_thresholds.empty())
      fmt::print("thresholds: {}\n", thresholds_by_label(done.data.certify.info.labels, done.logit_thresholds));
    fmt::print("\n");
  }
  print_certified(done, done.scores.front(), {done.scores.begin() + 1, done.scores.end()});
  constexpr double kLittle = 1.2;
  if (done.data.certify.exits == 1) {
    fmt::print("the model has one exit, its last layer's; to give it more: exeunt attach MODEL --texts FILE\n");
  } else if (1 / done.calibration.outcomes.front().report_cost < kLittle) {
    fmt::print(
        "to save more: more rows, a larger --max-drop, or exits that learn from unlabelled texts (exeunt attach MODEL "
        "--force --texts FILE)\n");
  }
  fmt::print("wrote {}\n", done.out.string());
}

OrderedJson speedup_json(const CertifiedChoice& done, size_t budget) {
  const std::optional<Speedup> speedup = done.times.milliseconds.empty() ? std::nullopt : done.speedup(budget);
  if (!speedup) return nullptr;
  return {{"total", speedup->total()}, {"precision", speedup->precision}, {"exits", speedup->exits}};
}

OrderedJson calibrated_json(const Calibrated& done) {
  const CalibrationData& data = done.data;
  const Calibration& calibration = done.calibration;
  OrderedJson out;
  out["out"] = done.out.string();
  out["precision"] = calibration.entry.precision;
  out["exits"] = calibration.entry.exits;
  out["promise"] = promise_of(calibration.entry);
  out["speedup"] = speedup_json(done);
  if (!done.trials.empty()) out["precisions"] = precisions_json(done);
  out["rows"] = {{"fit", data.fit.rows}, {"certify", data.certify.rows}, {"report", data.report.rows}};
  const Certificate& certificate = *calibration.entry.certificate;
  out["unit"] = unit_name(certificate);
  out["distinct"] = certificate.distinct;
  out["tries"] = certificate.tries;
  if (data.certify.info.problem == Problem::multi_label)
    out["thresholds"] = thresholds_json(data.certify.info.labels, done.logit_thresholds);
  out["points"] = OrderedJson::array();
  for (size_t i = 0; i < calibration.outcomes.size(); ++i)
    out["points"].push_back(point_json(calibration.outcomes[i], done.scores[i + 1]));
  out["full_depth"] = {{"report_metrics", metrics_json(done.scores.front().metrics)}};
  out["families"] = trials_json(calibration.trials);
  return out;
}

}  // namespace exeunt::apps
