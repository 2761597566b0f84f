// SPDX-License-Identifier: Apache-2.0
// Texts of tests as padded batches.
#pragma once

#include <algorithm>
#include <vector>

#include "exeunt/base/tensor.h"
#include "exeunt/text/tokenizer.h"
#include "exeunt/train/network.h"

namespace exeunt::nn {

inline TextBatch batch_of(const std::vector<Encoding>& texts, int pad) {
  size_t longest = 0;
  for (const Encoding& text : texts) longest = std::max(longest, text.ids.size());
  const std::vector<int64_t> shape{static_cast<int64_t>(texts.size()), static_cast<int64_t>(longest)};
  TextBatch batch{torch::full(shape, pad, torch::kLong), torch::zeros(shape, torch::kLong),
                  torch::zeros(shape, torch::kBool)};
  for (size_t n = 0; n < texts.size(); ++n) {
    const size_t row = n * longest;
    std::copy(texts[n].ids.begin(), texts[n].ids.end(), batch.ids.data_ptr<int64_t>() + row);
    std::copy(texts[n].types.begin(), texts[n].types.end(), batch.types.data_ptr<int64_t>() + row);
    std::fill_n(batch.real.data_ptr<bool>() + row, texts[n].ids.size(), true);
  }
  return batch;
}

// The embeddings' rows and those of every layer, [layers + 1] of [rows, tokens, hidden].
inline std::vector<Tensor> hidden_rows(Network& network, const TextBatch& batch) {
  std::vector<Tensor> out;
  network->run_layers(batch, network->spec().layers, false, [&](int, const Tensor& rows) { out.push_back(rows); });
  return out;
}

template <class T>
std::vector<T> golden_values(const TensorSet& set, const std::string& name) {
  const TensorView& view = set.tensors.at(name);
  std::vector<T> out(static_cast<size_t>(view.elements()));
  copy_raw(view, std::as_writable_bytes(std::span(out)));
  return out;
}

// The texts of a golden file: ids and types one after the other, lengths beside them.
inline TextBatch golden_batch(const TensorSet& set, int pad) {
  const auto ids = golden_values<int32_t>(set, "ids"), lengths = golden_values<int32_t>(set, "lengths");
  const auto types = golden_values<uint8_t>(set, "types");
  std::vector<Encoding> texts;
  size_t begin = 0;
  for (const int32_t length : lengths) {
    Encoding text;
    for (size_t t = begin; t < begin + static_cast<size_t>(length); ++t) {
      text.ids.push_back(ids[t]);
      text.types.push_back(types[t]);
    }
    begin += static_cast<size_t>(length);
    texts.push_back(std::move(text));
  }
  return batch_of(texts, pad);
}

}  // namespace exeunt::nn
