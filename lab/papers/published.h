// SPDX-License-Identifier: Apache-2.0
// The papers' published figures (lab/papers/published/*.json).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/data/metrics.h"

namespace exeunt {

struct PublishedFigure {
  std::string paper, method, backbone, task, split, source;
  Metric metric = Metric::accuracy;
  double score = 0;               // a fraction, as our own scores
  double reading_error = 0;       // of the score: half its last digit, or how well a plot could be read
  std::optional<double> speedup;  // layers (or time) of full depth over what was used; nothing = full depth or not said
  std::optional<int> exit;        // the layer, if the figure is one point of a curve over exits
  std::optional<double> threshold;  // if the source gives it
  std::string speed_meaning;        // what the paper's figure of speed counts: time_saved, speedup_ratio, cost_fraction
};

[[nodiscard]] const std::vector<PublishedFigure>& published_figures();

// Those of one task and metric.
[[nodiscard]] std::vector<PublishedFigure> published_for(std::string_view task, Metric metric);

}  // namespace exeunt
