// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/choose_precision.h"

#include <cmath>

#include "exeunt/base/error.h"
#include "exeunt/certify/quantize.h"
#include "exeunt/certify/risk.h"
#include "exeunt/certify/tries.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/policy/replay.h"

namespace exeunt {
namespace {

// Clocks are wrong by a few percent; a narrower precision must gain more than that.
constexpr double kWorthwhile = 0.95;

// A low precision that uses up more than this share of the budget at full depth leaves too little to exits.
constexpr double kShareOfMaxDrop = 0.25;

class Choosing {
 public:
  Choosing(const CalibrationData& fp32, const PrecisionPlan& plan) : fp32_(fp32), plan_(plan) {}

  PrecisionChoice run() {
    attempt({});
    for (const PrecisionSetting& candidate : plan_.candidates) {
      attempt(candidate);
      attempt_with_wider_matrices();
      attempt_with_narrow_poolers();
    }
    return std::move(out_);
  }

 private:
  void attempt_with_wider_matrices() {
    const PrecisionTrial& last = out_.trials.back();
    const double most = kShareOfMaxDrop * plan_.calibration.max_drops.front();
    if (!plan_.keep_wider || !last.setting.exceptions.empty() || last.changed <= most) return;
    const Exceptions exceptions = plan_.keep_wider(last.setting, fp32_.fit, most);
    if (!exceptions.empty()) attempt({last.setting.precision, exceptions});
  }

  void attempt_with_narrow_poolers() {
    PrecisionSetting setting = out_.trials.back().setting;
    if (!plan_.poolers || setting.precision != Precision::int8) return;
    if (setting.exceptions.emplace(kPoolers, Precision::int8).second) attempt(setting);
  }

  void attempt(const PrecisionSetting& setting) {
    const bool first = out_.trials.empty();
    CalibrationData data = fp32_;
    if (!first) data.fit = plan_.trace(setting);
    set_reference(data.fit, fp32_.fit);
    PrecisionTrial trial{.setting = setting};
    trial.changed = change_between(fp32_.fit, data.fit, {}).changed;
    trial.family = try_families(data, static_cast<int64_t>(fp32_.certify.rows), plan_.calibration).front();
    if (std::isfinite(trial.family.cost_fraction) && (first || likely_to_pass(trial.changed)))
      trial.milliseconds = plan_.milliseconds(setting, trial.family.expected.front(), data.fit);
    const bool better = first || trial.milliseconds < kWorthwhile * out_.chosen().milliseconds;
    out_.trials.push_back(std::move(trial));
    if (!better) return;
    out_.best = out_.trials.size() - 1;
    out_.fit = std::move(data.fit);
  }

  // A small fit part may show no changed answer where the certify part has some, and fp32 risks none at full depth. So
  // the share is estimated with half a change more than was seen (Jeffreys' prior).
  [[nodiscard]] bool likely_to_pass(double changed) const {
    if (fp32_.fit.info.problem == Problem::regression) return true;
    const auto rows = static_cast<double>(fp32_.fit.rows);
    const double share = (changed * rows + 0.5) / (rows + 1);
    const auto certify = static_cast<int64_t>(fp32_.certify.rows);
    const CalibrationPlan& plan = plan_.calibration;
    const double delta = plan.delta / static_cast<double>(plan.max_drops.size());
    return share * static_cast<double>(certify) <=
           static_cast<double>(losses_allowed(certify, plan.max_drops.front(), delta));
  }

  const CalibrationData& fp32_;
  const PrecisionPlan& plan_;
  PrecisionChoice out_ = {};
};

}  // namespace

PrecisionChoice choose_precision(const CalibrationData& fp32, const PrecisionPlan& plan) {
  return Choosing(fp32, plan).run();
}

PrecisionChoice named_precision(const CalibrationData& fp32, const PrecisionSetting& named, const PrecisionPlan& plan) {
  PrecisionChoice out{.trials = {{.setting = named}}};
  out.fit = named == PrecisionSetting{} ? fp32.fit : plan.trace(named);
  set_reference(out.fit, fp32.fit);
  return out;
}

CertifiedChoice certify_choice(const PrecisionSetting& setting, CalibrationData data,
                               const std::function<CalibrationData()>& fp32, CalibrationPlan plan,
                               const Observer& observer) {
  CertifiedChoice out{.setting = setting, .data = std::move(data)};
  count_try(out.data, plan, observer);
  if (setting != PrecisionSetting{} && !full_depth_passes(out.data, plan)) {
    observer.notice(
        fmt::format("{} was chosen, but even at full depth it does not keep {:g} % on the texts that certify: fp32 is "
                    "certified instead, as another try on them",
                    str(setting), 100 * plan.max_drops.front()));
    out.setting = {};
    out.data = fp32();
    plan.or_full_depth = true;
    count_try(out.data, plan, observer);
  }
  out.calibration = calibrate(out.data, plan);
  return out;
}

std::vector<PrecisionSetting> faster_precisions(const Checkpoint& model, const EngineTraits& engine) {
  const PrecisionMap map = precision_map_on(engine.name, model.folder(), model.spec());
  std::vector<PrecisionSetting> out;
  for (const Precision precision : {Precision::bf16, Precision::int8}) {
    if (supports(engine, precision)) out.push_back({precision, map.exceptions(precision)});
  }
  return out;
}

}  // namespace exeunt
