// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/transfer.h"

#include <algorithm>
#include <array>

#include "exeunt/base/error.h"
#include "exeunt/certify/new_rows.h"
#include "exeunt/certify/traced_texts.h"
#include "exeunt/certify/tries.h"
#include "exeunt/eval/model_policy.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

// A certified entry of this precision: that of the engine that measured, else any.
PolicyEntry entry_to_transfer(const fs::path& path, const TraceInfo& info) {
  const PolicyFile file = policies_at(path, info.weights, info.precision);
  const PolicyEntry* found = file.find(info.engine, info.precision);
  if (found == nullptr || !found->certificate) {
    const auto any = std::find_if(file.entries.begin(), file.entries.end(), [&](const PolicyEntry& entry) {
      return entry.precision == info.precision && entry.certificate;
    });
    found = any == file.entries.end() ? nullptr : &*any;
  }
  if (found == nullptr || found->points.empty())
    throw_bad_file(path.string(), Hint{"certify one: exeunt calibrate MODEL --max-drop 1%"},
                   "no certified policy for {} to transfer", info.precision);
  if (info.precision_map && found->precision_map.value_or("") != *info.precision_map)
    throw_bad_file(path.string(), Hint{"calibrate anew, without --transfer"},
                   "the policy for {} was certified with another precision.json", info.precision);
  return *found;
}

// Where the certificate compares with fp32, the rows need fp32's answers, too.
void add_reference(Measured& measured, const CalibrateOptions& options, const Observer& observer) {
  ExitTrace& trace = measured.trace;
  if (!trace.reference.empty() || trace.info.precision == "fp32") return;
  if (!measured.model || !options.run.trace.empty() || !options.run.from_server.empty()) {
    throw Error(Code::bad_file, "the rows lack the answers of fp32, which the certificate compares with",
                "name the data instead of a trace: exeunt calibrate MODEL --data FILE --transfer");
  }
  MeasureOptions full = options.run;
  full.precision = "fp32";
  full.max_length = trace.info.max_length;
  set_reference(trace, measure(full, observer).trace);
}

}  // namespace

Calibrated transfer_policy(const CalibrateOptions& options, const Observer& observer) {
  if (is_trace_file(options.run.model) && options.out.empty())
    throw Error(Code::usage, "--out is required where only a trace is given", "for example --out policy.json");
  Calibrated done{.out =
                      options.out.empty() ? policy_path(Checkpoint::open(options.run.model)) : fs::path(options.out)};
  const PolicyLock lock(done.out);
  Measured measured = measure(options.run, observer);
  require_policy_precision(measured.trace);
  const PolicyEntry entry = entry_to_transfer(done.out, measured.trace.info);
  const Certificate& certificate = *entry.certificate;
  if (certificate.reference == LossReference::fp32) add_reference(measured, options, observer);
  keep_new_rows(std::array{&measured.trace}, options.run.strict_new, observer);

  CalibrationPlan plan{
      .max_drops = {}, .delta = certificate.delta, .loss = certificate.loss, .method = certificate.method};
  plan.exits = entry.exits;
  plan.unit = certificate.unit;
  plan.range = label_range(measured);
  if (certificate.range.size() == 2) plan.range = {certificate.range[0], certificate.range[1]};
  for (const PolicyPoint& point : entry.points) plan.max_drops.push_back(point.max_drop);
  plan.transfer = entry;
  CalibrateOptions grouped = options;
  grouped.group = certificate.group_by;
  plan.group = groups_of(grouped, measured);
  done.data = split_for_calibration(measured.trace, certificate.seed.value_or(options.seed),
                                    options.report ? SplitShares{} : kNoReport);
  if (certificate.fit.row_hashes.empty() || certificate.fit.row_hashes != rows_sha256(done.data.fit))
    observer.notice(
        "these are not the rows of the first certificate: those that chose the policy must not be among them");
  if (!certificate.groups.empty() && certificate.group_by.empty())
    observer.notice(
        "the certificate does not say what its groups go by: the promise of all texts is transferred alone");
  count_try(done.data, plan, observer, !options.run.precision.empty());
  done.calibration = calibrate(done.data, plan);
  keep_policy(lock, done.out, measured, done.calibration.entry);
  Scorer scorer(options.report ? done.data.report : done.data.certify, scorer_options(measured));
  done.scores.push_back(scorer.score(PolicySpec{}));
  for (const DropOutcome& outcome : done.calibration.outcomes) done.scores.push_back(scorer.score(outcome.policy));
  return done;
}

}  // namespace exeunt
