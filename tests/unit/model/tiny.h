// SPDX-License-Identifier: Apache-2.0
// Tiny random models of every family and head layout, made in memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "exeunt/base/half.h"
#include "exeunt/base/tensor.h"
#include "exeunt/model/family.h"
#include "exeunt/model/schema.h"
#include "exeunt/model/spec.h"
#include "tests/fixtures/float_to_fp16.h"

namespace exeunt::tiny {

inline ModelSpec spec(Family family, int layers = 4) {
  ModelSpec spec = row_of(family).spec;
  spec.layers = layers;
  spec.hidden = 8;
  spec.heads = 2;
  spec.inner = 12;
  spec.vocab = 11;
  spec.positions = 10;
  spec.embedding = spec.embedding_projection ? 4 : spec.hidden;
  spec.pad_id = std::min(spec.pad_id, 1);
  if (spec.window > 0) spec.window = 2;
  if (spec.relative_buckets > 0) {
    spec.relative_buckets = 4;
    spec.relative_distance = spec.positions;
  }
  if (spec.position_offset > 0) {
    spec.segments = 1;
    spec.norm_eps = 1e-5F;
  }
  return spec;
}

// A classification into three labels at every layer; `with` sets each site's parts from its index.
template <class With>
ExitLayout layout(const ModelSpec& spec, With with) {
  ExitLayout exits{{.labels = {"no", "maybe", "yes"}}, 3};
  exits.width = spec.hidden;
  exits.pooler = row_of(spec.family).pooler;
  for (int i = 0; i < spec.layers; ++i) {
    ExitSite site{.after = i + 1};
    with(site, i);
    exits.sites.push_back(site);
  }
  return exits;
}

inline ExitLayout own_heads(const ModelSpec& spec) {
  return layout(spec, [](ExitSite& site, int i) { site.pooler = site.classifier = i; });
}
inline ExitLayout shared_pooler(const ModelSpec& spec) {
  return layout(spec, [](ExitSite& site, int i) { site.pooler = 0, site.classifier = i; });
}
inline ExitLayout shared_head(const ModelSpec& spec) {
  return layout(spec, [](ExitSite& site, int) { site.pooler = 0; });
}
inline ExitLayout raw_heads(const ModelSpec& spec) {
  return layout(spec, [](ExitSite& site, int i) { site.classifier = i; });
}
inline ExitLayout readers(const ModelSpec& spec) {
  return layout(spec, [](ExitSite& site, int i) { site.reader = site.pooler = site.classifier = i; });
}
// A reader at every exit but the last, and what else a layout can hold: fc2, lte, a ramp, another width.
inline ExitLayout everything(const ModelSpec& spec) {
  ExitLayout exits = readers(spec);
  exits.sites.back().reader.reset();
  exits.last_ramp = ExitLayout::Ramp{spec.layers, spec.layers};
  exits.width = 6;
  exits.inner = 5;
  exits.lte = true;
  exits.input = PoolInput::cls_mean;
  return exits;
}
inline ExitLayout regression(const ModelSpec& spec) {
  ExitLayout exits = own_heads(spec);
  exits.problem = Problem::regression;
  exits.outputs = 1;
  exits.labels.clear();
  exits.range = {0.0, 5.0};
  return exits;
}

// A tensor of N(0, 1) values in the given type, its bytes owned by the set.
inline void add_random(TensorSet& set, std::mt19937& random, const std::string& name, std::vector<int64_t> shape,
                       DType dtype = DType::f32) {
  TensorView view{.dtype = dtype, .shape = std::move(shape), .strides = {}, .bytes = {}};
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(view.elements()) * size_of(dtype));
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < static_cast<size_t>(view.elements()); ++i) {
    const float value = normal(random);
    const uint16_t half = dtype == DType::f16 ? float_to_fp16(value) : float_to_bf16(value);
    if (dtype == DType::f32) {
      std::memcpy(bytes->data() + i * 4, &value, 4);
    } else if (size_of(dtype) == 2) {
      std::memcpy(bytes->data() + i * 2, &half, 2);
    }
  }
  view.bytes = *bytes;
  set.owners.push_back(bytes);
  set.tensors[name] = std::move(view);
}

// Every tensor of the schema under our names, the optional ones too.
inline TensorSet tensors(const ModelSpec& spec, const ExitLayout& exits, DType dtype = DType::f32, unsigned seed = 1) {
  std::mt19937 random(seed);
  TensorSet set;
  for (const TensorInfo& info : schema(spec, exits)) add_random(set, random, info.name, info.shape, dtype);
  return set;
}

}  // namespace exeunt::tiny
