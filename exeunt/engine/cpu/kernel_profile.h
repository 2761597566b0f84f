// SPDX-License-Identifier: Apache-2.0
// A table of kernels that records each call of another table: start, end, thread and shape. An engine with it
// (EngineOptions::kernels) computes the same bits, a little slower.
#pragma once

#include <string>

#include "exeunt/engine/cpu/cpu_kernels.h"

namespace exeunt {

// One at a time, because a table's functions have no state; a second one is our bug. It outlives the engines that use
// its table.
class KernelProfile {
 public:
  explicit KernelProfile(const Kernels& inner);
  ~KernelProfile();
  KernelProfile(const KernelProfile&) = delete;
  KernelProfile& operator=(const KernelProfile&) = delete;

  [[nodiscard]] const Kernels& table() const noexcept { return table_; }
  void clear();  // forgets all records
  // The records for chrome://tracing and ui.perfetto.dev. No engine may be running.
  [[nodiscard]] std::string chrome_trace() const;

 private:
  Kernels table_;
};

}  // namespace exeunt
