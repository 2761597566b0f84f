// SPDX-License-Identifier: Apache-2.0
// A table of kernels that notes when each call of another table began and ended, on which thread, and what it worked
// on. An engine that is given it (EngineOptions::kernels) computes the same bits, a little slower.
#pragma once

#include <string>

#include "exeunt/runtime/cpu/kernels.h"

namespace exeunt {

// One at a time, as a table's functions have no place for anything of their own; a second one is our bug. It outlives
// the engines that use its table.
class KernelProfile {
 public:
  explicit KernelProfile(const Kernels& inner);
  ~KernelProfile();
  KernelProfile(const KernelProfile&) = delete;
  KernelProfile& operator=(const KernelProfile&) = delete;

  [[nodiscard]] const Kernels& table() const noexcept { return table_; }
  void clear();  // forgets what was noted so far
  // What was noted, as chrome://tracing and ui.perfetto.dev read it. No engine may be running.
  [[nodiscard]] std::string chrome_trace() const;

 private:
  Kernels table_;
};

}  // namespace exeunt
