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
  std::optional<PrecisionSetting> in_force = {};  // of the certificate that is renewed
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
  double chance = 0;   // that full depth passes the test to come
  // A text, with the policy expected after certification for the first budget; infinite if not even full depth would
  // pass on the fit part.
  double milliseconds = std::numeric_limits<double>::infinity();
  // The same, with what runs instead where the test fails.
  double expected_ms = std::numeric_limits<double>::infinity();
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

struct Speedup {
  double precision = 1, exits = 1;

  [[nodiscard]] double total() const noexcept { return precision * exits; }
};

// The one test of what was chosen.
struct CertifiedChoice {
  PrecisionSetting setting = {};
  CalibrationData data = {};
  Calibration calibration = {};
  std::vector<PrecisionTrial> trials = {};  // that the choice was made from; empty where a precision was named
  RunTimes times = {};                      // full depth in fp32, full depth in `setting`, then the budgets' policies

  // How many times faster than full depth in fp32, by the precision and by the exits; nothing if the machine was too
  // busy to tell. On texts that chose nothing where there are any.
  [[nodiscard]] std::optional<Speedup> speedup(size_t budget = 0) const;
};

// Exits cost a little themselves: for each budget whose policy is not faster than full depth, by times in the order of
// CertifiedChoice::times, full depth is taken instead. That is in the tested sequence, so no other test is needed.
void drop_slow_exits(CertifiedChoice& choice, const RunTimes& by, CalibrationPlan plan);

// What was gained over full depth in fp32, and by what, in words.
[[nodiscard]] std::string verdict_of(const CertifiedChoice& choice);

// A setting whose full depth is tested, and the parts in it.
struct CertifyStep {
  PrecisionSetting setting = {};
  std::function<CalibrationData()> data = {};
};

// Certifies the last step's exits by fixed-sequence testing: full depth of each step in turn, fp32 first, which is the
// reference itself and loses nothing, then narrower ones, then the exits of the last. Where a step fails, the one
// before it is certified instead, with a notice: its full depth, which has passed, or what passes with the delta that
// another try has left.
[[nodiscard]] CertifiedChoice certify_choice(std::span<const CertifyStep> steps, CalibrationPlan plan,
                                             const Observer& observer);

struct CertifyOptions {
  Device device = {};
  std::optional<Precision> named = {};     // none: chosen on the fit part
  std::optional<Precision> in_force = {};  // of the certificate that is renewed
  bool keep_wider = true;                  // matrices and poolers may have other precisions than in precision.json
  size_t search_texts = 0;                 // of the fit part, that search for those at most; 0 = all
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
