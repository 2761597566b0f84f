// SPDX-License-Identifier: Apache-2.0
// What training on a GPU does between matrix products, a few passes over memory each. Raw pointers and sizes alone: no
// LibTorch here. Every sum is taken in a fixed order, so that a resumed run repeats a run bit for bit.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace exeunt::nn::kernels {

using Bf16 = uint16_t;  // bits of a bfloat16

// Widths that add_norm knows: 128 columns to a warp, this many times.
[[nodiscard]] constexpr bool knows_width(int64_t columns) {
  const int64_t times = columns / 128;
  return columns % 128 == 0 && (times <= 4 || times == 6 || times == 8) && times > 0;
}

// Elements that are dropped: a function of seed (one for a whole batch), site (where in the network) and place alone.
struct Dropout {
  const int64_t* seed = nullptr;  // on the GPU; unused where rate is 0
  uint32_t site = 0;
  float rate = 0;
};

// y = norm(residual + dropout(x)). The sum takes the place of x. `mean` and `scale` [rows] are kept for the backward
// pass.
struct AddNorm {
  int64_t rows = 0, columns = 0;
  const Bf16* residual = nullptr;
  Bf16* sum = nullptr;  // in: x
  const float *weight = nullptr, *bias = nullptr;
  float epsilon = 1e-12F;
  Dropout dropout = {};
  Bf16* out = nullptr;
  float *mean = nullptr, *scale = nullptr;
};
void add_norm(const AddNorm& task, cudaStream_t stream);

// The gradients of the residual, of x, and, summed over rows, of weight, bias and x (the bias of the product behind x).
struct AddNormBack {
  int64_t rows = 0, columns = 0;
  const Bf16 *gradient = nullptr, *sum = nullptr;
  const float *weight = nullptr, *mean = nullptr, *scale = nullptr;
  Dropout dropout = {};
  Bf16 *residual = nullptr, *x = nullptr;
  float* sums = nullptr;     // [3, columns]
  float* partial = nullptr;  // [strips, 3, columns], scratch
  int64_t strips = 0;
};
[[nodiscard]] int64_t add_norm_strips(int64_t rows);
void add_norm_back(const AddNormBack& task, cudaStream_t stream);

// gradient ← gradient · act'(input) in place, or as it is, and its sum over rows. Columns in multiples of 128.
enum class Curve { none, gelu, gelu_new, relu };
struct ColumnSums {
  int64_t rows = 0, columns = 0;
  Curve curve = Curve::none;
  const Bf16* input = nullptr;  // of the activation; unused with `none`
  Bf16* gradient = nullptr;
  float* sums = nullptr;     // [columns]
  float* partial = nullptr;  // [strips, columns], scratch
  int64_t strips = 0;
};
[[nodiscard]] int64_t column_strips(int64_t rows, int64_t columns);
void column_sums(const ColumnSums& task, cudaStream_t stream);

// Lists of tensors, cut into pieces of at most kPiece elements.
inline constexpr int64_t kPiece = 1 << 14;
struct Piece {
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float *m = nullptr, *v = nullptr;
  Bf16* copy = nullptr;
  int32_t count = 0, slot = 0;
};

// Each piece's parameter rounded into its copy.
void round_copies(const Piece* pieces, int64_t count, cudaStream_t stream);

// norm ← √Σ g² over all pieces; factor ← what clips it to `most` (1 if most is 0). `partial` [count].
void clip_factor(const Piece* pieces, int64_t count, float most, float* partial, float* norm, float* factor,
                 cudaStream_t stream);

// AdamW with numbers per slot: p ← p·keep_before + size·m/(√v + epsilon), then p·keep_after. Both forms of AdamW are
// this with other numbers.
struct AdamNumbers {
  float size = 0, epsilon = 0, keep_before = 1, keep_after = 1;
};
struct AdamTask {
  const Piece* pieces = nullptr;
  int64_t count = 0;
  const AdamNumbers* numbers = nullptr;  // by slot, on the GPU
  const float* factor = nullptr;         // gradients are multiplied by it; on the GPU
  float beta1 = 0.9F, beta2 = 0.999F;
};
void adam(const AdamTask& task, cudaStream_t stream);

// A reader: a = softmax_t(h_t · query) over real tokens, out = [h_0 ; Σ a_t h_t] in fp32. One block per text.
struct Reader {
  int64_t texts = 0, tokens = 0, columns = 0;
  const Bf16* rows = nullptr;    // [texts, tokens, columns]
  const bool* real = nullptr;    // [texts, tokens]
  const float* query = nullptr;  // [columns]
  float* shares = nullptr;       // [texts, tokens], a
  float* out = nullptr;          // [texts, 2 · columns]
};
void reader(const Reader& task, cudaStream_t stream);

struct ReaderBack {
  int64_t texts = 0, tokens = 0, columns = 0;
  const Bf16* rows = nullptr;
  const float *query = nullptr, *shares = nullptr;
  const float* gradient = nullptr;  // [texts, 2 · columns]
  Bf16* back = nullptr;             // [texts, tokens, columns], added to
  float* queries = nullptr;         // [texts, columns], to be summed over texts
};
void reader_back(const ReaderBack& task, cudaStream_t stream);

}  // namespace exeunt::nn::kernels
