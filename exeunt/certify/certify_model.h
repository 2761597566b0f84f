// SPDX-License-Identifier: Apache-2.0
// The one promise over precision and exits of a model that runs here: the precision that is named, else the one that is
// expected to answer fastest, is certified against the answers in fp32 at full depth.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "exeunt/certify/choose_precision.h"
#include "exeunt/engine/device.h"

namespace exeunt {

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
