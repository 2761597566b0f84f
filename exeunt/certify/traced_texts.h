// SPDX-License-Identifier: Apache-2.0
// Texts that a model runs again and again: in parts, and in several precisions.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exeunt/data/dataset.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/eval/measure.h"
#include "exeunt/policy/trace.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

// What a model computes in.
struct PrecisionSetting {
  Precision precision = Precision::fp32;
  Exceptions exceptions = {};  // matrices kept in another one

  bool operator==(const PrecisionSetting&) const = default;
};
[[nodiscard]] std::string str(const PrecisionSetting& setting);  // "int8 with 3 matrices in bf16, poolers in int8"

struct TimedRun {
  PrecisionSetting setting = {};
  PolicySpec policy = {};
  std::vector<float> exit_rates = {};  // of calibration, or empty
};

struct RunTimes {
  std::vector<double> milliseconds = {};  // one for each run
  bool steady = false;                    // the rounds agree about the ratios
};
// Of rounds[run][round]: medians. Every run is compared with the first, round by round.
[[nodiscard]] RunTimes times_of(const std::vector<std::vector<double>>& rounds);

// Rows are those of all sources, one source after the other, counted from 0.
class TracedTexts {
 public:
  // `model` must outlive it.
  TracedTexts(const Checkpoint& model, const MeasureOptions& options, std::vector<Dataset> sources);

  [[nodiscard]] std::vector<size_t> all() const;

  [[nodiscard]] ExitTrace trace(const PrecisionSetting& setting, std::span<const size_t> rows,
                                const ProgressStyle& style = {}) const;

  // Processor time that one of the rows takes in each run, on average: medians of rounds that take the runs in turns,
  // so that whatever else the machine does meets all of them alike.
  [[nodiscard]] RunTimes times(std::span<const TimedRun> runs, std::span<const size_t> rows) const;

 private:
  const Checkpoint& model_;
  MeasureOptions options_;
  int max_length_;       // the same in all precisions
  std::string weights_;  // hashed once: large models are traced again and again
  std::filesystem::path tokenizer_folder_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::vector<Dataset> sources_;
  size_t size_ = 0;
};

}  // namespace exeunt
