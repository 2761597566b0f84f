// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/cached_rows.h"

#include "exeunt/base/half.h"

namespace exeunt {

CachedRows::CachedRows(Engine& engine, std::span<const Encoding> texts, LayerSpan span, int depth,
                       const Advance& advance)
    : hidden_(static_cast<size_t>(engine.spec().hidden)), span_(span) {
  begins_.push_back(0);
  for (const Encoding& text : texts) begins_.push_back(begins_.back() + text.ids.size());
  rows_.resize(static_cast<size_t>(span.count()));
  for (std::vector<uint16_t>& rows : rows_) rows.resize(begins_.back() * hidden_);
  const auto keep = [&](size_t text, int layer, std::span<const float> rows) {
    if (layer < span.first || layer > span.last) return;
    uint16_t* out = rows_[static_cast<size_t>(layer - span.first)].data() + begins_[text] * hidden_;
    for (size_t i = 0; i < rows.size(); ++i) out[i] = float_to_bf16(rows[i]);
  };
  logits_ = engine.layer_rows(texts, depth, keep, advance);
}

TextRows CachedRows::at(size_t text, int layer) const noexcept {
  const std::vector<uint16_t>& rows = rows_[static_cast<size_t>(layer - span_.first)];
  return {.rows = rows.data() + begins_[text] * hidden_, .tokens = static_cast<int>(begins_[text + 1] - begins_[text])};
}

size_t CachedRows::bytes(std::span<const Encoding> texts, int hidden, int layers) noexcept {
  size_t tokens = 0;
  for (const Encoding& text : texts) tokens += text.ids.size();
  return tokens * static_cast<size_t>(hidden) * static_cast<size_t>(layers) * sizeof(uint16_t);
}

}  // namespace exeunt
