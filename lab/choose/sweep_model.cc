// SPDX-License-Identifier: Apache-2.0
#include "lab/choose/sweep_model.h"

#include <cmath>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/certify/tries.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/eval/policy_times.h"
#include "exeunt/model/locate.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

// Trainers do not always save the tokenizer with every checkpoint.
bool has_tokenizer(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "vocab.txt", "spiece.model", "30k-clean.model", "vocab.json"})
    if (path_exists(folder / name)) return true;
  return false;
}

// `stored`: settings run with the exits and temperatures that the model would run them with.
Swept sweep_one(const MeasureOptions& options, const SettingsFor& settings, const Observer& observer, bool stored) {
  Swept out{.tokenizer = options.tokenizer};
  out.measured = std::make_unique<const Measured>(measure(options, observer));
  count_look(*out.measured);
  const ExitTrace& trace = out.measured->trace;
  out.policies = settings(*out.measured);
  const std::optional<PolicyEntry> entry =
      stored ? resolve_measured(*out.measured, {.policy = "full"}, observer).entry : std::nullopt;
  if (entry)
    for (PolicySpec& policy : out.policies) policy = entry->complete(policy);
  Scorer scorer(trace, scorer_options(*out.measured));
  out.rows = sweep(scorer, out.policies, primary_metric(trace));
  out.exits = scorer.each_exit();
  return out;
}

}  // namespace

Swept sweep_model(const MeasureOptions& options, const SettingsFor& settings, const Observer& observer) {
  return sweep_one(options, settings, observer, true);
}

std::vector<Swept> sweep_checkpoints(const MeasureOptions& options, const SettingsFor& settings,
                                     const Observer& observer) {
  if (!options.trace.empty()) throw Error(Code::usage, "--trace cannot be combined with --all-checkpoints");
  std::error_code ignored;
  if (!fs::is_directory(options.model, ignored))
    throw Error(Code::usage, fmt::format("{}: not a folder; want that of a training", options.model));
  std::vector<fs::path> folders = checkpoints_in(options.model);
  const bool whole = path_exists(fs::path(options.model) / "config.json");
  if (folders.empty()) {
    const std::string none = fmt::format("{}: no checkpoint-N in this folder", options.model);
    if (!whole) throw Error(Code::bad_file, none, "name the folder of a training");
    observer.notice(none + ": the model itself is all there is");
  }
  if (whole) folders.emplace_back(options.model);
  std::vector<Swept> all;
  for (const fs::path& folder : folders) {
    MeasureOptions one = options;
    one.model = folder.string();
    if (!has_tokenizer(folder)) one.tokenizer = options.model;
    all.push_back(sweep_one(one, settings, observer, false));  // alike, whatever one of them was calibrated to
    all.back().checkpoint = folder == fs::path(options.model) ? "final" : folder.filename().string();
    if (all.back().policies != all.front().policies)
      throw_bad_file(folder.string(), "has other exits, outputs or policies than {}", all.front().checkpoint);
  }
  return all;
}

void measure_times(const MeasureOptions& options, Swept& swept, const Observer& observer) {
  if (!swept.measured->model)
    throw Error(Code::usage, "--measure runs a model: got a trace alone", "name the model, with its data");
  const TraceInfo& info = swept.measured->trace.info;
  MeasureOptions run = options;
  run.precision = info.precision;  // of the scores in the same row
  run.tokenizer = swept.tokenizer;
  const PolicyTimes times = time_policies(run, *swept.measured->model, swept.policies, {.seconds = 0}, observer);
  if (times.texts != swept.measured->trace.rows) {
    throw Error(Code::usage,
                fmt::format("--measure: got {} texts, but the trace has {}", times.texts, swept.measured->trace.rows),
                "name the data the trace was made of");
  }
  for (size_t i = 0; i < swept.rows.size(); ++i) {
    swept.rows[i].score.measured_ms = times.rows[i].ms;
    swept.rows[i].score.measured_speedup = times.rows[i].clock_speedup;
  }
}

void mark_best(std::span<Swept> all, Metric primary) {
  for (Swept& one : all) one.best.assign(one.rows.size(), false);
  for (size_t setting = 0; !all.empty() && setting < all.front().rows.size(); ++setting) {
    Swept* best = nullptr;
    for (Swept& one : all) {
      const double value = quality_of(one.rows[setting].score, primary);
      const bool better = best == nullptr || value > quality_of(best->rows[setting].score, primary);
      if (std::isfinite(value) && better) best = &one;
    }
    if (best != nullptr) best->best[setting] = true;
  }
}

OrderedJson checkpoints_json(std::span<const Swept> all) {
  OrderedJson out = OrderedJson::array();
  for (const Swept& one : all) {
    const OrderedJson rows = sweep_json(one.rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      OrderedJson row;
      row["checkpoint"] = one.checkpoint;
      row.update(rows[i]);
      row["best"] = static_cast<bool>(one.best[i]);
      out.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace exeunt
