// SPDX-License-Identifier: Apache-2.0
// Small traces made on the spot, and the real ones under tests/traces.
#pragma once

#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "exeunt/policy/trace.h"

namespace exeunt {

struct TraceShape {
  size_t rows = 50;
  int exits = 4, classes = 3;
  bool lte = false, ramp = false;
  unsigned seed = 1;
};

// Random logits that grow surer of a row's label with depth; one class makes a regression.
inline ExitTrace random_trace(const TraceShape& shape) {
  ExitTrace trace;
  trace.rows = shape.rows;
  trace.exits = shape.exits;
  trace.width = shape.classes;
  trace.info.weights = std::string(64, 'a');
  trace.info.precision = "fp32";
  if (shape.classes == 1) trace.info.problem = Problem::regression;
  for (int c = 0; c < shape.classes && shape.classes > 1; ++c)
    trace.info.labels.push_back("class " + std::to_string(c));
  for (int e = 1; e <= shape.exits; ++e) trace.info.layers.push_back(e);
  std::mt19937 random(shape.seed);
  std::normal_distribution<float> noise;
  std::uniform_real_distribution<float> unit;
  for (size_t row = 0; row < shape.rows; ++row) {
    const auto label = static_cast<int>(random() % static_cast<unsigned>(shape.classes));
    for (int e = 1; e <= shape.exits; ++e) {
      for (int c = 0; c < shape.classes; ++c)
        trace.logits.push_back(noise(random) + (c == label ? static_cast<float>(e) : 0));
      if (shape.lte) trace.lte.push_back(unit(random));
    }
    for (int c = 0; c < shape.classes && shape.ramp; ++c) trace.ramp.push_back(noise(random));
    trace.gold.push_back(static_cast<float>(label));
    trace.lengths.push_back(static_cast<int32_t>(5 + random() % 60));
    trace.index.push_back(static_cast<int64_t>(row));
  }
  return trace;
}

inline std::string real_trace(const std::string& name) {
  return std::string(EXEUNT_TEST_DATA) + "/traces/" + name + ".safetensors";
}

}  // namespace exeunt
