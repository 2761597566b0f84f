// SPDX-License-Identifier: Apache-2.0
// What runs shadows: the certificate's reference, and both fp32 and every exit of the served precision if a log is
// kept. Where another precision is served, fp32 has a second engine, whose thread has low priority. (Not so
// the thread that waits for it: that one shares locks with the network thread.)
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "exeunt/policy/shadow_log.h"
#include "exeunt/serve/shadow.h"

namespace exeunt::serve {

struct ShadowEngineOptions {
  LossReference reference = LossReference::fp32;
  Device device = {};
  const Kernels* kernels = nullptr;
  std::string log = {};  // file; empty = none
  ShadowLogHead log_head = {};
};

// By which the loss of a regression is measured: the certificate's range of values, else the model's. Throws Error
// (usage) if neither has one. 0 for classes, which need none.
[[nodiscard]] double loss_range(const Certificate* certificate, const ModelFacts& model);

class ShadowEngine {
 public:
  // `served` must outlive it. Throws Error.
  ShadowEngine(const Checkpoint& model, Engine& served, const ShadowEngineOptions& options);

  // On one thread at a time.
  [[nodiscard]] ShadowPass pass(const Encoding& text, uint64_t dropped);

  [[nodiscard]] size_t bytes() const noexcept { return fp32_ ? fp32_->weight_bytes() : 0; }
  [[nodiscard]] bool logs() const noexcept { return log_.has_value(); }
  // Processor time of one pass, as a multiple of the served engine's at full depth.
  [[nodiscard]] double relative_cost(const Encoding& text);

 private:
  [[nodiscard]] bool runs_served() const noexcept { return !fp32_ || !reference_is_fp32_ || log_; }

  Engine& served_;
  bool reference_is_fp32_;             // the certificate's reference; else it is the served precision
  std::unique_ptr<Engine> fp32_ = {};  // fp32, one thread of low priority; none: that is served, or not needed
  std::optional<ShadowLogWriter> log_ = {};
};

}  // namespace exeunt::serve
