// SPDX-License-Identifier: Apache-2.0
// The heads of a packed model: from the rows of a layer to an exit's logits. Nothing here allocates.
#pragma once

#include <span>

#include "exeunt/engine/cpu/packed_model.h"
#include "exeunt/engine/cpu/worker_pool.h"
#include "exeunt/engine/cpu/workspace.h"

namespace exeunt {

// The output of a layer as exits see it.
struct LayerRows {
  const float* first = nullptr;  // [hidden]
  const float* all = nullptr;    // [tokens, hidden]; null if only row 0 is available
  int tokens = 0;
};

class ExitHeads {
 public:
  ExitHeads(const PackedModel& model, Workspace& space, WorkerPool::Worker& worker)
      : model_(model), space_(space), worker_(worker) {}

  // An exit for several texts, at most kMaxPackTexts: one pass over its weights. Writes [texts, outputs] raw logits,
  // and the scores [texts] of the learning-to-exit head if there is one, else zeros.
  void run(const ExitSite& site, std::span<const LayerRows> texts, float* logits, float* lte) noexcept;
  // All rows as exits read them: through the final norm, if there is one. Valid until the next call.
  [[nodiscard]] const float* as_read(const LayerRows& rows) noexcept;
  // The logits of the ramp of the last layer, for one text. The model has one.
  void run_ramp(const LayerRows& rows, float* logits) noexcept;

 private:
  void gather(const ExitSite& site, const LayerRows& rows, float* out) noexcept;           // what a pooler reads
  void pool(const PackedPooler& pooler, PoolerActivation activation, int texts) noexcept;  // exit_input → pooled
  void normalize(const PackedNorm& norm, int columns, float* rows, int count) const noexcept;
  void multiply(const PlainWeight& weight, const float* input, float* out) const noexcept;

  const PackedModel& model_;
  Workspace& space_;
  WorkerPool::Worker& worker_;
};

}  // namespace exeunt
