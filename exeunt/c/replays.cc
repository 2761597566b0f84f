// SPDX-License-Identifier: Apache-2.0
// The C interface to what needs no model: policies replayed, compared and certified on logits that any framework made.
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>

#include "exeunt/base/ascii.h"
#include "exeunt/base/json.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/version.h"
#include "exeunt/c/handle.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/losses.h"
#include "exeunt/certify/tries.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"

using namespace exeunt::c;

namespace {

using exeunt::Code;
using exeunt::Error;
using exeunt::ExitTrace;
using exeunt::OrderedJson;
using exeunt::PolicySpec;
using exeunt::Problem;

ExitTrace trace_of(const exeunt_logits* given) {
  require(given != nullptr, "logits: got a null pointer");
  const exeunt_logits from = read_struct(given, EXEUNT_LOGITS_INIT);
  require(from.rows > 0 && from.exits > 0 && from.outputs > 0 && from.logits != nullptr,
          "logits: want at least one row, exit and output");
  require(from.exits <= exeunt::kMaxExits, "logits: more than 128 exits");
  const size_t row_bytes = sizeof(float) * static_cast<size_t>(from.exits) * static_cast<size_t>(from.outputs);
  require(from.rows <= std::numeric_limits<std::ptrdiff_t>::max() / row_bytes, "logits: more than memory can hold");
  ExitTrace trace;
  trace.rows = from.rows;
  trace.exits = from.exits;
  trace.width = from.outputs;
  const auto exits = static_cast<size_t>(from.exits), outputs = static_cast<size_t>(from.outputs);
  trace.logits.assign(from.logits, from.logits + from.rows * exits * outputs);
  trace.info.problem = from.multi_label != 0 ? Problem::multi_label
                       : from.outputs == 1   ? Problem::regression
                                             : Problem::classification;
  for (size_t c = 0; from.thresholds != nullptr && c < outputs; ++c) {
    const float logit = exeunt::logit_of(from.thresholds[c]);
    const double kept = exeunt::threshold_of(logit);  // as it will be written
    require(kept > 0 && kept < 1, "thresholds: want probabilities from 0.000001 to 0.999999");
    trace.info.logit_thresholds.push_back(logit);
  }
  const size_t known = from.rows * trace.gold_width();
  if (from.gold != nullptr) {
    trace.gold.assign(from.gold, from.gold + known);
  } else {
    trace.gold.assign(known, std::numeric_limits<float>::quiet_NaN());
  }
  if (from.cluster != nullptr) trace.cluster.assign(from.cluster, from.cluster + from.rows);
  trace.index.resize(from.rows);
  std::iota(trace.index.begin(), trace.index.end(), int64_t{0});
  if (trace.info.problem != Problem::regression)
    for (size_t c = 0; c < outputs; ++c) trace.info.labels.push_back(std::to_string(c));
  trace.info.layers.resize(exits);
  std::iota(trace.info.layers.begin(), trace.info.layers.end(), 1);
  if (from.layers != nullptr) trace.info.layers.assign(from.layers, from.layers + exits);
  trace.info.precision = trace.info.engine = exeunt::kExternalPrecision;
  trace.info.weights = trace.info.data = exeunt::sha256_hex(std::as_bytes(std::span(trace.logits)));
  check_trace(trace, "logits");
  return trace;
}

// A policy text, or a whole policy file with one entry.
PolicySpec policy_of(const char* text) {
  require(text != nullptr, "policy: got a null pointer");
  if (text[0] != '{') return exeunt::parse_policy(text);
  const exeunt::PolicyFile file = exeunt::parse_policy_file(text, "policy");
  require(!file.entries.empty(), "policy: the file has no entry");
  return file.entries.front().complete();
}

int label_of(const ExitTrace& trace, std::span<const float> logits) {
  return trace.info.problem == Problem::regression ? -1 : exeunt::answer_number(trace.exit_logits(logits));
}

void hand_out(const OrderedJson& value, char** json) {
  const std::string text = value.dump();
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *json = copy;
}

exeunt::CalibrationPlan plan_of(const exeunt_plan& given) {
  exeunt::CalibrationPlan plan;
  if (given.budgets > 0) {
    require(given.max_drop != nullptr, "max_drop: got a null pointer");
    plan.max_drops.assign(given.max_drop, given.max_drop + given.budgets);
    std::sort(plan.max_drops.begin(), plan.max_drops.end());
    for (const double budget : plan.max_drops)
      require(budget > 0 && budget < 1, "max_drop: want shares above 0, below 1");
  }
  if (given.confidence != 0) {
    require(given.confidence >= 0.5 && given.confidence < 1, "confidence: want 0.5 or more, below 1");
    plan.delta = exeunt::delta_of(given.confidence);
  }
  if (given.loss != nullptr) plan.loss = exeunt::loss_named(given.loss);
  if (given.method != nullptr) plan.method = exeunt::method_named(given.method);
  if (given.rules != nullptr)
    for (const std::string_view rule : exeunt::split(given.rules, ',')) plan.families.emplace_back(rule);
  return plan;
}

// The share of rows whose early label is the gold one; nothing where gold is missing, or for regression.
OrderedJson accuracy_of(const ExitTrace& trace, const exeunt::Replayer& replayer,
                        const exeunt::Departures& departures) {
  if (trace.info.problem == Problem::regression || !trace.labelled()) return nullptr;
  size_t right = 0;
  for (size_t row = 0; row < trace.rows; ++row) right += trace.right(row, replayer.answer(departures, row)) ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(trace.rows);
}

}  // namespace

void exeunt_free(char* json) {
  std::free(json);
}

exeunt_status exeunt_replay(const exeunt_logits* logits, const char* policy, int* exits, int* labels) {
  return guarded([&] {
    const ExitTrace trace = trace_of(logits);
    exeunt::Replayer replayer(trace);
    const exeunt::Departures departures = replayer.run(policy_of(policy));
    for (size_t row = 0; row < trace.rows; ++row) {
      if (exits != nullptr) exits[row] = departures.exit[row];
      if (labels != nullptr) labels[row] = label_of(trace, replayer.answer(departures, row));
    }
  });
}

exeunt_status exeunt_sweep(const exeunt_logits* logits, const char* policies, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    require(policies != nullptr && json != nullptr, "exeunt_sweep: got a null pointer, want policies and a place");
    const ExitTrace trace = trace_of(logits);
    const bool regression = trace.info.problem == Problem::regression;
    exeunt::Replayer replayer(trace);
    exeunt::LossMeter meter(trace, exeunt::default_loss(trace.info.problem),
                            regression ? observed_range(trace) : std::nullopt);
    OrderedJson rows = OrderedJson::array();
    for (const PolicySpec& policy : exeunt::parse_sweep(policies)) {
      const exeunt::LossMeter::Measured measured = meter.measure(policy);
      const double losses = std::accumulate(measured.losses.begin(), measured.losses.end(), 0.0);
      OrderedJson row;
      row["policy"] = str(policy);
      row["layers"] = measured.cost_fraction * trace.info.layers.back();
      row["cost_fraction"] = measured.cost_fraction;
      row["loss"] = losses / static_cast<double>(trace.rows);
      row["accuracy"] = accuracy_of(trace, replayer, replayer.run(policy));
      rows.push_back(std::move(row));
    }
    hand_out({{"format", "exeunt.sweep/1"}, {"settings", std::move(rows)}}, json);
  });
}

exeunt_status exeunt_calibrate(const exeunt_logits* logits, const exeunt_plan* plan, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&] {
    require(json != nullptr, "exeunt_calibrate: got a null pointer, want a place for the result");
    const exeunt_plan given = read_struct(plan, EXEUNT_PLAN_INIT);
    ExitTrace trace = trace_of(logits);
    hash_rows_by_logits(trace);
    exeunt::CalibrationPlan wanted = plan_of(given);
    const exeunt::CalibrationData data = exeunt::split_for_calibration(
        trace, given.seed,
        exeunt::shares_for(trace, wanted, given.no_report != 0 ? std::optional(given.no_report < 0) : std::nullopt));
    if (trace.info.problem == Problem::regression)
      wanted.range = given.high > given.low ? std::pair(given.low, given.high) : observed_range(data.fit);
    count_try(data, wanted, {});
    exeunt::Calibration done = exeunt::calibrate(data, wanted);
    if (done.entry.certificate) {
      done.entry.certificate->tool = fmt::format("libexeunt {}", exeunt::version());
      done.entry.certificate->created = exeunt::now_rfc3339();
    }
    exeunt::PolicyFile file{.weights = trace.info.weights,
                            .default_precision = std::string(exeunt::kExternalPrecision)};
    file.put(done.entry);
    OrderedJson out;
    out["format"] = "exeunt.calibration/1";
    out["policy"] = str(done.entry.policy);
    out["promise"] = promise_of(done.entry);
    out["tries"] = done.entry.certificate->tries;
    out["exits"] = done.entry.exits;
    out["rows"] = {{"fit", data.fit.rows}, {"certify", data.certify.rows}, {"report", data.report.rows}};
    out["points"] = OrderedJson::array();
    for (const exeunt::DropOutcome& outcome : done.outcomes) out["points"].push_back(outcome_json(outcome));
    out["families"] = trials_json(done.trials);
    out["policy_file"] = OrderedJson::parse(policy_file_text(file));
    hand_out(out, json);
  });
}
