// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/certify_model.h"

#include <algorithm>
#include <numeric>

#include "exeunt/certify/losses.h"
#include "exeunt/certify/quantize.h"
#include "exeunt/certify/tries.h"
#include "exeunt/engine/resolve.h"

namespace exeunt {
namespace {

constexpr int kSearchTrials = 24;  // passes over the texts in the search for matrices to keep wider

}  // namespace

ModelCertifier::ModelCertifier(const Checkpoint& model, const TracedTexts& texts, const CalibrationData& fp32,
                               std::span<const size_t> rows, CertifyOptions options, const Observer& observer)
    : model_(model),
      engine_(engine_traits(model, options.device)),
      map_(precision_map_on(engine_.name, model.folder(), model.spec())),
      texts_(texts),
      fp32_(fp32),
      rows_(rows),
      options_(std::move(options)),
      observer_(observer) {}

CertifiedChoice ModelCertifier::run(CalibrationPlan plan) const {
  PrecisionChoice choice = choose(plan);
  const PrecisionSetting setting = choice.chosen().setting;
  CalibrationData data = traced(setting, choice.fit);
  if (options_.named) {
    count_try(data, plan, observer_, true);
    Calibration calibration = calibrate(data, plan);
    return {.setting = setting, .data = std::move(data), .calibration = std::move(calibration)};
  }
  CertifiedChoice out = certify_choice(
      setting, std::move(data), [&] { return traced({}, fp32_.fit); }, plan, observer_);
  out.trials = std::move(choice.trials);
  return out;
}

PrecisionChoice ModelCertifier::choose(const CalibrationPlan& calibration) const {
  PrecisionPlan plan{.calibration = calibration};
  plan.trace = [&](const PrecisionSetting& setting) { return texts_.trace(setting, places(fp32_.fit_rows)); };
  if (options_.named) return named_precision(fp32_, {*options_.named, map_.exceptions(*options_.named)}, plan);
  plan.candidates = faster_precisions(model_, engine_);
  plan.milliseconds = [&](const PrecisionSetting& setting, const PolicySpec& policy, const ExitTrace& fit) {
    return options_.predicted ? options_.predicted(policy, fit)
                              : texts_.milliseconds(setting, policy, places(fp32_.fit_rows));
  };
  if (options_.keep_wider && device_of(engine_.name) == "cpu") {  // where matrices can have precisions of their own
    plan.keep_wider = [&](const PrecisionSetting& setting, const ExitTrace&, double most) {
      return kept_wider(setting.precision, most);
    };
    plan.poolers = model_.exits().poolers() > 0;
  }
  return choose_precision(fp32_, plan);
}

// All parts in one precision, each with fp32 as its reference; `fit` is that part in it.
CalibrationData ModelCertifier::traced(const PrecisionSetting& setting, const ExitTrace& fit) const {
  CalibrationData out = fp32_;
  out.fit = fit;
  set_reference(out.fit, fp32_.fit);
  const auto run = [&](ExitTrace& part, const PartRows& rows) {
    const ExitTrace fp32 = part;
    if (part.rows > 0 && setting != PrecisionSetting{}) part = texts_.trace(setting, places(rows), observer_);
    set_reference(part, fp32);
  };
  run(out.certify, out.certify_rows);
  run(out.report, out.report_rows);
  return out;
}

bool ModelCertifier::new_exceptions(const PrecisionSetting& setting) const {
  return setting.precision != Precision::fp32 && setting.exceptions != map_.exceptions(setting.precision);
}

double ModelCertifier::speedup(const PrecisionSetting& setting, const PolicySpec& policy) const {
  const std::vector<size_t> rows = places(fp32_.report.rows > 0 ? fp32_.report_rows : fp32_.certify_rows);
  return texts_.milliseconds({}, {}, rows) / texts_.milliseconds(setting, policy, rows);
}

std::vector<size_t> ModelCertifier::places(const PartRows& part) const {
  std::vector<size_t> out;
  for (const size_t row : part.row) out.push_back(rows_[row]);
  return out;
}

Exceptions ModelCertifier::kept_wider(Precision precision, double most) const {
  const Precision wider = engine_.bf16 ? Precision::bf16 : Precision::fp32;
  if (precision == wider) return {};  // a matrix "kept" in its own precision changes nothing
  std::vector<size_t> rows = places(fp32_.fit_rows);
  if (options_.search_texts > 0 && rows.size() > options_.search_texts) rows.resize(options_.search_texts);
  std::vector<size_t> first(rows.size());
  std::iota(first.begin(), first.end(), size_t{0});
  const std::span<const size_t> few(rows.data(), std::min(rows.size(), kRankingTexts));
  const QuantizePlan plan{.matrices = matrix_names(model_.spec()),
                          .higher = wider,
                          .max_changed = most,
                          .max_accuracy_drop = 1,
                          .trials = kSearchTrials,
                          .trace =
                              [&](const Exceptions& exceptions, bool part) {
                                return texts_.trace({precision, exceptions}, part ? few : std::span(rows));
                              },
                          .say = observer_.notice};
  return choose_exceptions(select_rows(fp32_.fit, first), select_rows(fp32_.fit, std::span(first).first(few.size())),
                           plan)
      .exceptions;
}

}  // namespace exeunt
