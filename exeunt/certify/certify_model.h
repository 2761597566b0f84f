// SPDX-License-Identifier: Apache-2.0
// The one promise over precision and exits of a model that runs here: the precision that is named, else the one that is
// expected to answer fastest once certified, is certified against the answers in fp32 at full depth. Only rows of the
// fit part choose a precision, so that the one test to come, on other rows, keeps its level however many were tried.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/traced_texts.h"
#include "exeunt/engine/device.h"

namespace exeunt {

struct PrecisionPlan {
  CalibrationPlan calibration = {};
  std::vector<PrecisionSetting> candidates = {};  // besides fp32, wider ones first
  // The fit rows in another precision.
  std::function<ExitTrace(const PrecisionSetting&)> trace = {};
  // Time that one of their texts takes under a policy; `fit` are the rows in this precision.
  std::function<double(const PrecisionSetting&, const PolicySpec&, const ExitTrace& fit)> milliseconds = {};
  // Finds matrices to keep wider, so that at most this share of the answers at full depth changes; none: not tried.
  std::function<Exceptions(const PrecisionSetting&, const ExitTrace& fp32, double max_changed)> keep_wider = {};
  bool poolers = false;  // try the poolers in int8, too, where the layers are: every exit reads one of them
};

struct PrecisionTrial {
  PrecisionSetting setting = {};
  double changed = 0;  // share of the fit texts that full depth answers otherwise than in fp32
  // Expected after certification, for the first budget; infinite if not even full depth would pass.
  double milliseconds = std::numeric_limits<double>::infinity();
  FamilyTrial family = {};
};

struct PrecisionChoice {
  std::vector<PrecisionTrial> trials = {};  // fp32 first, then in the order of the plan
  size_t best = 0;
  ExitTrace fit = {};  // in the chosen precision, with its reference

  [[nodiscard]] const PrecisionTrial& chosen() const { return trials[best]; }
};

// `fp32` has the parts in fp32. Of those that certify and report, only the number of rows is looked at.
[[nodiscard]] PrecisionChoice choose_precision(const CalibrationData& fp32, const PrecisionPlan& plan);

// `named` alone, in the same form. Nothing is tried.
[[nodiscard]] PrecisionChoice named_precision(const CalibrationData& fp32, const PrecisionSetting& named,
                                              const PrecisionPlan& plan);

// The one test of what was chosen.
struct CertifiedChoice {
  PrecisionSetting setting = {};
  CalibrationData data = {};
  Calibration calibration = {};
  std::vector<PrecisionTrial> trials = {};  // that the choice was made from; empty where a precision was named
};

// Certifies `data`, which are the parts in `setting`. Where they refute it even at full depth, `fp32` is certified
// instead, with a notice: with what another try has left of delta, or at full depth, which is the reference itself.
[[nodiscard]] CertifiedChoice certify_choice(const PrecisionSetting& setting, CalibrationData data,
                                             const std::function<CalibrationData()>& fp32, CalibrationPlan plan,
                                             const Observer& observer);

// The candidates of an engine for a model: the faster precisions, with the exceptions of its precision.json.
[[nodiscard]] std::vector<PrecisionSetting> faster_precisions(const Checkpoint& model, const EngineTraits& engine);

struct CertifyOptions {
  Device device = {};
  std::optional<Precision> named = {};  // none: chosen on the fit part
  bool keep_wider = true;               // matrices and poolers may have other precisions than in precision.json
  size_t search_texts = 0;              // of the fit part, that search for those at most; 0 = all
  // The expected time of a text by a stored profile; none: it is measured.
  std::function<double(const PolicySpec&, const ExitTrace& fit)> predicted = {};
};

class ModelCertifier {
 public:
  // `fp32` are the parts in fp32, and `rows` the places among the texts of the rows that they are parts of. All must
  // outlive it.
  ModelCertifier(const Checkpoint& model, const TracedTexts& texts, const CalibrationData& fp32,
                 std::span<const size_t> rows, CertifyOptions options, const Observer& observer);

  // Throws Error, as calibrate() does.
  [[nodiscard]] CertifiedChoice run(CalibrationPlan plan) const;

  // Whether precision.json does not have the exceptions of a setting yet.
  [[nodiscard]] bool new_exceptions(const PrecisionSetting& setting) const;

  // How many times faster than fp32 at full depth, on texts that chose nothing where there are any.
  [[nodiscard]] double speedup(const PrecisionSetting& setting, const PolicySpec& policy) const;

 private:
  [[nodiscard]] PrecisionChoice choose(const CalibrationPlan& calibration) const;
  [[nodiscard]] CalibrationData traced(const PrecisionSetting& setting, const ExitTrace& fit) const;
  [[nodiscard]] Exceptions kept_wider(Precision precision, double most) const;
  [[nodiscard]] std::vector<size_t> places(const PartRows& part) const;

  const Checkpoint& model_;
  EngineTraits engine_;
  PrecisionMap map_;
  const TracedTexts& texts_;
  const CalibrationData& fp32_;
  std::span<const size_t> rows_;
  CertifyOptions options_;
  const Observer& observer_;
};

}  // namespace exeunt
