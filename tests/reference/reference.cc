// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/reference.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/engine/backend.h"
#include "exeunt/engine/ngram_exit.h"
#include "exeunt/model/schema.h"
#include "tests/reference/encoder_formulas.h"

namespace exeunt {
namespace {

// Rows that are looked up, not a matrix that is multiplied by.
bool is_table(const std::string& name) {
  return name == "relative" || name.starts_with("exits.reader.") ||
         (name.starts_with("embeddings.") && name != "embeddings.project" && name != "embeddings.norm");
}

}  // namespace

// Every weight by its name in schema(), without the ending. Biases that a model does not have are zeros.
struct Reference::Weights {
  explicit Weights(const Checkpoint& checkpoint) : spec(checkpoint.spec()), exits(checkpoint.exits()) {
    constexpr std::string_view kEnding = ".weight";
    for (const TensorInfo& info : schema(spec, exits)) {
      const TensorView* weight = checkpoint.find(info.name);
      if (weight == nullptr || !info.name.ends_with(kEnding)) continue;
      const std::string name = info.name.substr(0, info.name.size() - kEnding.size());
      const TensorView* bias = checkpoint.find(name + ".bias");
      const std::vector<float> zeros(static_cast<size_t>(weight->shape[0]), 0.0F);
      if (is_table(name)) {
        tables.emplace(name, to_floats(*weight));
      } else if (weight->shape.size() == 2) {
        linears.emplace(name, Linear(*weight, bias != nullptr ? *bias : view_of(DType::f32, zeros)));
      } else {
        norms.emplace(name, NormWeights{.weight = to_floats(*weight),
                                        .bias = bias != nullptr ? to_floats(*bias) : zeros,
                                        .epsilon = spec.norm_eps});
      }
    }
    if (spec.rotary_base > 0) {
      rotation.emplace(spec.rotary_base, spec.head_width(), spec.positions);
      local_rotation.emplace(spec.local_rotary_base, spec.head_width(), spec.positions);
    }
    if (exits.ngrams) ngrams.emplace(checkpoint);
    if (spec.relative_buckets == 0) return;
    buckets.emplace(spec);
    const std::vector<float> distances = normed(tables.at("relative"), "relative.norm");
    for (int i = 0; i < spec.layers; ++i) {
      const std::string layer = layer_prefix(spec, i);
      if (tables.contains(layer + ".distance_keys")) continue;  // shared layers
      tables.emplace(layer + ".distance_keys", linears.at(layer + ".key")(distances));
      tables.emplace(layer + ".distance_queries", linears.at(layer + ".query")(distances));
    }
  }

  // A copy of `rows`, normalised if the model has that norm.
  [[nodiscard]] std::vector<float> normed(std::span<const float> rows, const std::string& norm) const {
    std::vector<float> out(rows.begin(), rows.end());
    if (const auto found = norms.find(norm); found != norms.end()) layer_norm(out, found->second);
    return out;
  }

  [[nodiscard]] std::vector<float> embed(std::span<const int32_t> ids, std::span<const uint8_t> types) const {
    const auto width = static_cast<size_t>(spec.embedding);
    std::vector<float> rows(ids.size() * width);
    const auto add = [&](const char* name, size_t t, size_t row) {
      const auto table = tables.find(name);
      if (table != tables.end()) add_to({rows.data() + t * width, width}, {table->second.data() + row * width, width});
    };
    for (size_t t = 0; t < ids.size(); ++t) {
      std::copy_n(tables.at("embeddings.word").data() + static_cast<size_t>(ids[t]) * width, width,
                  rows.data() + t * width);
      add("embeddings.segment", t, types[t]);
      add("embeddings.position", t, t + static_cast<size_t>(spec.position_offset));
    }
    layer_norm(rows, norms.at("embeddings.norm"));
    return spec.embedding_projection ? linears.at("embeddings.project")(rows) : rows;
  }

  // What attention adds to `rows`, before any norm that follows.
  [[nodiscard]] std::vector<float> attention_half(int index, std::span<const float> rows) const {
    const std::string layer = layer_prefix(spec, index);
    std::vector<float> query = linears.at(layer + ".query")(rows), key = linears.at(layer + ".key")(rows);
    const std::vector<float> value = linears.at(layer + ".value")(rows);
    const bool local = spec.is_local(index);
    if (rotation) {
      const Rotation& turns = local ? *local_rotation : *rotation;
      rotate(query, spec.hidden, turns);
      rotate(key, spec.hidden, turns);
    }
    AttentionInput input{.query = query,
                         .key = key,
                         .value = value,
                         .hidden = spec.hidden,
                         .heads = spec.heads,
                         .window = local ? spec.window : 0};
    if (buckets) {
      input.buckets = &*buckets;
      input.distance_keys = tables.at(layer + ".distance_keys");
      input.distance_queries = tables.at(layer + ".distance_queries");
    }
    return linears.at(layer + ".output")(attend(input));
  }

  [[nodiscard]] std::vector<float> feed_forward_half(int index, std::span<const float> rows) const {
    const std::string layer = layer_prefix(spec, index);
    std::vector<float> inner = linears.at(layer + ".ffn1")(rows);
    activate(spec.activation, inner);
    if (spec.gated) {
      const std::vector<float> gate = linears.at(layer + ".gate")(rows);
      for (size_t i = 0; i < inner.size(); ++i) inner[i] *= gate[i];
    }
    return linears.at(layer + ".ffn2")(inner);
  }

  [[nodiscard]] std::vector<float> run_layer(int index, std::span<const float> rows) const {
    const std::string layer = layer_prefix(spec, index), first = layer + ".attention_norm",
                      second = layer + ".ffn_norm";
    if (spec.pre_norm) {
      std::vector<float> attention = attention_half(index, normed(rows, first));
      add_to(attention, rows);
      std::vector<float> out = feed_forward_half(index, normed(attention, second));
      add_to(out, attention);
      return out;
    }
    std::vector<float> attention = attention_half(index, rows);
    add_to(attention, rows);
    layer_norm(attention, norms.at(first));
    std::vector<float> out = feed_forward_half(index, attention);
    add_to(out, attention);
    layer_norm(out, norms.at(second));
    return out;
  }

  [[nodiscard]] ReferenceExit run_exit(const ExitSite& site, std::span<const float> rows) const {
    ReferenceExit out{.after = site.after};
    const std::vector<float> read = normed(rows, "final_norm");
    out.input = site.reader ? reader_input(read, tables.at(fmt::format("exits.reader.{}", *site.reader)))
                            : pool_input(read, spec.hidden, exits.input);
    out.pooled = out.input;
    if (site.pooler) {
      const std::string pooler = fmt::format("exits.pooler.{}", *site.pooler);
      out.pooled = linears.at(pooler)(out.input);
      activate(site.reader ? PoolerActivation::tanh : exits.pooler.activation, out.pooled);
      out.pooled = normed(out.pooled, pooler + ".norm");
    }
    const std::string classifier = fmt::format("exits.classifier.{}", site.classifier);
    out.logits = linears.at(classifier)(out.pooled);
    if (exits.inner) {
      tanh_all(out.logits);
      out.logits = linears.at(classifier + ".inner")(out.logits);
    }
    if (exits.lte) out.lte = sigmoid(linears.at("exits.lte")(out.pooled)[0]);
    return out;
  }

  ModelSpec spec;
  ExitLayout exits;
  std::map<std::string, Linear> linears = {};
  std::map<std::string, NormWeights> norms = {};
  std::map<std::string, std::vector<float>> tables = {};  // and, per layer, the keys and queries of all distances
  std::optional<Rotation> rotation = {}, local_rotation = {};
  std::optional<DistanceBuckets> buckets = {};
  std::optional<NgramExit> ngrams = {};
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
  std::vector<float> rows = weights_->embed(ids, types);
  if (options.keep_rows) out.rows.push_back(rows);
  if (weights_->ngrams) {
    ReferenceExit& first = out.exits.emplace_back(ReferenceExit{.after = 0});
    first.logits.resize(static_cast<size_t>(layout.outputs));
    weights_->ngrams->run(ids, first.logits.data());
  }
  for (int layer = 1; layer <= std::min(spec.layers, options.max_layers); ++layer) {
    rows = weights_->run_layer(layer - 1, rows);
    if (options.keep_rows) out.rows.push_back(rows);
    for (const ExitSite& site : layout.sites) {
      if (site.after == layer) out.exits.push_back(weights_->run_exit(site, rows));
    }
    if (layer == spec.layers && layout.last_ramp) {
      const auto& [pooler, classifier] = *layout.last_ramp;
      out.ramp = weights_->run_exit({.after = layer, .pooler = pooler, .classifier = classifier}, rows);
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
