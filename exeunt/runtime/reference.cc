// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/reference.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/model/schema.h"
#include "exeunt/runtime/check_text.h"
#include "exeunt/runtime/formulas.h"
#include "exeunt/runtime/linear.h"

namespace exeunt {
namespace {

Linear linear(const Checkpoint& checkpoint, const std::string& name) {
  return {checkpoint.get(name + ".weight"), checkpoint.get(name + ".bias")};
}

NormWeights norm(const Checkpoint& checkpoint, const std::string& name) {
  return {.weight = to_floats(checkpoint.get(name + ".weight")),
          .bias = to_floats(checkpoint.get(name + ".bias")),
          .epsilon = checkpoint.spec().norm_eps};
}

struct Embeddings {
  explicit Embeddings(const Checkpoint& checkpoint)
      : word(to_floats(checkpoint.get("embeddings.word.weight"))),
        position(to_floats(checkpoint.get("embeddings.position.weight"))),
        segment(to_floats(checkpoint.get("embeddings.segment.weight"))),
        norm(exeunt::norm(checkpoint, "embeddings.norm")) {
    if (checkpoint.spec().embedding_projection) project = linear(checkpoint, "embeddings.project");
  }

  std::vector<float> word, position, segment;
  NormWeights norm;
  std::optional<Linear> project = {};
};

struct Layer {
  Layer(const Checkpoint& checkpoint, const std::string& prefix)
      : query(linear(checkpoint, prefix + ".query")),
        key(linear(checkpoint, prefix + ".key")),
        value(linear(checkpoint, prefix + ".value")),
        output(linear(checkpoint, prefix + ".output")),
        attention_norm(norm(checkpoint, prefix + ".attention_norm")),
        ffn1(linear(checkpoint, prefix + ".ffn1")),
        ffn2(linear(checkpoint, prefix + ".ffn2")),
        ffn_norm(norm(checkpoint, prefix + ".ffn_norm")) {}

  Linear query, key, value, output;
  NormWeights attention_norm;
  Linear ffn1, ffn2;
  NormWeights ffn_norm;
};

struct Classifier {
  Linear outer;
  std::optional<Linear> inner;  // fc2: logits = inner(tanh(outer v))
};

struct Heads {
  explicit Heads(const Checkpoint& checkpoint) {
    const ExitLayout& layout = checkpoint.exits();
    for (int r = 0; r < layout.readers(); ++r) {
      readers.push_back(to_floats(checkpoint.get(fmt::format("exits.reader.{}.weight", r))));
    }
    for (int p = 0; p < layout.poolers(); ++p) {
      poolers.push_back(linear(checkpoint, fmt::format("exits.pooler.{}", p)));
    }
    for (int c = 0; c < layout.classifiers(); ++c) {
      const std::string name = fmt::format("exits.classifier.{}", c);
      classifiers.push_back({linear(checkpoint, name), std::nullopt});
      if (layout.inner) classifiers.back().inner = linear(checkpoint, name + ".inner");
    }
    if (layout.lte) lte = linear(checkpoint, "exits.lte");
  }

  std::vector<std::vector<float>> readers = {};
  std::vector<Linear> poolers = {};
  std::vector<Classifier> classifiers = {};
  std::optional<Linear> lte = {};
};

std::vector<float> embed(const Embeddings& tables, const ModelSpec& spec, std::span<const int32_t> ids,
                         std::span<const uint8_t> types) {
  const auto width = static_cast<size_t>(spec.embedding);
  std::vector<float> rows(ids.size() * width);
  for (size_t t = 0; t < ids.size(); ++t) {
    const float* word = tables.word.data() + static_cast<size_t>(ids[t]) * width;
    const float* position = tables.position.data() + (t + static_cast<size_t>(spec.position_offset)) * width;
    const float* segment = tables.segment.data() + types[t] * width;
    for (size_t c = 0; c < width; ++c) rows[t * width + c] = word[c] + segment[c] + position[c];
  }
  layer_norm(rows, tables.norm);
  return tables.project ? (*tables.project)(rows) : rows;
}

void add_to(std::span<float> sum, std::span<const float> other) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

std::vector<float> run_layer(const Layer& layer, const ModelSpec& spec, std::span<const float> rows) {
  const std::vector<float> query = layer.query(rows), key = layer.key(rows), value = layer.value(rows);
  const std::vector<float> context =
      attend({.query = query, .key = key, .value = value, .hidden = spec.hidden, .heads = spec.heads});
  std::vector<float> attention = layer.output(context);
  add_to(attention, rows);
  layer_norm(attention, layer.attention_norm);

  std::vector<float> inner = layer.ffn1(attention);
  activate(spec.activation, inner);
  std::vector<float> out = layer.ffn2(inner);
  add_to(out, attention);
  layer_norm(out, layer.ffn_norm);
  return out;
}

ReferenceExit run_exit(const Heads& heads, const ExitLayout& layout, const ExitSite& site, std::span<const float> rows,
                       int hidden) {
  ReferenceExit out{.after = site.after};
  out.input = site.reader ? reader_input(rows, heads.readers[static_cast<size_t>(*site.reader)])
                          : pool_input(rows, hidden, layout.input);
  out.pooled = out.input;
  if (site.pooler) {
    out.pooled = heads.poolers[static_cast<size_t>(*site.pooler)](out.input);
    tanh_all(out.pooled);
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
      : spec(checkpoint.spec()), exits(checkpoint.exits()), embeddings(checkpoint), heads(checkpoint) {
    // Shared layers are read once.
    for (int i = 0; i < spec.layers; ++i) {
      if (spec.weights_of(i) == static_cast<int>(layers.size())) layers.emplace_back(checkpoint, layer_prefix(spec, i));
    }
  }

  ModelSpec spec;
  ExitLayout exits;
  Embeddings embeddings;
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
    rows = run_layer(weights_->layers[static_cast<size_t>(spec.weights_of(layer - 1))], spec, rows);
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

ExitLogits Reference::trace(const Encoding& text) const {
  const ReferenceOutput output = run(text, {.keep_rows = false});
  ExitLogits out;
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
