// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/schema.h"

#include <string_view>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/model/family.h"

namespace exeunt {
namespace {

using Names = std::vector<std::string>;

class SchemaBuilder {
 public:
  SchemaBuilder(const ModelSpec& spec, const ExitLayout& exits)
      : spec_(spec), row_(row_of(spec.family)), exits_(exits) {}

  std::vector<TensorInfo> build() {
    embeddings();
    const int sets = spec_.groups == 0 ? spec_.layers : spec_.groups;
    for (int set = 0; set < sets; ++set) layer(set);
    if (spec_.pre_norm) norm("final_norm", spec_.hidden, {std::string(row_.final_norm)});
    if (exits_.sites.empty()) {
      backbone_poolers();
    } else {
      exits();
    }
    return std::move(out_);
  }

 private:
  // One tensor; `aliases` are names without their ending, which is `suffix` for them as for us.
  void tensor(const std::string& name, std::string_view suffix, std::vector<int64_t> shape, const Names& aliases) {
    TensorInfo info{
        .name = name + std::string(suffix), .shape = std::move(shape), .required = required_, .aliases = {}};
    for (const std::string& alias : aliases) info.aliases.push_back(alias + std::string(suffix));
    out_.push_back(std::move(info));
  }

  void linear(const std::string& name, int64_t rows, int64_t columns, const Names& aliases, bool bias = true) {
    tensor(name, ".weight", {rows, columns}, aliases);
    if (bias) tensor(name, ".bias", {rows}, aliases);
  }

  void norm(const std::string& name, int64_t size, const Names& aliases) {
    tensor(name, ".weight", {size}, aliases);
    if (spec_.norm_biases) tensor(name, ".bias", {size}, aliases);
  }

  // Our tensors `parts` of [rows, columns] each, which are one tensor there.
  void fused(const std::string& ours, const Names& parts, int64_t rows, int64_t columns, const Names& aliases) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t first = out_.size();
      linear(ours + parts[i], rows, columns, aliases, spec_.biases);
      for (size_t at = first; at < out_.size() && parts.size() > 1; ++at) {
        out_[at].first_row = static_cast<int64_t>(i) * rows;
        out_[at].of_rows = static_cast<int64_t>(parts.size()) * rows;
      }
    }
  }

  void embeddings() {
    const int64_t width = spec_.embedding;
    const EmbeddingNames& names = row_.embeddings;
    tensor("embeddings.word", ".weight", {spec_.vocab, width}, {std::string(names.word)});
    if (spec_.position_table) {
      tensor("embeddings.position", ".weight", {spec_.positions, width}, {"embeddings.position_embeddings"});
    }
    if (spec_.segments > 0) {
      tensor("embeddings.segment", ".weight", {spec_.segments, width}, {"embeddings.token_type_embeddings"});
    }
    norm("embeddings.norm", width, {std::string(names.norm)});
    if (spec_.embedding_projection) {
      linear("embeddings.project", spec_.hidden, width, {std::string(names.projection)});
    }
    if (spec_.relative_buckets > 0) {
      tensor("relative", ".weight", {int64_t{2} * spec_.relative_buckets, spec_.hidden}, {std::string(names.relative)});
      norm("relative.norm", spec_.hidden, {std::string(names.relative_norm)});
    }
  }

  void layer(int set) {
    const int64_t d = spec_.hidden, f = spec_.inner;
    const std::string ours = fmt::format("{}.{}.", spec_.groups != 0 ? "group" : "layer", set);
    const LayerNames& names = row_.layer;
    const auto theirs = [&](std::string_view part) { return Names{names.of(set, part)}; };
    if (names.query == names.key) {
      fused(ours, {"query", "key", "value"}, d, d, theirs(names.query));
    } else {
      fused(ours, {"query"}, d, d, theirs(names.query));
      fused(ours, {"key"}, d, d, theirs(names.key));
      fused(ours, {"value"}, d, d, theirs(names.value));
    }
    fused(ours, {"output"}, d, d, theirs(names.output));
    if (spec_.has_attention_norm(set)) norm(ours + "attention_norm", d, theirs(names.attention_norm));
    fused(ours, spec_.gated ? Names{"ffn1", "gate"} : Names{"ffn1"}, f, d, theirs(names.ffn1));
    fused(ours, {"ffn2"}, d, f, theirs(names.ffn2));
    norm(ours + "ffn_norm", d, theirs(names.ffn_norm));
  }

  // Heads are initialised from a pretrained pooler. Many encoders come without one.
  void backbone_poolers() {
    required_ = false;
    if (spec_.layer_poolers) {
      for (int i = 0; i < spec_.layers; ++i) {
        Names aliases{fmt::format("encoder.pooler.{}.dense", i)};
        if (i + 1 == spec_.layers) aliases.push_back("pooler.dense");
        linear(fmt::format("pooler.{}", i), spec_.hidden, spec_.hidden, aliases);
      }
    } else if (!row_.poolers.empty()) {
      linear("pooler", spec_.hidden, spec_.hidden, pooler_names());
    }
    required_ = true;
  }

  [[nodiscard]] Names pooler_names() const { return {row_.poolers.begin(), row_.poolers.end()}; }

  void exits() {
    for (int r = 0; r < exits_.readers(); ++r) {
      tensor(fmt::format("exits.reader.{}", r), ".weight", {spec_.hidden}, {});
    }
    for (int p = 0; p < exits_.poolers(); ++p) {
      const bool reader = pooler_has_reader(exits_, p);
      const int64_t columns = reader ? int64_t{2} * spec_.hidden : spec_.hidden;
      const std::string name = fmt::format("exits.pooler.{}", p);
      linear(name, exits_.width, columns, pooler_aliases(p), reader || exits_.pooler.bias);
      if (reader || !exits_.pooler.norm) continue;
      const bool last = exits_.sites.back().pooler == p && !row_.head.norm.empty();
      norm(name + ".norm", exits_.width, last ? Names{std::string(row_.head.norm)} : Names{});
    }
    for (int c = 0; c < exits_.classifiers(); ++c) {
      const std::string name = fmt::format("exits.classifier.{}", c);
      if (exits_.inner) {
        linear(name, *exits_.inner, exits_.width, exit_layer_names(c, exits_.classifiers(), "classifier1"));
        linear(name + ".inner", exits_.outputs, *exits_.inner,
               exit_layer_names(c, exits_.classifiers(), "classifier2"));
      } else {
        linear(name, exits_.outputs, exits_.width, classifier_aliases(c));
      }
    }
    if (exits_.lte) linear("exits.lte", 1, exits_.width, {"encoder.lte_classifier"});
    if (exits_.ngrams) ngrams(*exits_.ngrams);
  }

  void ngrams(const NgramShape& shape) {
    const auto one = [&](const char* name, std::vector<int64_t> sides, DType dtype) {
      out_.push_back({.name = name, .shape = std::move(sides), .dtype = dtype});
    };
    one("exits.ngrams.table", {int64_t{1} << shape.bits, shape.rank}, DType::bf16);
    if (shape.rank < exits_.outputs) one("exits.ngrams.output", {exits_.outputs, shape.rank}, DType::f32);
    one("exits.ngrams.bias", {exits_.outputs}, DType::f32);
    one("exits.ngrams.pieces", {shape.piece_bytes}, DType::u8);
    one("exits.ngrams.begins", {int64_t{spec_.vocab} + 1}, DType::i32);
  }

  // One head for all layers, or one for each group of layers.
  static Names exit_layer_names(int index, int count, std::string_view part) {
    Names names{fmt::format("encoder.exit_out_layers.{}.{}", index, part)};
    if (count == 1) names.push_back(fmt::format("encoder.exit_out_layer.{}", part));
    return names;
  }

  static void add(Names& names, const Names& more) { names.insert(names.end(), more.begin(), more.end()); }

  // In the order of preference: a head's own weights come before those of the backbone it could also mean.
  [[nodiscard]] Names pooler_aliases(int pooler) const {
    if (exits_.last_ramp && exits_.last_ramp->pooler == pooler) {
      return {fmt::format("encoder.highway.{}.pooler.dense", spec_.layers - 1)};
    }
    const std::vector<size_t> users = users_of([&](const ExitSite& site) { return site.pooler == pooler; });
    const bool last = users.back() + 1 == exits_.sites.size();
    Names names = exit_layer_names(pooler, exits_.poolers(), "pooler");
    if (users.size() == 1) {
      const int after = exits_.sites[users.front()].after;
      if (!last) names.push_back(fmt::format("encoder.highway.{}.pooler.dense", after - 1));
      if (spec_.layer_poolers) names.push_back(fmt::format("encoder.pooler.{}.dense", after - 1));
    }
    if (last && !row_.head.pooler.empty()) names.emplace_back(row_.head.pooler);
    if (last) add(names, pooler_names());
    return names;
  }

  [[nodiscard]] Names classifier_aliases(int classifier) const {
    if (exits_.last_ramp && exits_.last_ramp->classifier == classifier) {
      return {fmt::format("encoder.highway.{}.classifier", spec_.layers - 1)};
    }
    const std::vector<size_t> users = users_of([&](const ExitSite& site) { return site.classifier == classifier; });
    const bool last = users.back() + 1 == exits_.sites.size();
    Names names = exit_layer_names(classifier, exits_.classifiers(), "classifier");
    if (users.size() == 1) {
      const int after = exits_.sites[users.front()].after;
      names.push_back(fmt::format("classifiers.{}", users.front()));
      if (!last) names.push_back(fmt::format("encoder.highway.{}.classifier", after - 1));
    }
    if (last && !row_.head.classifier.empty()) names.emplace_back(row_.head.classifier);
    if (last) names.push_back("classifier");
    return names;
  }

  // The indices of the sites that use a part. check_layout() guarantees that there is one.
  template <class Uses>
  [[nodiscard]] std::vector<size_t> users_of(Uses uses) const {
    std::vector<size_t> users;
    for (size_t i = 0; i < exits_.sites.size(); ++i) {
      if (uses(exits_.sites[i])) users.push_back(i);
    }
    check(!users.empty(), "every pooler and classifier of a layout is used");
    return users;
  }

  const ModelSpec& spec_;
  const FamilyRow& row_;
  const ExitLayout& exits_;
  std::vector<TensorInfo> out_;
  bool required_ = true;
};

}  // namespace

std::vector<TensorInfo> schema(const ModelSpec& spec, const ExitLayout& exits) {
  return SchemaBuilder(spec, exits).build();
}

std::string layer_prefix(const ModelSpec& spec, int index) {
  return fmt::format("{}.{}", spec.groups == 0 ? "layer" : "group", spec.weights_of(index));
}

}  // namespace exeunt
