// SPDX-License-Identifier: Apache-2.0
// Small models with random weights, for tests that hold for any weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "exeunt/model/checkpoint.h"
#include "exeunt/model/family.h"
#include "exeunt/model/schema.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

inline ModelSpec small_spec(Family family = Family::bert) {
  ModelSpec spec = row_of(family).spec;
  spec.layers = 3;
  spec.hidden = spec.embedding = 12;
  spec.heads = 3;
  spec.inner = 20;
  spec.vocab = 30;
  spec.positions = 24;
  if (spec.position_offset > 0) spec.segments = 1;
  if (spec.embedding_projection) spec.embedding = 7;
  spec.pad_id = std::min(spec.pad_id, 1);
  if (spec.window > 0) {
    spec.window = 3;
    spec.global_every = 2;
  }
  if (spec.relative_buckets > 0) {
    spec.relative_buckets = 8;
    spec.relative_distance = spec.positions;
  }
  spec.hidden_dropout = spec.attention_dropout = 0.1F;
  return spec;
}

// A pooler and a classifier of its own behind every layer.
inline ExitLayout own_exits(const ModelSpec& spec, int outputs = 3) {
  ExitLayout layout;
  layout.outputs = outputs;
  for (int c = 0; c < outputs; ++c) layout.labels.push_back("label" + std::to_string(c));
  layout.width = spec.hidden;
  layout.pooler = row_of(spec.family).pooler;
  for (int i = 0; i < spec.layers; ++i) layout.sites.push_back({.after = i + 1, .pooler = i, .classifier = i});
  return layout;
}

// Weights by our names; missing ones are drawn. Large enough that attention and activations are far from linear.
using Values = std::map<std::string, std::vector<float>>;
inline Checkpoint make_model(const ModelSpec& spec, const ExitLayout& layout, const Values& given = {},
                             uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  TensorSet set;
  for (const TensorInfo& info : schema(spec, layout)) {
    size_t count = 1;
    for (const int64_t side : info.shape) count *= static_cast<size_t>(side);
    auto values = std::make_shared<std::vector<float>>(count);
    const bool embedding = info.name.find("embeddings.") == 0 || info.name == "relative.weight",
               gain = info.name.find("norm.weight") != std::string::npos;
    const float scale = info.shape.size() == 1 ? 0.2F
                        : embedding            ? 1.0F
                                               : 1.0F / std::sqrt(static_cast<float>(info.shape[1]));
    for (float& value : *values) value = (gain ? 1.0F : 0.0F) + scale * normal(random);
    if (const auto found = given.find(info.name); found != given.end()) *values = found->second;
    set.tensors[info.name] = {
        .dtype = DType::f32, .shape = info.shape, .strides = {}, .bytes = std::as_bytes(std::span(*values))};
    set.owners.push_back(values);
  }
  return {spec, layout, std::move(set)};
}

inline Encoding random_text(const ModelSpec& spec, int length, uint32_t seed = 1) {
  std::mt19937 random(seed);
  Encoding text;
  for (int t = 0; t < length; ++t) {
    text.ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(spec.vocab)));
    text.types.push_back(static_cast<uint8_t>(t > length / 2 && spec.segments > 1));
    text.offsets.emplace_back(0, 0);
  }
  return text;
}

}  // namespace exeunt
