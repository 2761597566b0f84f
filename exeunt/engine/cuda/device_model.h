// SPDX-License-Identifier: Apache-2.0
// A model's weights in the memory of a GPU, once, for all batches.
#pragma once

#include <optional>
#include <vector>

#include "exeunt/engine/cuda/cuda_kernels.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt::cuda {

struct Matrix {
  const void* weight = nullptr;  // [outputs, inputs] in the model's number, or in int8 …
  const float* bias = nullptr;
  const float* scale = nullptr;  // … where this says what 1 stands for in each row
  int inputs = 0, outputs = 0;
};

struct LayerWeights {
  Matrix qkv = {}, output = {}, ffn1 = {}, ffn2 = {};
  Norm attention_norm = {}, ffn_norm = {};
};

class DeviceModel {
 public:
  // Throws Error: bad_file for a non-finite weight, resources if there is no memory or the GPU lacks a precision.
  DeviceModel(const Checkpoint& checkpoint, Precision precision, const Chip& chip, const Exceptions& exceptions = {});

  ModelSpec spec;
  ExitLayout exits;
  Precision precision;
  Chip chip;
  Number number;     // of activations, and of matrices that are not int8
  bool quantizes;    // some are
  int state_floats;  // of a text, whatever its policy

  const float *word = nullptr, *position = nullptr, *segment = nullptr;
  Norm embedding_norm = {};
  std::optional<Matrix> project = {};
  std::vector<LayerWeights> layers = {};  // distinct ones: spec.weights_of() says which a layer uses
  std::vector<const float*> readers = {};
  std::vector<Matrix> poolers = {};
  std::vector<ClassifierLayers> classifiers = {};
  Affine lte = {};
  const float* logit_thresholds = nullptr;  // as ExitLayout has them; null: none

  [[nodiscard]] const LayerWeights& layer(int index) const {
    return layers[static_cast<size_t>(spec.weights_of(index))];
  }
  // A product with one of the matrices; what it reads and writes is left open.
  [[nodiscard]] Product product(const Matrix& matrix) const;
  [[nodiscard]] size_t row_bytes() const { return count(spec.hidden) * bytes_of(number); }
  [[nodiscard]] size_t bytes() const noexcept { return memory_.size(); }

  // The first exit that the device evaluates: exit 0 is evaluated by the host, before a text comes here.
  [[nodiscard]] size_t first_site() const noexcept { return exits.ngrams ? 1 : 0; }
  // Whether the pooler of an exit is a product by tensor cores.
  [[nodiscard]] bool pools_by_product(const ExitSite& site) const;
  // Whether texts of any depth can share a batch: all layers have the same weights, and every exit reads row 0 alone.
  [[nodiscard]] bool mixes_depths() const;

 private:
  DeviceMemory memory_ = {}, logit_thresholds_ = {};
};

}  // namespace exeunt::cuda
