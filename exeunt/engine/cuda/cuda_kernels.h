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

#include "exeunt/engine/cuda/gpu_resources.h"
#include "exeunt/model/spec.h"
#include "exeunt/policy/policy.h"

namespace exeunt::cuda {

enum class Number : uint8_t { fp32, bf16 };  // of activations and of the weights of matrices
[[nodiscard]] constexpr size_t bytes_of(Number number) noexcept {
  return number == Number::fp32 ? 4 : 2;
}
[[nodiscard]] constexpr size_t count(int n) noexcept {
  return static_cast<size_t>(n);
}

inline constexpr size_t kPartAlignment = 256;  // of arrays on the device, as kernels and copy engines want it

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
struct Capacity {
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
enum class Finish : uint8_t { none, gelu, gelu_new, relu, tanh };
struct Product {
  Number number = Number::fp32;
  const void *input = nullptr, *weight = nullptr;  // [rows, inputs], [outputs, inputs]
  const float* bias = nullptr;
  void* out = nullptr;  // [rows, outputs]
  int inputs = 0, outputs = 0;
  Finish finish = Finish::none;
  const Live* live = nullptr;
  int max_rows = 0;       // `input` has room for so many
  float* wide = nullptr;  // instead of `out`: the outputs as floats; by tensor cores alone, and not from int8
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
// The last two: two warpgroups take turns with tiles; four blocks share the inputs of a tile.
inline constexpr TileShape kShapes[] = {{128, 256}, {128, 128}, {128, 64},  {64, 64},
                                        {64, 32},   {128, 128}, {128, 128}, {64, 32}};
inline constexpr int kAlternatingShape = 6, kSplitShape = 7;
// Whether a product can have a shape.
[[nodiscard]] bool shape_fits(const Product& job, int shape) noexcept;
// In how many chains the inputs of a product are summed.
[[nodiscard]] int chains_of(const Product& job) noexcept;
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
  Capacity capacity = {};
  int max_tokens = 0;       // of one text
  bool first_only = false;  // row 0 of each text is all that is wanted; some others are computed, too
  int processors = 132;     // of the GPU
};
void attend(const AttentionJob& job, Stream stream);
void attend_plainly(const AttentionJob& job, Stream stream);
void attend_by_tensor_cores(const AttentionJob& job, Stream stream);  // bf16, 32, 64 or 128 columns per head

// out = norm(a + b), row by row; `out` may be `b`. bf16 of up to 2048 columns, a multiple of 16: also as quantize()
// would make int8 of it, if asked.
struct AddNormJob {
  Number number = Number::fp32;
  const void *a = nullptr, *b = nullptr;
  void* out = nullptr;
  int columns = 0;
  Norm norm = {};
  const Live* live = nullptr;
  int max_rows = 0;
  int8_t* quantized = nullptr;
  float* scale = nullptr;  // [rows]
};
void add_norm(const AddNormJob& job, Stream stream);

// Row 0 of every text, one below the other: norm(a + b), or without `a` the row of `b` as it is. `first_live` is how
// many, for a product of them.
struct FirstNormJob {
  AddNormJob rows = {};  // `live` and `max_rows` are not used
  TextList list = {};
  Live* first_live = nullptr;  // null: not wanted
  const int* place = nullptr;  // where a text's row goes, or -1; null: in the order of the list
  int max_texts = 0;
};
void norm_first_rows(const FirstNormJob& job, Stream stream);

// norm(a + b) of the rows of texts that stay, at their new places in `out`, which is another array: so moving them
// takes no pass of its own.
struct MoveNormJob {
  AddNormJob rows = {};  // `live` and `max_rows` are not used
  const int* from = nullptr;
  TextList before = {}, after = {};
  Capacity capacity = {};
};
void norm_and_move(const MoveNormJob& job, Stream stream);

// What a pooler reads where that is more than row 0 (engine/formulas.h), as floats.
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
  int policy = -1;    // in the batch's table; -1: none
  int stop = 0;       // the site where it leaves at the latest
  int all_exits = 0;  // evaluates every exit, whatever its policy needs
};
struct Affine {
  const float *weight = nullptr, *bias = nullptr;  // [outputs, inputs], [outputs]
  int inputs = 0, outputs = 0;
};
struct ClassifierLayers {
  Affine outer = {}, inner = {};
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
  int* exit_site = nullptr;      // [slots] where it left
  // Scratch:
  float* vectors = nullptr;     // [texts, width]
  float* hidden = nullptr;      // [texts, classifier.outputs], with an inner classifier
  int* leaves = nullptr;        // [texts]
  int* from = nullptr;          // [texts] where a text that stays was in the list before
  unsigned* arrived = nullptr;  // [texts / kExitTexts + 2] zeros before and after
  TextList before = {}, after = {};
  // A batch of one text that the host polls: the same results in host memory, and how many exits were decided.
  struct Mirror {
    float *logits = nullptr, *lte_scores = nullptr, *ramp_logits = nullptr;
    int *exit_site = nullptr, *decided = nullptr;
  };
  Mirror mirror = {};
  int max_texts = 0;
};
inline constexpr int kExitTexts = 8;  // share a pass over the pooler
void run_exit(const ExitJob& job, Stream stream);

// A batch whose texts are at different depths, because texts join it before every layer (continuous_batch.h). What
// belongs to a text lies at its slot. Texts that joined earlier are deeper, and come first in the list.
struct JoinJob {
  TextList list = {};  // gets the texts of `fresh`, behind those it has
  TextList fresh = {};
  const SlotAsk* fresh_asks = nullptr;
  const float* fresh_states = nullptr;  // [texts of `fresh`, state_floats]; null: all zero
  SlotAsk* asks = nullptr;              // [slots] like the next four
  int* depth = nullptr;                 // layers that a text has passed
  int* exit_site = nullptr;
  float* state = nullptr;
  int state_floats = 0;
  int* first_row = nullptr;  // where the rows of `fresh` go
};
void join(const JoinJob& job, Stream stream);
// [live rows] rows to those that begin at `first_row`.
struct AppendJob {
  const void* from = nullptr;
  void* rows = nullptr;
  size_t row_bytes = 0;  // a multiple of 16
  const Live* live = nullptr;
  const int* first_row = nullptr;
  int max_rows = 0;
};
void append(const AppendJob& job, Stream stream);
// After a layer: every text is one deeper. Those that evaluate an exit are grouped by its site, `stride` places each.
struct GroupJob {
  TextList list = {};
  const SlotAsk* asks = nullptr;
  const Policy* policies = nullptr;
  int* depth = nullptr;
  const int* site_after = nullptr;  // [layers + 1] the exit after so many layers, or -1
  int sites = 0, stride = 0;
  int *place = nullptr, *site = nullptr;  // [texts] place = site * stride + …, or -1: no exit
  Live* live = nullptr;                   // [sites] how many texts
};
void group_by_site(const GroupJob& job, Stream stream);
inline constexpr int kMaxGroupedSites = 64;
// run_exit() for texts at different exits, whose vectors are made: exit.pooled is [sites, stride, inputs].
struct GroupedExitJob {
  ExitJob exit = {};                        // `site`, `classifier`, `inner` and `pooler` are not used
  const ClassifierLayers* exits = nullptr;  // [sites]
  const int *place = nullptr, *site = nullptr;
};
void run_grouped_exit(const GroupedExitJob& job, Stream stream);

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
  TextList list = {}, first_rows = {};  // the tiles of `first_rows` are not made
  int max_texts = 0;
};
void take_first(const TakeFirstJob& job, Stream stream);

// [count] numbers as floats.
void widen(Number number, const void* from, float* to, size_t count, Stream stream);
// [count] floats as numbers.
void narrow(Number number, const float* from, void* to, size_t count, Stream stream);

}  // namespace exeunt::cuda
