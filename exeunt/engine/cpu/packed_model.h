// SPDX-License-Identifier: Apache-2.0
// A model as the CPU engine runs it: every matrix packed for one table of kernels, everything in one region of memory.
// It does not keep the checkpoint, and releases its mapped pages while packing.
#pragma once

#include <optional>
#include <vector>

#include "exeunt/base/tensor.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cpu/region.h"
#include "exeunt/engine/ngram_exit.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/positions.h"

namespace exeunt {

struct PackOptions {
  Precision precision = Precision::fp32;
  Exceptions exceptions = {};
  int threads = 0;  // 0 = as many as the machine has
};

struct PackedNorm {
  const float *weight = nullptr, *bias = nullptr;  // [columns]; biases that a model lacks are zeros
};

// An embedding table, from which rows are only gathered, in the checkpoint's type.
struct PackedTable {
  DType dtype = DType::f32;  // f32, f16 or bf16
  const std::byte* data = nullptr;

  void add_row(size_t row, size_t columns, float* sum) const noexcept;  // sum[c] += table[row, c]
};

struct PackedLayer {
  PackedWeight query = {}, key_value = {};  // [d, d]; [2d, d], keys first
  PackedWeight output = {}, ffn1 = {}, ffn2 = {};
  std::optional<PackedWeight> gate = {};
  PackedNorm attention_norm = {}, ffn_norm = {};
  // DeBERTa: keys and queries of all distances, [2 · buckets, d / heads] of each head; keys from the last to the first.
  std::vector<PackedWeight> distance_keys = {}, distance_queries = {};
};

struct PackedPooler {
  PackedWeight map = {};
  PackedNorm norm = {};  // null: none
};

// A matrix that is applied to one row only and usually has few outputs: row-major, as in the checkpoint.
struct PlainWeight {
  int inputs = 0, outputs = 0;
  const float *weight = nullptr, *bias = nullptr;
};

struct PackedClassifier {
  PlainWeight outer = {};
  std::optional<PlainWeight> inner = {};
};

// Rows of queries that attention with a bias takes at once. Blocks begin at multiples of it in every text, so that a
// result does not depend on how the work is split.
inline constexpr int kAttentionBlock = 64;

class PackedModel {
 public:
  // Throws Error: bad_file for a non-finite weight (with the tensor's name), resources for a precision the table lacks,
  // usage for an exception that names no matrix of the model.
  PackedModel(const Checkpoint& checkpoint, const Kernels& kernels, const PackOptions& options);

  ModelSpec spec;
  ExitLayout exits;
  const Kernels* kernels;
  Precision precision;
  Precision attention;  // below fp32: bf16 if the table supports it, else fp32
  Precision heads;      // below fp32: bf16 if the table supports it; of poolers unless an exception names them;
                        // classifiers are always fp32

  PackedTable word = {}, position = {}, segment = {};  // null data: no such table
  PackedNorm embedding_norm = {};
  std::optional<PackedWeight> project = {};
  std::vector<PackedLayer> layers = {};  // distinct ones: spec.weights_of() says which a layer uses
  PackedNorm final_norm = {};            // null: none
  std::optional<Rotation> rotation = {}, local_rotation = {};
  // The row of the table of distances for a query d tokens behind its key, at place d + max_tokens − 1.
  std::vector<int> distance_rows = {};
  int straight_distance = 0;  // up to here, to either side, each distance has a row of its own, in order
  std::vector<const float*> readers = {};
  std::vector<PackedPooler> poolers = {};
  std::vector<PackedClassifier> classifiers = {};
  std::optional<PlainWeight> lte = {};
  std::optional<NgramExit> ngrams = {};  // exit 0

  [[nodiscard]] const PackedLayer& layer(int index) const {
    return layers[static_cast<size_t>(spec.weights_of(index))];
  }
  // A norm as the kernel runs it; the rows and what comes next are left open.
  [[nodiscard]] Normalization normalization(const PackedNorm& norm, int columns) const {
    return {.stride = static_cast<size_t>(columns),
            .columns = columns,
            .weight = norm.weight,
            .bias = norm.bias,
            .epsilon = spec.norm_eps};
  }
  [[nodiscard]] size_t bytes() const noexcept { return region_.size(); }

 private:
  Region region_ = {};
};

}  // namespace exeunt
