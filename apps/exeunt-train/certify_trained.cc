// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "apps/exeunt-train/train.h"
#include "apps/exeunt/calibrate_output.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/attach/attach_model.h"
#include "exeunt/attach/exit_0.h"
#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/certify/calibrate_model.h"
#include "exeunt/certify/risk.h"
#include "exeunt/certify/thresholds.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/policy/promise.h"

namespace exeunt::apps {
namespace {

constexpr double kUsualDrop = 0.02, kLargerDrop = 0.05;
constexpr size_t kRoom = 2;  // over the rows needed where none is lost: int8 alone changes an answer or two

// How many rows the certification split needs for this loss, if none is lost: a part of them is tested on.
size_t rows_for(double drop) {
  const auto tested = static_cast<double>(rows_needed(drop, CalibrationPlan{}.delta * share_of_try(1)));
  const double rows = std::ceil(tested / kNoReport.certify);
  return static_cast<size_t>(rows < kRowsToReport ? rows : std::ceil(tested / SplitShares{}.certify));
}

// The loss that so many rows can certify, if there is one: the one that was asked for, else the usual one where they
// leave room for lost answers, else the larger one. By their number alone: they are not looked at before the test.
std::optional<double> certifiable_drop(size_t rows, const std::optional<double>& asked) {
  if (rows == 0) return std::nullopt;
  if (asked) return rows >= rows_for(*asked) ? asked : std::nullopt;
  if (rows >= kRoom * rows_for(kUsualDrop)) return kUsualDrop;
  return rows >= rows_for(kLargerDrop) ? std::optional(kLargerDrop) : std::nullopt;
}

std::string percent_text(double share) {
  return fmt::format("{:g}%", 100 * share);
}

// The tables among the files that were trained on, by the names that --data takes.
std::vector<std::string> tables_of(const std::string& data) {
  namespace fs = std::filesystem;
  std::vector<std::string> out;
  if (fs::is_directory(data)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(data))
      if (format_of(entry.path()) && !entry.path().filename().string().starts_with('.'))
        out.push_back(entry.path().string());
    std::sort(out.begin(), out.end());
  } else if (fs::exists(data)) {
    out.push_back(data);
  } else {
    for (const std::string_view part : split(data, ','))
      if (!part.empty()) out.emplace_back(part);
  }
  return out;
}

std::vector<std::string> next_steps(const Certification& what, bool one_exit) {
  const std::string out = shell_word(what.model);
  UserColumns texts = what.columns;  // alone, with neither labels nor a column of them
  texts.label = UserColumns{}.label;
  texts.labels.clear();
  texts.label_columns.clear();
  texts.problem.reset();
  texts.skip_bad = false;
  if (one_exit)
    return {fmt::format("next, with unlabelled texts: exeunt attach {} --texts FILE{} --out {}", out, flags_for(texts),
                        shell_word(what.model + "-fast"))};
  if (what.rows == 0) {
    return {
        fmt::format("next, with labelled rows that were not trained on: exeunt calibrate {0} --data FILE{1} "
                    "--max-drop 2%, then exeunt serve {0}",
                    out, flags_for(what.columns))};
  }
  if (const auto drop = certifiable_drop(what.rows, std::nullopt))
    return {fmt::format("next: exeunt calibrate {0} --max-drop {1}, then exeunt serve {0}", out, percent_text(*drop))};
  const auto in_all = [&](double drop) {
    return 50 * std::lround(std::ceil(static_cast<double>(rows_for(drop)) / what.split / 50));
  };
  return {fmt::format("certification split of {} rows is too small: a certificate for 5 % needs {} (about {} rows in "
                      "all), for 2 % {} (about {})",
                      what.rows, rows_for(kLargerDrop), in_all(kLargerDrop), rows_for(kUsualDrop), in_all(kUsualDrop)),
          fmt::format("next: exeunt serve {0}, with an uncertified policy; to certify one, add rows, or use unlabelled "
                      "texts: exeunt calibrate {0} --unlabelled FILE{1} --max-drop 5%",
                      out, flags_for(texts))};
}

// A model with one exit gets more, which learn from the texts that it was trained on; the others certify them.
OrderedJson attach_exits(const Common& common, const Certification& what, double max_drop, const Observer& observer) {
  AttachJob job{.model = what.model, .thresholds = what.thresholds == "fit" ? "" : what.thresholds};
  job.texts.files = tables_of(what.data);
  job.texts.columns = {.text = what.columns.text, .pair = what.columns.pair, .separator = what.columns.separator};
  job.texts.threads = what.threads;
  const std::string& cluster = what.columns.cluster;
  const bool named = !cluster.empty() && cluster != kNoCluster;
  if (named) job.texts.columns.keep = {cluster};
  job.plan.cluster_by = cluster;
  job.labelled.columns.pair = what.columns.pair.empty() ? "" : "pair";
  job.labelled.columns.cluster = named ? "cluster" : cluster;
  job.labelled.path = (std::filesystem::path(what.model) / kHeldOutFile).string();
  job.out = what.model + "-fast";
  job.plan.max_drops = {max_drop};
  if (!what.exit_0) job.exit_0_bytes = 0;
  const Attached done = attach_model(job, observer);
  std::vector<PolicyScore> early;
  for (const BudgetReport& budget : done.budgets) early.push_back(budget.score);
  if (!common.json) print_certified(done, done.full, early);
  std::fflush(stdout);
  notice(common, fmt::format("next: exeunt serve {}", shell_word(job.out.string())));
  return {{"attached", job.out.string()}, {"promise", promise_of(done.calibration.entry)}};
}

}  // namespace

void require_thresholds_fit(const Certification& what, const OutputSpec& outcome) {
  if (what.thresholds.empty()) return;
  if (outcome.problem != Problem::multi_label)
    throw Error(Code::usage, "--thresholds: the rows have one label each",
                "--multi-label reads \"a|b\" and lists, --label-columns a,b a column for each label");
  if (what.thresholds != "fit") (void)parse_thresholds(what.thresholds, outcome.labels, {});
}

Checkpoint with_exit_0(const Certification& what, const Checkpoint& trained, const TracedRows& train,
                       const TracedRows& eval) {
  if (trained.exits().sites.size() < 2) return trained;
  const auto tokenizer = load_tokenizer(trained.folder());
  Exit0Options options{.pieces = token_pieces(*tokenizer, trained.spec().vocab), .threads = what.threads};
  options.plan.max_drops = {what.max_drop.value_or(certifiable_drop(what.rows, std::nullopt).value_or(kUsualDrop))};
  options.plan.range = trained.exits().range;
  // Where no rows were kept to certify, others will be brought: as many as evaluate.
  const double share = what.rows < kRowsToReport ? kNoReport.certify : SplitShares{}.certify;
  options.certify_rows = static_cast<int64_t>(what.rows > 0 ? share * static_cast<double>(what.rows)
                                                            : static_cast<double>(eval.rows.rows()));
  return exeunt::with_exit_0(trained, train, eval, options);
}

OrderedJson certify_trained(const Common& common, const Certification& what) {
  const Checkpoint model = Checkpoint::open(what.model);
  const bool one_exit = model.exits().sites.size() == 1 && model.spec().layers > 1;
  const auto drop = what.skip ? std::nullopt : certifiable_drop(what.rows, what.max_drop);
  if (!drop) {
    if (!what.thresholds.empty())
      notice(common, fmt::format("--thresholds: not set, because the model is not certified now; 'exeunt calibrate {} "
                                 "--thresholds {}' does both",
                                 shell_word(what.model), shell_word(what.thresholds)));
    for (const std::string& text : next_steps(what, one_exit)) notice(common, text);
    return nullptr;
  }
  const Observer observer{.notice = [&](const std::string& text) { notice(common, text); },
                          .warning = [](const std::string& text) { notice({}, text); },
                          .progress = progress_on_stderr(common.quiet)};
  CalibrateOptions options{.thresholds = what.thresholds};
  options.run.model = what.model;
  options.run.threads = what.threads;
  options.plan.max_drops = {*drop};
  const std::string command =
      fmt::format("exeunt calibrate {} --max-drop {}{}", shell_word(what.model), percent_text(*drop),
                  what.thresholds.empty() ? "" : " --thresholds " + shell_word(what.thresholds));
  try {
    if (one_exit && !tables_of(what.data).empty()) {
      notice(common, fmt::format("attaching exits to {}, which has one", shell_word(what.model)));
      return attach_exits(common, what, *drop, observer);
    }
    notice(common, fmt::format("certifying: {}", command));
    const Calibrated done = calibrate_model(options, observer);
    if (!common.json) print_calibrated(done, common.verbose);
    std::fflush(stdout);  // what comes next is said last, in a pipe, too
    notice(common,
           fmt::format("next: exeunt serve {0}; with unlabelled texts, exits often leave earlier: exeunt attach "
                       "{0} --force --texts FILE --out {1}",
                       shell_word(what.model), shell_word(what.model + "-fast")));
    return common.json ? calibrated_json(done) : OrderedJson(nullptr);
  } catch (const Error& error) {
    notice(common, fmt::format("the model is not certified: {}{}{}", error.what(), error.hint().empty() ? "" : "; ",
                               error.hint()));
    return nullptr;
  }
}

}  // namespace exeunt::apps
