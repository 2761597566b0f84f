// SPDX-License-Identifier: Apache-2.0
// The one table of encoder families: what each computes, and how its configuration and its tensors are named.
// Everything else reads the features in ModelSpec or the names in a row; no other file asks which family a model is of.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "exeunt/model/spec.h"

namespace exeunt {

// Names of one layer's tensors in transformers' files: "{before}3{behind}{query}.weight".
struct LayerNames {
  std::string_view before, behind, query, key, value, output, attention_norm, ffn1, ffn2, ffn_norm;

  [[nodiscard]] std::string of(int layer, std::string_view part) const;
};

struct FamilyRow {
  std::string_view name;             // model_type; followed by a dot, the prefix of its tensors
  std::string_view class_name = {};  // how transformers' classes begin; empty where exported_as is another
  // The features of the backbone, and what transformers assumes for fields that config.json does not have.
  // embedding_projection: reads `embedding_size`; groups: `num_hidden_groups`; position_offset: pad_id + 1.
  ModelSpec spec;
  std::string_view classifier_dropout = "classifier_dropout";  // the field's name
  std::optional<double> classifier_dropout_absent = {};        // what it then is; nothing: the hidden dropout
  Family exported_as;                                          // the family transformers is to take it for
  // Files without `model_type` tell their family by the name of the configuration, a field in it, or a tensor.
  std::string_view config_file = {};
  std::span<const std::string_view> telling_fields = {};
  std::string_view telling_tensor = {};
  const LayerNames& layer;
  std::string_view embedding_projection = {};
  std::span<const std::string_view> poolers;  // the pretrained pooler, transformers' name first
  // transformers' sequence classifier, if its names differ from the pretrained pooler's and "classifier".
  std::string_view head_pooler = {}, head_classifier = {};
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

}  // namespace exeunt
