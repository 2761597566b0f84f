// SPDX-License-Identifier: Apache-2.0
// The rows of many texts after some layers of a model, as bf16: half the memory, and the same values whether they are
// kept or computed again.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "exeunt/attach/head.h"
#include "exeunt/engine/engine.h"

namespace exeunt {

struct LayerSpan {
  int first = 1, last = 1;  // layers, from 1
  [[nodiscard]] int count() const noexcept { return last - first + 1; }
};

class CachedRows {
 public:
  using Advance = std::function<void(int64_t)>;

  // Runs `texts` as deep as `depth` and keeps their rows after the layers of `span`.
  CachedRows(Engine& engine, std::span<const Encoding> texts, LayerSpan span, int depth, const Advance& advance);

  [[nodiscard]] TextRows at(size_t text, int layer) const noexcept;
  // Of the last exit, [texts, outputs], where all layers were run.
  [[nodiscard]] const std::vector<float>& logits() const noexcept { return logits_; }

  [[nodiscard]] static size_t bytes(std::span<const Encoding> texts, int hidden, int layers) noexcept;

 private:
  size_t hidden_;
  LayerSpan span_;
  std::vector<size_t> begins_ = {};               // [texts + 1] first token of each text
  std::vector<std::vector<uint16_t>> rows_ = {};  // of each layer, [tokens, hidden]
  std::vector<float> logits_ = {};
};

}  // namespace exeunt
