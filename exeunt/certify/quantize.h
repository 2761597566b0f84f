// SPDX-License-Identifier: Apache-2.0
// Which matrices of a model tolerate a low precision, and which must stay in a higher one. Measured by what users see:
// answers and exits that change against fp32, and accuracy, on texts of the task.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/certify/calibrate.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/eval/drift.h"
#include "exeunt/eval/measure.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

// What a lower precision changes, under one policy and over the same texts.
struct Change {
  Drift drift = {};
  double changed = 0;  // fraction of texts whose label or exit differs (regression: value, by 1 % of its range)
  double before = 0, after = 0;  // accuracy (regression: Pearson's correlation); NaN: not known

  [[nodiscard]] double drop() const noexcept { return std::isnan(before) ? 0 : before - after; }
};
[[nodiscard]] Change change_between(const ExitTrace& before, const ExitTrace& after, const PolicySpec& policy);

inline constexpr size_t kRankingTexts = 64;  // of the texts, enough to rank matrices by what they do

struct QuantizePlan {
  std::vector<std::string> matrices = {};  // all that can be kept in another precision, as matrix_names() has them
  Precision higher = Precision::bf16;      // what the exceptions are kept in
  PolicySpec policy = {};                  // under which exits are compared
  double max_changed = 0.02, max_accuracy_drop = 0.005;
  int trials = 64;  // maximum number of passes over the texts
  // Traces the texts with these exceptions; `few` selects a part of them, enough to rank matrices.
  std::function<ExitTrace(const Exceptions&, bool few)> trace = {};
  std::function<void(const std::string&)> notice = {};  // called at every step
};

struct QuantizeOutcome {
  Exceptions exceptions = {};
  Change plain = {};   // everything in the low precision
  Change chosen = {};  // with the exceptions
  int trials = 0;
  bool within = false;  // the wanted bounds are kept
};

// `reference` and `reference_few` are fp32 traces of all texts and of the part. Greedy: matrices are ranked by the harm
// each does alone, and as few as possible of the worst are kept in the higher precision.
[[nodiscard]] QuantizeOutcome choose_exceptions(const ExitTrace& reference, const ExitTrace& reference_few,
                                                const QuantizePlan& plan);

// precision.json of a model, with the exceptions of one precision exchanged. Returns its path.
std::filesystem::path write_exceptions(const Checkpoint& model, Precision precision, const Exceptions& exceptions);

struct QuantizeOptions {
  MeasureOptions run = {};
  Precision precision = Precision::int8;
  std::string policy = {};                               // under which exits are compared; empty = the model's in fp32
  double max_changed = 0.02, max_accuracy_drop = 0.005;  // against fp32
  double max_drop = 0.01, confidence = 0.95;             // of the certified policy, against fp32 at full depth
  int trials = 64;
  uint64_t seed = 42;
};

struct Quantized {
  std::filesystem::path out = {};  // precision.json
  QuantizeOutcome outcome = {};
  Change reported = {};  // with the exceptions, on rows that chose nothing
  size_t matrices = 0;
  std::optional<Calibration> calibration = {};  // nothing: the rows did not suffice for a certificate
};

// Chooses exceptions on some of the rows, certifies a policy on others, and writes precision.json, policy.json and the
// model card. Throws Error.
[[nodiscard]] Quantized quantize_model(const QuantizeOptions& options, const Observer& observer);

}  // namespace exeunt
