// SPDX-License-Identifier: Apache-2.0
// The one table of encoder families, families.json: what each computes, and how its configuration and its tensors are
// named.
// Everything else reads the features in ModelSpec or the names in a row; no other file asks which family a model is of.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/model/spec.h"

namespace exeunt {

// Names of one layer's tensors in transformers' files: "{before}3{behind}{query}.weight". Equal names are parts of one
// tensor, one below the other: ModernBERT's query, key and value.
struct LayerNames {
  std::string_view before, behind, query, key, value, output, attention_norm, ffn1, gate = {}, ffn2, ffn_norm;

  [[nodiscard]] std::string of(int layer, std::string_view part) const;
};

struct EmbeddingNames {
  std::string_view word = "embeddings.word_embeddings", norm = "embeddings.LayerNorm", projection = {};
  bool projected_if_needed = false;                    // ELECTRA: only where the sizes differ
  std::string_view relative = {}, relative_norm = {};  // DeBERTa's table of distances
};

// Names of fields in config.json. Without a name, the value is always the row's.
struct FieldNames {
  std::string_view hidden = "hidden_size", layers = "num_hidden_layers", heads = "num_attention_heads",
                   inner = "intermediate_size", segments = "type_vocab_size", norm_eps = "layer_norm_eps",
                   activation = "hidden_act", hidden_dropout = "hidden_dropout_prob",
                   attention_dropout = "attention_probs_dropout_prob", classifier_dropout = "classifier_dropout";
};

// transformers' sequence classifier, where it is not the pretrained pooler and "classifier".
struct HeadNames {
  std::string_view pooler = {}, norm = {}, classifier = {};
};

struct FamilyRow {
  std::string_view name = {};        // model_type
  std::string_view prefix = {};      // of its tensors, followed by a dot
  std::string_view class_name = {};  // how transformers' classes begin; empty where exported_as is another
  // The features of the backbone, and what transformers assumes for fields that config.json does not have.
  // embedding_projection: reads `embedding_size`; groups: `num_hidden_groups`; position_offset: pad_id + 1.
  ModelSpec spec = {};
  FieldNames fields = {};
  std::optional<float> classifier_dropout_absent = {};  // what it then is; nothing: the hidden dropout
  Family exported_as = {};                              // the family transformers is to take it for
  // The family it becomes when pretraining gives every layer a pooler; nothing: it keeps its one pooler.
  std::optional<Family> with_layer_poolers = {};
  bool swaps_mnli_labels =
      false;  // GLUE's scripts exchanged neutral and entailment, as its published classifier has them
  // Files without `model_type` tell their family by the name of the configuration, a field in it, or a tensor.
  std::string_view config_file = {};
  std::span<const std::string_view> telling_fields = {};
  std::string_view telling_tensor = {};
  LayerNames layer = {};
  EmbeddingNames embeddings = {};
  std::string_view final_norm = {};
  std::span<const std::string_view> poolers = {};  // the pretrained pooler, transformers' name first
  HeadNames head = {};
  PoolerShape pooler = {};                // of that head
  std::string_view head_activation = {};  // the field that names its activation; empty: it is always the row's
  bool pools_mean = false;                // `classifier_pooling` says whether it reads row 0 or the mean of all rows
};

[[nodiscard]] std::span<const FamilyRow> families() noexcept;
[[nodiscard]] const FamilyRow& row_of(Family family) noexcept;

// The family of the last row for which `is` holds: special families follow the plain ones they resemble.
template <class Is>
std::optional<Family> find_family(Is is) {
  const std::span rows = families();
  const auto found = std::find_if(rows.rbegin(), rows.rend(), is);
  if (found != rows.rend()) return found->spec.family;
  return std::nullopt;
}

// Shapes of well-known models by name, for `info` and `bench`.
struct KnownShape {
  std::string_view name;
  ModelSpec spec;
};

[[nodiscard]] std::span<const KnownShape> known_shapes() noexcept;

// Throws Error (usage) that suggests the nearest name.
[[nodiscard]] const KnownShape& find_shape(std::string_view name);

}  // namespace exeunt
