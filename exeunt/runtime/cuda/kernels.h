// SPDX-License-Identifier: Apache-2.0
// The kernels of the CUDA engine, as functions that enqueue them. A batch is a list of texts whose rows lie one below
// the other, without padding. How many texts and rows are left is known on the device alone: every kernel reads it
// there (Live), is launched for as many as there may be, and does nothing beyond. So the host never waits for a layer.
//
// A row's result does not depend on the other rows, nor on how many there are: every sum runs in one order whatever the
// tile that computes it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exeunt/exits/policy.h"
#include "exeunt/model/spec.h"
#include "exeunt/runtime/cuda/gpu.h"

namespace exeunt::cuda {

enum class Number : uint8_t { fp32, bf16 };  // of activations and of the weights of matrices
[[nodiscard]] constexpr size_t bytes_of(Number number) noexcept {
  return number == Number::fp32 ? 4 : 2;
}

// The texts that are still under way, and their rows.
struct Live {
  int texts = 0, rows = 0, tiles = 0;
};
// Queries of one text that share a block of threads in attention.
inline constexpr int kTileRows = 64;
struct Tile {
  int text = 0, first = 0;  // `first` query, counted within the text
};
struct TextList {
  Live* live = nullptr;
  int* slot = nullptr;   // [texts] which of the batch's texts this is
  int* begin = nullptr;  // [texts + 1] its first row
  Tile* tiles = nullptr;
};

// What a batch can hold, for the sizes of launches.
struct Room {
  int texts = 0, rows = 0;
  [[nodiscard]] int tiles() const noexcept { return texts + rows / kTileRows; }
};

struct Norm {
  const float *weight = nullptr, *bias = nullptr;  // [columns]
  float epsilon = 0;
};

struct EmbedJob {
  Number number = Number::fp32;
  const int32_t *ids = nullptr, *types = nullptr, *positions = nullptr;  // [rows]
  const float *word = nullptr, *position = nullptr, *segment = nullptr;  // [.., columns]; null: there is no such table
  int columns = 0;
  Norm norm = {};
  void* out = nullptr;  // [rows, columns]
  const Live* live = nullptr;
  int max_rows = 0;
};
void embed(const EmbedJob& job, Stream stream);

// y = f(x Wᵀ + b). Accumulated in fp32.
enum class Finish : uint8_t { none, gelu, gelu_new, relu };
struct Product {
  Number number = Number::fp32;
  const void *input = nullptr, *weight = nullptr;  // [rows, inputs], [outputs, inputs]
  const float* bias = nullptr;
  void* out = nullptr;  // [rows, outputs]
  int inputs = 0, outputs = 0;
  Finish finish = Finish::none;
  const Live* live = nullptr;
  int max_rows = 0;  // `input` has room for so many
  // int8 operands, and bf16 out: what 1 stands for in a row of `input` and in a row of `weight`. Null: numbers.
  const float *row_scale = nullptr, *column_scale = nullptr;
};
void multiply(const Product& job, const Chip& chip, Stream stream);
void multiply_plainly(const Product& job, Stream stream);  // any shape, by plain loops
// With Hopper's tensor cores: bf16, inputs and outputs multiples of 8. `shape`: one of kShapes that fits, -1 = what
// suits the rows.
struct TileShape {
  int rows, columns;
};
inline constexpr TileShape kShapes[] = {{128, 256}, {128, 128}, {128, 64}, {64, 64}, {64, 32}, {128, 128}};
[[nodiscard]] bool tensor_cores_fit(const Product& job, const Chip& chip) noexcept;
void multiply_by_tensor_cores(const Product& job, const Chip& chip, int shape, Stream stream);

[[nodiscard]] bool int8_fits(int inputs, int outputs, const Chip& chip) noexcept;
void multiply_int8(const Product& job, const Chip& chip, int shape, Stream stream);

// Rows of bf16 as int8, each with a scale of its own. `columns` is a multiple of 16.
struct QuantizeJob {
  const void* rows = nullptr;
  int columns = 0;
  int8_t* out = nullptr;
  float* scale = nullptr;  // [rows]
  const Live* live = nullptr;
  int max_rows = 0;
};
void quantize(const QuantizeJob& job, Stream stream);

struct AttentionJob {
  Number number = Number::fp32;
  const void* qkv = nullptr;  // [rows, 3 hidden]: queries, keys, values
  int hidden = 0, heads = 0;
  void* out = nullptr;  // [rows, hidden]
  TextList list = {};
  Room room = {};
  int max_tokens = 0;       // of one text
  bool first_only = false;  // row 0 of each text is all that is wanted; some others are computed, too
};
void attend(const AttentionJob& job, Stream stream);
void attend_plainly(const AttentionJob& job, Stream stream);
void attend_by_tensor_cores(const AttentionJob& job, Stream stream);  // bf16, 32, 64 or 128 columns per head

// out = norm(a + b), row by row; `out` may be `b`.
struct AddNormJob {
  Number number = Number::fp32;
  const void *a = nullptr, *b = nullptr;
  void* out = nullptr;
  int columns = 0;
  Norm norm = {};
  const Live* live = nullptr;
  int max_rows = 0;
};
void add_norm(const AddNormJob& job, Stream stream);

// What a pooler reads where that is more than row 0 (runtime/formulas.h), as floats.
struct PoolJob {
  Number number = Number::fp32;
  const void* rows = nullptr;
  int columns = 0;
  PoolInput input = PoolInput::cls;
  const float* reader = nullptr;  // [columns]; null: none
  float* out = nullptr;           // [texts, columns], with a reader [texts, 2 columns]
  TextList list = {};
  int max_texts = 0, max_tokens = 0;
};
void pool(const PoolJob& job, Stream stream);

// What a text of a batch asks for.
struct SlotAsk {
  int policy = -1;  // in the batch's table; -1: none
  int stop = 0;     // the site where it leaves at the latest
  int every = 0;    // sees every exit, whatever its policy looks at
};
struct Affine {
  const float *weight = nullptr, *bias = nullptr;  // [outputs, inputs], [outputs]
  int inputs = 0, outputs = 0;
};
// An exit: pooler, classifier, the decision of every text, and the list of those that stay, in one kernel.
struct ExitJob {
  Number number = Number::fp32;
  int site = 0;
  bool ramp = false;              // compute the ramp's logits and decide nothing
  const void* rows = nullptr;     // the layer's rows, of which row 0 is read …
  const float* pooled = nullptr;  // … unless this has what to read: [texts, inputs]
  int inputs = 0;                 // of the pooler, or of the classifier without one
  int row_columns = 0;
  const void* pooler = nullptr;  // [width, inputs]; null: none
  const float* pooler_bias = nullptr;
  int width = 0;  // what the classifier reads
  Affine classifier = {}, inner = {}, lte = {};
  int sites = 0, outputs = 0;
  // Per text of the batch:
  const SlotAsk* asks = nullptr;
  const Policy* policies = nullptr;
  float* state = nullptr;  // [slots, state_floats]
  int state_floats = 0;
  float* logits = nullptr;       // [slots, sites, outputs]
  float* lte_scores = nullptr;   // [slots, sites]
  float* ramp_logits = nullptr;  // [slots, outputs]
  int* left = nullptr;           // [slots] the site where it left
  // Scratch:
  float* vectors = nullptr;     // [texts, width]
  float* hidden = nullptr;      // [texts, classifier.outputs], with an inner classifier
  int* leaves = nullptr;        // [texts]
  int* from = nullptr;          // [texts] where a text that stays was in the list before
  unsigned* arrived = nullptr;  // [texts / kExitTexts + 2] zeros before and after
  TextList before = {}, after = {};
  // A batch of one text whose host follows it: the same results in memory of the host, and how many exits were decided.
  struct Mirror {
    float *logits = nullptr, *lte_scores = nullptr, *ramp_logits = nullptr;
    int *left = nullptr, *decided = nullptr;
  };
  Mirror mirror = {};
  int max_texts = 0;
};
inline constexpr int kExitTexts = 8;  // share a pass over the pooler
void run_exit(const ExitJob& job, Stream stream);

// Copies the rows of the texts that stay to their new places.
struct CompactJob {
  const void* rows = nullptr;
  void* out = nullptr;
  size_t row_bytes = 0;
  const int* from = nullptr;
  TextList before = {}, after = {};
  int max_texts = 0;
};
void compact(const CompactJob& job, Stream stream);

// Row 0 of every text, of two arrays of rows, one below the other; and the list of texts of one row each.
struct TakeFirstJob {
  const void *a = nullptr, *b = nullptr;
  void *first_of_a = nullptr, *first_of_b = nullptr;
  size_t row_bytes = 0;
  TextList list = {}, firsts = {};  // the tiles of `firsts` are not made
  int max_texts = 0;
};
void take_first(const TakeFirstJob& job, Stream stream);

// Row 0 of every text, as floats: out[slot, columns] at `stride` floats per slot.
struct FirstRowsJob {
  Number number = Number::fp32;
  const void* rows = nullptr;
  int columns = 0;
  float* out = nullptr;
  size_t stride = 0;
  TextList list = {};
  int max_texts = 0;
};
void keep_first_rows(const FirstRowsJob& job, Stream stream);
// [count] numbers as floats.
void widen(Number number, const void* from, float* to, size_t count, Stream stream);
// [count] floats as numbers.
void narrow(Number number, const float* from, void* to, size_t count, Stream stream);

}  // namespace exeunt::cuda
