// SPDX-License-Identifier: Apache-2.0
// Every tensor of a model: our name, its shape, whether it is required, and its names in other systems.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/base/tensor.h"
#include "exeunt/model/spec.h"

namespace exeunt {

struct TensorInfo {
  std::string name = {};
  std::vector<int64_t> shape = {};
  bool required = true;
  std::vector<std::string> aliases = {};  // in other systems' files, prefix (bert., roberta., …) stripped
  // There it is rows [first_row, first_row + shape[0]) of a tensor of `of_rows` rows; 0: the whole one.
  int64_t first_row = 0, of_rows = 0;
  std::optional<DType> dtype = {};  // the only one it may have; none: F32, F16 or BF16
};

// Our names, d = hidden, e = embedding, f = inner, w = exit width:
//   embeddings.{word[V,e],position[P,e],segment[S,e]}.weight   embeddings.norm.{weight,bias}[e]
//   embeddings.project.{weight[d,e],bias[d]}                    (ALBERT, ELECTRA)
//   relative.weight[2B,d]  relative.norm.{weight,bias}[d]       (DeBERTa: distances in 2B buckets)
//   layer.{i}.{query,key,value,output}.{weight[d,d],bias[d]}    layer.{i}.attention_norm.{weight,bias}[d]
//   layer.{i}.ffn1.{weight[f,d],bias[f]}  layer.{i}.ffn2.{weight[d,f],bias[d]}  layer.{i}.ffn_norm.{weight,bias}[d]
//   layer.{i}.gate.weight[f,d]  final_norm.weight[d]            (ModernBERT, whose matrices and norms have no biases)
//   (ALBERT: group.{g}.… instead of layer.{i}.…; i and g from 0)
//   pooler.{weight[d,d],bias[d]} or, one per layer, pooler.{i}.…: the pretrained ones, optional
//   exits.reader.{r}.weight[d]  exits.pooler.{p}.{weight[w, d or 2d],bias[w]}  exits.pooler.{p}.norm.weight[w]
//   exits.classifier.{c}.{weight,bias}  exits.classifier.{c}.inner.{weight,bias}  exits.lte.{weight[1,w],bias[1]}
//   exits.ngrams.table[2^bits, rank] exits.ngrams.output[C, rank] (where rank < C) exits.ngrams.bias[C]
//   exits.ngrams.pieces[bytes] exits.ngrams.begins[V + 1]       (exit 0: engine/ngram_exit.h)
//   With `inner` (fc2) the classifier is [inner, w] and its inner is [C, inner], tanh between; else it is [C, w].
[[nodiscard]] std::vector<TensorInfo> schema(const ModelSpec& spec, const ExitLayout& exits);

// "layer.3" or, with shared weights, "group.0": the prefix of a layer's tensors. `index` from 0.
[[nodiscard]] std::string layer_prefix(const ModelSpec& spec, int index);

}  // namespace exeunt
