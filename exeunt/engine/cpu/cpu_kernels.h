// SPDX-License-Identifier: Apache-2.0
// The kernels of the CPU engine: one table of functions per instruction set, all with the same semantics. A table is
// selected once at start-up (choose_kernels); data packed by a table can be used only with that table.
//
// The invariant of every table, in each precision: a row of a result depends only on that row of the input and on the
// weights, bit for bit, never on the number of other rows, on its position, or on how the work was split into parts. So
// the inner dimension is never split, and each output has one order of additions.
//
// Rows are row-major fp32 without padding between texts. What a product reads (Operand) and its weights (PackedWeight)
// are in a layout private to the table. All buffers are aligned to kKernelAlignment bytes; the table says how large
// they must be, and nothing here allocates. Uninitialised values (rows not yet written, padding) never reach a result,
// so buffers need not be cleared.
//
// int8, in every table: the scale of a row of the input and of an output's weights is its largest |value| / 127, a
// value becomes round(value · 127 / largest), ties to even, and y = sum · (row scale · output scale) + bias.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/engine/precision.h"
#include "exeunt/model/spec.h"

namespace exeunt {

inline constexpr size_t kKernelAlignment = 64;

// W [outputs, inputs] and b [outputs] of y = W x + b.
struct PackedWeight {
  Precision precision = Precision::fp32;
  int inputs = 0, outputs = 0;
  const std::byte* data = nullptr;  // packed_bytes() of them, including scales and bias
};

// The left operand of a product: rows rounded (bf16) or quantised with a scale per row (int8), or plain (fp32).
struct Operand {
  Precision precision = Precision::fp32;
  int rows = 0, columns = 0;  // `rows` is what the buffer was sized for
  std::byte* data = nullptr;
};

enum class Finish : uint8_t {
  store,          // out[r, c] = y
  add,            // out[r, c] += y: the residual stream
  activate,       // out[r, c] = activation(y), for a next product in int8, whose scale needs the whole row first
  store_bf16,     // the same as `store`, rounded to bf16, for attention
  activate_next,  // activation(y) directly into the Operand `next` (fp32 or bf16)
  gate,           // out[r, c] *= y: of a gated activation, whose activated half is there
  gate_next,      // out[r, c] · y directly into the Operand `next` (fp32 or bf16)
};

// One part of y = x Wᵀ + b: rows [row, row + rows) and panels [panel, panel + panels) of the weight's outputs.
struct Product {
  const PackedWeight* weight = nullptr;
  Operand input = {};
  Finish finish = Finish::store;
  Activation activation = Activation::gelu;
  void* out = nullptr;  // float or bf16 (uint16_t) rows, from row 0 and column 0 of the whole product
  size_t stride = 0;    // of `out`, in elements
  Operand next = {};
  int row = 0, rows = 0, panel = 0, panels = 0;
};

// Rows [row, row + rows): out = (x − mean) / √(variance + ε) · weight + bias in place, then as an operand into `next`.
struct Normalization {
  float* data = nullptr;
  size_t stride = 0;
  const float* from = nullptr;  // rows that stay as they are, `stride` apart: then `data` is scratch for one row
  int columns = 0;
  const float *weight = nullptr, *bias = nullptr;
  float epsilon = 0;
  Operand next = {};  // null data: none
  int row = 0, rows = 0;
};

// Attention of one text, heads [head, head + heads), for the queries [row, row + rows) over all `tokens` keys:
// context[r, h·d …] = softmax((q_r · k_t + bias) · scale) v. fp32 reads float, bf16 reads bf16 rows
// (Finish::store_bf16).
struct Attention {
  Precision precision = Precision::fp32;                          // fp32 or bf16
  const void *query = nullptr, *key = nullptr, *value = nullptr;  // [tokens, stride], each from its own column 0
  size_t stride = 0;                                              // in elements, of all three
  int head_width = 0, tokens = 0;
  float scale = 0;              // 0: 1 / √d
  const float* bias = nullptr;  // [rows, tokens] from row `row` on, the same for all heads; null: none
  size_t bias_stride = 0;
  int window = 0;            // queries see the keys that are up to this far to either side; 0: all of them
  int first_key = 0;         // the row of the first key, where keys further to the front are left out
  float* context = nullptr;  // fp32 rows; null: directly into `next`
  size_t context_stride = 0;
  Operand next = {};
  int next_row = 0;  // the row of `next` at which this text begins
  int head = 0, heads = 0, row = 0, rows = 0;
  std::byte* scratch = nullptr;  // attention_scratch() bytes, private to this thread
};

// Rotary positions of one row (formulas.h): in each head of 2 · pairs columns, values i and i + pairs are turned.
struct RotaryCall {
  Precision precision = Precision::fp32;  // fp32 or bf16
  void* row = nullptr;                    // [columns] in that precision, in place
  int columns = 0, pairs = 0;
  const float *cosine = nullptr, *sine = nullptr;  // [pairs], of the row's position
};

// What distances add to the scores of a block of queries of one head (DeBERTa). Query r is at position `first` + r:
// bias[r, t] = of_query[r, places − 1 − place[d]] + of_key[t, place[d]] with the distance d = first + r − t.
struct DistanceCall {
  const float *of_query = nullptr,
              *of_key = nullptr;  // [rows, stride] from the last place to the first, [tokens, stride]
  size_t stride = 0;
  const int* place = nullptr;  // by distance, which may be below zero
  int places = 0;
  int straight = 0;       // place[d] = place[0] + d up to this distance to either side
  float* bias = nullptr;  // [rows, bias_stride]
  size_t bias_stride = 0;
  int first = 0, rows = 0, tokens = 0;
};

// A reader: out = Σ_t a_t h_t with a = softmax_t(h_t · query), over all rows.
struct ReaderCall {
  const float* rows = nullptr;
  size_t stride = 0;
  int tokens = 0, columns = 0;
  const float* query = nullptr;
  float* scores = nullptr;  // [tokens], scratch
  float* out = nullptr;     // [columns]
};

// The score of a key that is not seen: its share of the sum vanishes in every precision.
inline constexpr float kHidden = -1e30F;

struct Kernels {
  std::string_view name;  // "generic", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx", "neon", …
  bool (*runs_on)(const CpuFeatures&);
  bool (*prepare)();  // requests permission from the operating system if needed (AMX); false: denied
  bool bf16 = false;  // fp32 and int8 are in every table; a table without bf16 has no store_bf16 and no bf16 attention

  // Granularity for splitting a product: outputs per panel, and the row count that parts should be multiples of.
  int (*panel_outputs)(Precision);
  int (*row_block)(Precision);

  size_t (*packed_bytes)(Precision, int inputs, int outputs);
  // `weight` [outputs, inputs] and `bias` [outputs] in fp32.
  void (*pack_weight)(const PackedWeight& shape, const float* weight, const float* bias, std::byte* out);

  size_t (*operand_bytes)(Precision, int rows, int columns);
  // Rows [row, row + rows) of [operand.rows, columns] fp32 rows, rounded or quantised into the operand.
  void (*pack_rows)(const float* data, size_t stride, const Operand& out, int row, int rows);
  // Rows that are bf16 already, into an operand in bf16. Null in a table without bf16.
  void (*pack_bf16_rows)(const uint16_t* data, size_t stride, const Operand& out, int row, int rows);

  void (*multiply)(const Product&);
  void (*normalize)(const Normalization&);
  size_t (*attention_scratch)(Precision, int tokens, int head_width);
  void (*attend)(const Attention&);
  void (*rotate)(const RotaryCall&);
  void (*add_distances)(const DistanceCall&);
  void (*read)(const ReaderCall&);

  // For the heads, which read one row: Σ a_i b_i, and tanh in place with an error of at most 3e-7.
  float (*dot)(const float* a, const float* b, int n);
  void (*tanh)(float* values, int n);
};

[[nodiscard]] constexpr int panels_of(const Kernels& kernels, const PackedWeight& weight) {
  const int width = kernels.panel_outputs(weight.precision);
  return (weight.outputs + width - 1) / width;
}

// The kernel tables, one per source file. CMakeLists.txt selects those of a build.
namespace kernel {
extern const Kernels kGeneric;
extern const Kernels kAvx2, kAvx512, kAvx512Vnni, kAvx512Bf16, kAmx;  // x86-64
extern const Kernels kNeon, kNeonBf16I8mm;                            // aarch64

// The int8 products of kNeon. Both read the same layout and give the same bits.
void multiply_dot(const Product& product);       // by sdot, for processors with dotprod
void multiply_widening(const Product& product);  // by smull and pairwise additions, for all
}  // namespace kernel

// All tables of this build, the most basic first.
[[nodiscard]] const std::vector<const Kernels*>& all_kernels();

// The best table this processor runs, or the one EXEUNT_ISA names. Throws Error: usage for an unknown name
// (suggesting the nearest), resources for one this processor lacks.
[[nodiscard]] const Kernels& choose_kernels();
[[nodiscard]] const Kernels& kernels_named(std::string_view name, std::string_view where = "kernels");

}  // namespace exeunt
