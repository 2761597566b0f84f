// SPDX-License-Identifier: Apache-2.0
// The cost of a model: parameters, and multiply-accumulates of matrix products, which ELUE's score
// uses. A linear map counts inputs × outputs without bias, LayerNorm 2 per element, attention's softmax and scaling
// 2 per head and score; embeddings, rotations, gates, activations and dropout count nothing. A local layer counts the
// scores within its window alone. One multiply-accumulate is two FLOPs.
#pragma once

#include <cstdint>
#include <span>

#include "exeunt/model/checkpoint.h"
#include "exeunt/model/spec.h"

namespace exeunt {

struct ParameterCount {
  int64_t backbone = 0;  // embeddings, layers and pretrained poolers
  int64_t exits = 0;     // everything under exits.
  int64_t added = 0;     // of these, what a plain model with one head after the last layer lacks

  [[nodiscard]] int64_t total() const noexcept { return backbone + exits; }
};

[[nodiscard]] ParameterCount count_parameters(const Checkpoint& checkpoint);

// For a model of which only the shape is known; `poolers` says whether a bare backbone brings its pretrained ones.
[[nodiscard]] ParameterCount count_parameters(const ModelSpec& spec, const ExitLayout& exits, bool poolers = true);

// Of one text of `tokens` tokens.
[[nodiscard]] int64_t embedding_macs(const ModelSpec& spec, int64_t tokens) noexcept;
[[nodiscard]] int64_t layer_macs(const ModelSpec& spec, int64_t tokens, int index = 0) noexcept;  // from 0
[[nodiscard]] int64_t first_layers_macs(const ModelSpec& spec, int64_t tokens, int layers) noexcept;
[[nodiscard]] int64_t exit_macs(const ModelSpec& spec, const ExitLayout& exits, const ExitSite& site,
                                int64_t tokens) noexcept;
[[nodiscard]] int64_t lte_macs(const ExitLayout& exits) noexcept;  // of the learning-to-exit head, per evaluated exit

// A text that exits after layer `after`, with the exits `evaluated` up to there evaluated.
struct Departure {
  int after = 0;
  int64_t tokens = 0;
  std::span<const int> evaluated = {};  // by layer; empty = every exit of the model
  bool lte = false;                     // the rule reads the learning-to-exit head
};
[[nodiscard]] int64_t departure_macs(const ModelSpec& spec, const ExitLayout& exits, const Departure& departure);

[[nodiscard]] inline double mflops(int64_t macs) noexcept {
  return 2.0 * static_cast<double>(macs) / 1e6;
}

}  // namespace exeunt
