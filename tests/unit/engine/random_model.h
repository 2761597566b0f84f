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

#include "exeunt/base/half.h"
#include "exeunt/engine/ngram_exit.h"
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

// Tokens of two letters, every second one the beginning of a word; the first is special.
inline TokenPieces small_pieces(int vocabulary) {
  TokenPieces pieces{.bytes = {}, .begins = {0, 0}};
  for (int id = 1; id < vocabulary; ++id) {
    const std::string text = (id % 2 == 0 ? " " : "") + std::string{static_cast<char>('a' + id % 26), 'x'};
    pieces.bytes.insert(pieces.bytes.end(), text.begin(), text.end());
    pieces.begins.push_back(static_cast<int32_t>(pieces.bytes.size()));
  }
  return pieces;
}

// With an exit before the first layer.
inline ExitLayout with_exit_0(const ModelSpec& spec, ExitLayout layout, int bits = 6, int rank = 1) {
  layout.sites.insert(layout.sites.begin(), ExitSite{.after = 0, .classifier = kNoClassifier});
  layout.ngrams = NgramShape{
      .bits = bits, .rank = rank, .piece_bytes = static_cast<int64_t>(small_pieces(spec.vocab).bytes.size())};
  return layout;
}

template <class Value>
void put_values(TensorSet& set, const TensorInfo& info, std::vector<Value> values) {
  const auto own = std::make_shared<const std::vector<Value>>(std::move(values));
  set.tensors[info.name] = view_of(info.dtype.value_or(DType::f32), *own, info.shape);
  set.owners.push_back(own);
}

// Weights by our names; missing ones are drawn. Large enough that attention and activations are far from linear.
using Values = std::map<std::string, std::vector<float>>;
inline Checkpoint make_model(const ModelSpec& spec, const ExitLayout& layout, const Values& given = {},
                             uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  TensorSet set;
  for (const TensorInfo& info : schema(spec, layout)) {
    if (info.dtype == DType::u8) {
      put_values(set, info, small_pieces(spec.vocab).bytes);
      continue;
    }
    if (info.dtype == DType::i32) {
      put_values(set, info, small_pieces(spec.vocab).begins);
      continue;
    }
    size_t count = 1;
    for (const int64_t side : info.shape) count *= static_cast<size_t>(side);
    std::vector<float> values(count);
    const bool embedding = info.name.find("embeddings.") == 0 || info.name == "relative.weight",
               gain = info.name.find("norm.weight") != std::string::npos;
    const float scale = info.shape.size() == 1 ? 0.2F
                        : embedding            ? 1.0F
                                               : 1.0F / std::sqrt(static_cast<float>(info.shape[1]));
    for (float& value : values) value = (gain ? 1.0F : 0.0F) + scale * normal(random);
    if (const auto found = given.find(info.name); found != given.end()) values = found->second;
    if (info.dtype == DType::bf16) {
      std::vector<uint16_t> bits(count);
      std::ranges::transform(values, bits.begin(), float_to_bf16);
      put_values(set, info, std::move(bits));
    } else {
      put_values(set, info, std::move(values));
    }
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
