// SPDX-License-Identifier: Apache-2.0
// One exit to be attached: its weights, and its forward and backward pass over a batch of texts.
//   a = softmax_t(h_t · q), x = [h_0 ; Σ a_t h_t], v = tanh(P x + p), z = C v + c     (with fc2: z = D tanh(C v + c) +
//   d)
// h_t are the rows after the exit's layer of a model that does not change, so the gradient ends at q.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cpu/region.h"

namespace exeunt {

struct HeadShape {
  int hidden = 0, width = 0, outputs = 0;
  int inner = 0;  // fc2's width; 0 = none
};

// The weights of a head, or their gradient, in one array: what the optimiser does, it does to all of them alike.
class HeadArray {
 public:
  explicit HeadArray(const HeadShape& shape);

  [[nodiscard]] const HeadShape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::span<float> all() noexcept { return values_; }
  [[nodiscard]] std::span<const float> all() const noexcept { return values_; }

  // Each as in the checkpoint: rows are outputs.
  enum Part { query, pooler, pooler_bias, classifier, classifier_bias, inner, inner_bias };
  static constexpr int kParts = 7;
  [[nodiscard]] std::span<float> part(Part part) noexcept {
    return all().subspan(begins_[part], begins_[part + 1] - begins_[part]);
  }
  [[nodiscard]] std::span<const float> part(Part part) const noexcept {  // empty for an fc2 that is not there
    return all().subspan(begins_[part], begins_[part + 1] - begins_[part]);
  }

 private:
  HeadShape shape_;
  std::vector<size_t> begins_ = {};  // [kParts + 1]
  std::vector<float> values_ = {};
};

// The rows of a text after one layer, [tokens, hidden] as bf16.
struct TextRows {
  const uint16_t* rows = nullptr;
  int tokens = 0;
};

// Matrix products by the engine's fp32 kernels. For one thread: it keeps its buffers.
class Products {
 public:
  explicit Products(const Kernels& kernels) : kernels_(kernels) {}

  // out [m, n] = a [m, k] · b [n, k]ᵀ + bias [n]; an empty bias is zero.
  struct Sizes {
    int m, n, k;
  };
  void times_transposed(const Sizes& sizes, const float* a, const float* b, std::span<const float> bias, float* out);
  // out [m, n] = a [k, m]ᵀ · b [k, n]
  void transposed_times(const Sizes& sizes, const float* a, const float* b, float* out);
  // out [m, n] = a [m, k] · b [k, n], the rows of b `stride` apart
  void times(const Sizes& sizes, const float* a, const float* b, size_t stride, float* out);

 private:
  const Kernels& kernels_;
  Region weight_ = {}, operand_ = {};
  std::vector<float> zeros_ = {}, left_ = {}, right_ = {};
};

// Forward and backward pass of one head. Keeps its buffers, so it is for one thread.
class HeadPass {
 public:
  HeadPass(const HeadShape& shape, const Kernels& kernels);

  // Logits [texts, outputs]. `keep` [texts, width] multiplies the pooled rows: dropout; empty = all ones.
  [[nodiscard]] std::span<const float> forward(const HeadArray& weights, std::span<const TextRows> texts,
                                               std::span<const float> keep = {});
  // From the loss's gradient by the logits of the forward pass just done, that by the weights. Overwrites `gradient`.
  void backward(const HeadArray& weights, std::span<const TextRows> texts, std::span<const float> keep,
                std::span<const float> logit_gradient, HeadArray& gradient);

 private:
  void read(const HeadArray& weights, std::span<const TextRows> texts);
  void read_backward(std::span<const TextRows> texts, std::span<float> query_gradient);
  const float* widen(const TextRows& text);

  HeadShape shape_;
  const Kernels& kernels_;
  Products products_;
  std::vector<float> rows_ = {};                   // [tokens, hidden] of one text
  std::vector<float> attention_ = {};              // [tokens of all texts]
  std::vector<float> input_ = {};                  // [texts, 2 hidden]
  std::vector<float> pooled_ = {}, dropped_ = {};  // [texts, width]
  std::vector<float> between_ = {};                // [texts, inner]
  std::vector<float> logits_ = {};                 // [texts, outputs]
  std::vector<float> pooled_gradient_ = {};        // [texts, width]
  std::vector<float> between_gradient_ = {};       // [texts, inner]
  std::vector<float> read_gradient_ = {};          // [texts, hidden]
};

}  // namespace exeunt
