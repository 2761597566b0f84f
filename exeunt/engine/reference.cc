// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/reference.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/engine/check_text.h"
#include "exeunt/engine/formulas.h"
#include "exeunt/engine/linear.h"
#include "exeunt/model/schema.h"

namespace exeunt {
namespace {

// Biases that a model does not have are zeros here.
std::vector<float> floats_or_zeros(const Checkpoint& checkpoint, const std::string& name, int64_t size) {
  const TensorView* view = checkpoint.find(name);
  return view != nullptr ? to_floats(*view) : std::vector<float>(static_cast<size_t>(size), 0.0F);
}

Linear linear(const Checkpoint& checkpoint, const std::string& name) {
  const TensorView& weight = checkpoint.get(name + ".weight");
  const std::vector<float> bias = floats_or_zeros(checkpoint, name + ".bias", weight.shape[0]);
  return {weight, view_of(DType::f32, bias)};
}

NormWeights norm(const Checkpoint& checkpoint, const std::string& name) {
  const TensorView& weight = checkpoint.get(name + ".weight");
  return {.weight = to_floats(weight),
          .bias = floats_or_zeros(checkpoint, name + ".bias", weight.shape[0]),
          .epsilon = checkpoint.spec().norm_eps};
}

struct Embeddings {
  explicit Embeddings(const Checkpoint& checkpoint)
      : word(to_floats(checkpoint.get("embeddings.word.weight"))), norm(exeunt::norm(checkpoint, "embeddings.norm")) {
    const ModelSpec& spec = checkpoint.spec();
    if (spec.position_table) position = to_floats(checkpoint.get("embeddings.position.weight"));
    if (spec.segments > 0) segment = to_floats(checkpoint.get("embeddings.segment.weight"));
    if (spec.embedding_projection) project = linear(checkpoint, "embeddings.project");
  }

  std::vector<float> word, position = {}, segment = {};
  NormWeights norm;
  std::optional<Linear> project = {};
};

// What layers know of positions, beside the embeddings.
struct Positions {
  explicit Positions(const Checkpoint& checkpoint) {
    const ModelSpec& spec = checkpoint.spec();
    if (spec.rotary_base > 0) {
      rotation.emplace(spec.rotary_base, spec.head_width(), spec.positions);
      local_rotation.emplace(spec.local_rotary_base, spec.head_width(), spec.positions);
    }
    if (spec.relative_buckets > 0) {
      buckets.emplace(spec);
      distances = to_floats(checkpoint.get("relative.weight"));
      layer_norm(distances, norm(checkpoint, "relative.norm"));
    }
  }

  std::optional<Rotation> rotation = {}, local_rotation = {};
  std::optional<DistanceBuckets> buckets = {};
  std::vector<float> distances = {};  // [2 · buckets, hidden]
};

struct Layer {
  Layer(const Checkpoint& checkpoint, const std::string& prefix, const Positions& positions)
      : query(linear(checkpoint, prefix + ".query")),
        key(linear(checkpoint, prefix + ".key")),
        value(linear(checkpoint, prefix + ".value")),
        output(linear(checkpoint, prefix + ".output")),
        ffn1(linear(checkpoint, prefix + ".ffn1")),
        ffn2(linear(checkpoint, prefix + ".ffn2")),
        ffn_norm(norm(checkpoint, prefix + ".ffn_norm")) {
    if (checkpoint.find(prefix + ".attention_norm.weight") != nullptr) {
      attention_norm = norm(checkpoint, prefix + ".attention_norm");
    }
    if (checkpoint.spec().gated) gate = linear(checkpoint, prefix + ".gate");
    if (!positions.distances.empty()) {
      distance_keys = key(positions.distances);
      distance_queries = query(positions.distances);
    }
  }

  Linear query, key, value, output;
  std::optional<NormWeights> attention_norm = {};
  Linear ffn1, ffn2;
  std::optional<Linear> gate = {};
  NormWeights ffn_norm;
  std::vector<float> distance_keys = {}, distance_queries = {};
};

struct Classifier {
  Linear outer;
  std::optional<Linear> inner;  // fc2: logits = inner(tanh(outer v))
};

struct Pooler {
  Linear map;
  std::optional<NormWeights> norm;
};

struct Heads {
  explicit Heads(const Checkpoint& checkpoint) {
    const ExitLayout& layout = checkpoint.exits();
    for (int r = 0; r < layout.readers(); ++r) {
      readers.push_back(to_floats(checkpoint.get(fmt::format("exits.reader.{}.weight", r))));
    }
    for (int p = 0; p < layout.poolers(); ++p) {
      const std::string name = fmt::format("exits.pooler.{}", p);
      poolers.push_back({linear(checkpoint, name), std::nullopt});
      if (checkpoint.find(name + ".norm.weight") != nullptr) poolers.back().norm = norm(checkpoint, name + ".norm");
    }
    if (checkpoint.spec().pre_norm) final_norm = norm(checkpoint, "final_norm");
    for (int c = 0; c < layout.classifiers(); ++c) {
      const std::string name = fmt::format("exits.classifier.{}", c);
      classifiers.push_back({linear(checkpoint, name), std::nullopt});
      if (layout.inner) classifiers.back().inner = linear(checkpoint, name + ".inner");
    }
    if (layout.lte) lte = linear(checkpoint, "exits.lte");
  }

  std::vector<std::vector<float>> readers = {};
  std::optional<NormWeights> final_norm = {};
  std::vector<Pooler> poolers = {};
  std::vector<Classifier> classifiers = {};
  std::optional<Linear> lte = {};
};

std::vector<float> embed(const Embeddings& tables, const ModelSpec& spec, std::span<const int32_t> ids,
                         std::span<const uint8_t> types) {
  const auto width = static_cast<size_t>(spec.embedding);
  std::vector<float> rows(ids.size() * width);
  for (size_t t = 0; t < ids.size(); ++t) {
    const float* word = tables.word.data() + static_cast<size_t>(ids[t]) * width;
    float* row = rows.data() + t * width;
    std::copy_n(word, width, row);
    if (!tables.segment.empty()) {
      const float* segment = tables.segment.data() + types[t] * width;
      for (size_t c = 0; c < width; ++c) row[c] += segment[c];
    }
    if (!tables.position.empty()) {
      const float* position = tables.position.data() + (t + static_cast<size_t>(spec.position_offset)) * width;
      for (size_t c = 0; c < width; ++c) row[c] += position[c];
    }
  }
  layer_norm(rows, tables.norm);
  return tables.project ? (*tables.project)(rows) : rows;
}

void add_to(std::span<float> sum, std::span<const float> other) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

std::vector<float> normed(std::span<const float> rows, const std::optional<NormWeights>& norm) {
  std::vector<float> out(rows.begin(), rows.end());
  if (norm) layer_norm(out, *norm);
  return out;
}

// What attention adds to `rows`, before any norm that follows.
std::vector<float> attention_half(const Layer& layer, const ModelSpec& spec, const Positions& positions, bool local,
                                  std::span<const float> rows) {
  std::vector<float> query = layer.query(rows), key = layer.key(rows);
  const std::vector<float> value = layer.value(rows);
  if (positions.rotation) {
    const Rotation& rotation = local ? *positions.local_rotation : *positions.rotation;
    rotate(query, spec.hidden, rotation);
    rotate(key, spec.hidden, rotation);
  }
  return layer.output(attend({.query = query,
                              .key = key,
                              .value = value,
                              .hidden = spec.hidden,
                              .heads = spec.heads,
                              .window = local ? spec.window : 0,
                              .buckets = positions.buckets ? &*positions.buckets : nullptr,
                              .distance_keys = layer.distance_keys,
                              .distance_queries = layer.distance_queries}));
}

std::vector<float> feed_forward_half(const Layer& layer, const ModelSpec& spec, std::span<const float> rows) {
  std::vector<float> inner = layer.ffn1(rows);
  activate(spec.activation, inner);
  if (layer.gate) {
    const std::vector<float> gate = (*layer.gate)(rows);
    for (size_t i = 0; i < inner.size(); ++i) inner[i] *= gate[i];
  }
  return layer.ffn2(inner);
}

std::vector<float> run_layer(const Layer& layer, const ModelSpec& spec, const Positions& positions, int index,
                             std::span<const float> rows) {
  const bool local = spec.is_local(index);
  if (spec.pre_norm) {
    std::vector<float> attention = attention_half(layer, spec, positions, local, normed(rows, layer.attention_norm));
    add_to(attention, rows);
    std::vector<float> out = feed_forward_half(layer, spec, normed(attention, layer.ffn_norm));
    add_to(out, attention);
    return out;
  }
  std::vector<float> attention = attention_half(layer, spec, positions, local, rows);
  add_to(attention, rows);
  layer_norm(attention, *layer.attention_norm);
  std::vector<float> out = feed_forward_half(layer, spec, attention);
  add_to(out, attention);
  layer_norm(out, layer.ffn_norm);
  return out;
}

ReferenceExit run_exit(const Heads& heads, const ExitLayout& layout, const ExitSite& site, std::span<const float> rows,
                       int hidden) {
  ReferenceExit out{.after = site.after};
  const std::vector<float> read = normed(rows, heads.final_norm);
  out.input = site.reader ? reader_input(read, heads.readers[static_cast<size_t>(*site.reader)])
                          : pool_input(read, hidden, layout.input);
  out.pooled = out.input;
  if (site.pooler) {
    const Pooler& pooler = heads.poolers[static_cast<size_t>(*site.pooler)];
    out.pooled = pooler.map(out.input);
    activate(site.reader ? PoolerActivation::tanh : layout.pooler.activation, out.pooled);
    if (pooler.norm) layer_norm(out.pooled, *pooler.norm);
  }
  const Classifier& classifier = heads.classifiers[static_cast<size_t>(site.classifier)];
  out.logits = classifier.outer(out.pooled);
  if (classifier.inner) {
    tanh_all(out.logits);
    out.logits = (*classifier.inner)(out.logits);
  }
  if (heads.lte) out.lte = sigmoid((*heads.lte)(out.pooled)[0]);
  return out;
}

}  // namespace

struct Reference::Weights {
  explicit Weights(const Checkpoint& checkpoint)
      : spec(checkpoint.spec()),
        exits(checkpoint.exits()),
        embeddings(checkpoint),
        positions(checkpoint),
        heads(checkpoint) {
    // Shared layers are read once.
    for (int i = 0; i < spec.layers; ++i) {
      if (spec.weights_of(i) == static_cast<int>(layers.size())) {
        layers.emplace_back(checkpoint, layer_prefix(spec, i), positions);
      }
    }
  }

  ModelSpec spec;
  ExitLayout exits;
  Embeddings embeddings;
  Positions positions;
  std::vector<Layer> layers = {};
  Heads heads;
};

Reference::Reference(const Checkpoint& checkpoint) : weights_(std::make_unique<const Weights>(checkpoint)) {}
Reference::~Reference() = default;
Reference::Reference(Reference&&) noexcept = default;
Reference& Reference::operator=(Reference&&) noexcept = default;

const ModelSpec& Reference::spec() const noexcept {
  return weights_->spec;
}
const ExitLayout& Reference::exits() const noexcept {
  return weights_->exits;
}

ReferenceOutput Reference::run(std::span<const int32_t> ids, std::span<const uint8_t> types,
                               const ReferenceOptions& options) const {
  const ModelSpec& spec = weights_->spec;
  const ExitLayout& layout = weights_->exits;
  check_text(spec, ids, types);
  ReferenceOutput out{.tokens = static_cast<int>(ids.size()), .hidden = spec.hidden};
  std::vector<float> rows = embed(weights_->embeddings, spec, ids, types);
  if (options.keep_rows) out.rows.push_back(rows);
  for (int layer = 1; layer <= std::min(spec.layers, options.max_layers); ++layer) {
    const Layer& weights = weights_->layers[static_cast<size_t>(spec.weights_of(layer - 1))];
    rows = run_layer(weights, spec, weights_->positions, layer - 1, rows);
    if (options.keep_rows) out.rows.push_back(rows);
    for (const ExitSite& site : layout.sites) {
      if (site.after == layer) out.exits.push_back(run_exit(weights_->heads, layout, site, rows, spec.hidden));
    }
    if (layer == spec.layers && layout.last_ramp) {
      const ExitSite ramp{
          .after = layer, .pooler = layout.last_ramp->pooler, .classifier = layout.last_ramp->classifier};
      out.ramp = run_exit(weights_->heads, layout, ramp, rows, spec.hidden);
    }
  }
  return out;
}

ReferenceOutput Reference::run(const Encoding& text, const ReferenceOptions& options) const {
  return run(text.ids, text.types, options);
}

ReferenceTrace Reference::trace(const Encoding& text) const {
  const ReferenceOutput output = run(text, {.keep_rows = false});
  ReferenceTrace out;
  for (const ReferenceExit& exit : output.exits) {
    out.logits.insert(out.logits.end(), exit.logits.begin(), exit.logits.end());
    if (exit.lte) out.lte.push_back(*exit.lte);
  }
  if (output.ramp) out.ramp = output.ramp->logits;
  return out;
}

std::span<const float> ReferenceOutput::row(int layer, int token) const {
  check(layer >= 0 && static_cast<size_t>(layer) < rows.size() && token >= 0 && token < tokens, "row: out of range");
  return std::span(rows[static_cast<size_t>(layer)])
      .subspan(static_cast<size_t>(token) * static_cast<size_t>(hidden), static_cast<size_t>(hidden));
}

}  // namespace exeunt
