// SPDX-License-Identifier: Apache-2.0
// The tables of kernels this machine runs, and what they can do.
#pragma once

#include <string>
#include <vector>

#include "exeunt/engine/cpu/cpu_kernels.h"

namespace exeunt {

inline std::vector<const Kernels*> tables_here() {
  std::vector<const Kernels*> tables;
  for (const Kernels* table : all_kernels()) {
    if (table->runs_on(cpu_features()) && table->prepare()) tables.push_back(table);
  }
  return tables;
}

// One way to run a model.
struct Way {
  const Kernels* kernels;
  Precision precision;

  [[nodiscard]] std::string name() const { return std::string(kernels->name) + "_" + std::string(name_of(precision)); }
};

inline std::vector<Way> ways_here() {
  std::vector<Way> ways;
  for (const Kernels* table : tables_here()) {
    for (const Precision precision : kPrecisions) {
      if (precision != Precision::bf16 || table->bf16) ways.push_back({table, precision});
    }
  }
  return ways;
}

}  // namespace exeunt
