// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/onnx_export.h"

#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/model/onnx_graph.h"
#include "exeunt/model/positions.h"
#include "exeunt/model/schema.h"
#include "exeunt/model/spec.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr const char* kWeightFile = "weights.bin";
constexpr const char* kAllExits = "all_exits.onnx";
constexpr const char* kIndex = "onnx.json";
constexpr float kNever = -1e9F;  // added to masked scores: their softmax is 0

struct ExitValues {
  std::string logits;              // [batch, outputs]
  std::optional<std::string> lte;  // [batch, 1]
};

// The formulas of tests/reference as operations, over a batch with a mask.
class GraphBuilder {
 public:
  GraphBuilder(const Checkpoint& model, OnnxWeights& weights, const std::string& name)
      : model_(model), spec_(model.spec()), layout_(model.exits()), weights_(weights), graph_(name) {}

  void start_with_text() {
    for (const char* name : {"input_ids", "attention_mask"}) {
      graph_.input(name, OnnxType::integer, {"batch", "tokens"});
    }
    if (spec_.segments > 0) graph_.input("token_type_ids", OnnxType::integer, {"batch", "tokens"});
    embed();
    read_mask();
  }

  void start_with_rows() {
    graph_.input("hidden", OnnxType::real, {"batch", "tokens", spec_.hidden});
    graph_.input("attention_mask", OnnxType::integer, {"batch", "tokens"});
    rows_ = "hidden";
    read_mask();
  }

  void layer(int index) {
    const std::string prefix = layer_prefix(spec_, index) + ".";
    if (spec_.pre_norm) {
      const std::string input = spec_.has_attention_norm(index) ? norm(rows_, prefix + "attention_norm") : rows_;
      const std::string between =
          graph_.op("Add", {linear(attention(input, prefix, spec_.is_local(index)), prefix + "output"), rows_});
      rows_ = graph_.op("Add", {feed_forward(norm(between, prefix + "ffn_norm"), prefix), between});
      return;
    }
    const std::string attended = linear(attention(rows_, prefix, spec_.is_local(index)), prefix + "output");
    const std::string between = norm(graph_.op("Add", {attended, rows_}), prefix + "attention_norm");
    rows_ = norm(graph_.op("Add", {feed_forward(between, prefix), between}), prefix + "ffn_norm");
  }

  ExitValues exit(const ExitSite& site) {
    const std::string stream = rows_;
    if (spec_.pre_norm) rows_ = norm(rows_, "final_norm");  // for as long as the exit reads
    std::string value = site.reader ? read(*site.reader) : pool_input();
    rows_ = stream;
    if (site.pooler) value = pooled(value, *site.pooler, site.reader.has_value());
    const std::string name = fmt::format("exits.classifier.{}", site.classifier);
    ExitValues out{.logits = row_linear(value, name), .lte = {}};
    if (layout_.inner) out.logits = row_linear(graph_.op("Tanh", {out.logits}), name + ".inner");
    if (layout_.lte) out.lte = graph_.op("Sigmoid", {row_linear(value, "exits.lte")});
    return out;
  }

  OnnxGraph& graph() { return graph_; }
  [[nodiscard]] const std::string& rows() const { return rows_; }

  std::string squeezed(const std::string& value, int64_t side) {
    return graph_.op("Squeeze", {value, graph_.integers({side})});
  }
  std::string widened(const std::string& value, const std::vector<int64_t>& sides) {
    return graph_.op("Unsqueeze", {value, graph_.integers(sides)});
  }

  // The ramp beside the final head of the last layer.
  void ramp() {
    if (!layout_.last_ramp) return;
    const ExitSite site{
        .after = spec_.layers, .pooler = layout_.last_ramp->pooler, .classifier = layout_.last_ramp->classifier};
    graph_.name_value(exit(site).logits, "ramp");
    graph_.output("ramp", OnnxType::real, {"batch", layout_.outputs});
  }

 private:
  std::string weight(const std::string& name) { return graph_.weight(name, model_.get(name), weights_); }
  std::string turned(const std::string& name) {
    return graph_.weight(name + ".turned", transposed(model_.get(name)), weights_);
  }

  // Over rows [batch, tokens, d], and over one row of each text [batch, d].
  std::string linear(const std::string& rows, const std::string& name) {
    const std::string product = graph_.op("MatMul", {rows, turned(name + ".weight")});
    return has(name + ".bias") ? graph_.op("Add", {product, weight(name + ".bias")}) : product;
  }
  std::string row_linear(const std::string& row, const std::string& name) {
    std::vector<std::string> inputs{row, weight(name + ".weight")};
    if (has(name + ".bias")) inputs.push_back(weight(name + ".bias"));
    return graph_.op("Gemm", inputs, {{"transB", int64_t{1}}});
  }
  std::string norm(const std::string& rows, const std::string& name) {
    std::vector<std::string> inputs{rows, weight(name + ".weight")};
    if (has(name + ".bias")) inputs.push_back(weight(name + ".bias"));
    return graph_.op("LayerNormalization", inputs, {{"axis", int64_t{-1}}, {"epsilon", spec_.norm_eps}});
  }
  [[nodiscard]] bool has(const std::string& name) const { return model_.find(name) != nullptr; }
  // A table that we compute; its name is its own.
  std::string made(const std::string& name, const std::vector<float>& values, std::vector<int64_t> shape) {
    return graph_.weight(name, view_of(DType::f32, values, std::move(shape)), weights_);
  }
  std::string gather(const std::string& from, const std::string& at, int64_t axis) {
    return graph_.op("Gather", {from, at}, {{"axis", axis}});
  }
  std::string transpose(const std::string& value, std::vector<int64_t> order) {
    return graph_.op("Transpose", {value}, {{"perm", std::move(order)}});
  }

  std::string tokens() {
    if (tokens_.empty()) tokens_ = gather(graph_.op("Shape", {"attention_mask"}), graph_.integer(1), 0);
    return tokens_;
  }

  void embed() {
    const auto look_up = [&](const char* table, const std::string& at) {
      return gather(weight(fmt::format("embeddings.{}.weight", table)), at, 0);
    };
    std::string sum = look_up("word", "input_ids");
    if (spec_.segments > 0) sum = graph_.op("Add", {sum, look_up("segment", "token_type_ids")});
    if (spec_.position_table) {
      const std::string last = graph_.op("Add", {tokens(), graph_.integer(spec_.position_offset)});
      const std::string places = graph_.op("Range", {graph_.integer(spec_.position_offset), last, graph_.integer(1)});
      sum = graph_.op("Add", {sum, look_up("position", places)});
    }
    rows_ = norm(sum, "embeddings.norm");
    if (spec_.embedding_projection) rows_ = linear(rows_, "embeddings.project");
  }

  // [tokens, tokens]: how far each query is behind each key.
  std::string distances() {
    if (!distances_.empty()) return distances_;
    places_ = graph_.op("Range", {graph_.integer(0), tokens(), graph_.integer(1)});
    distances_ = graph_.op("Sub", {widened(places_, {1}), widened(places_, {0})});
    return distances_;
  }

  // Rotary positions of [batch, heads, tokens, width]: x · cos + (x with its halves exchanged) · ±sin.
  std::string rotated(const std::string& x, bool local) {
    const int width = spec_.head_width(), half = width / 2;
    Turn& turn = turns_[local ? 1 : 0];
    if (turn.cosine.empty()) turn = turn_of(local);
    std::vector<int64_t> exchanged;
    for (int i = 0; i < width; ++i) exchanged.push_back((i + half) % width);
    const std::string other = gather(x, graph_.integers(exchanged), -1);
    return graph_.op("Add", {graph_.op("Mul", {x, turn.cosine}), graph_.op("Mul", {other, turn.sine})});
  }

  struct Turn {
    std::string cosine = {}, sine = {};  // [tokens, width]
  };
  Turn turn_of(bool local) {
    (void)distances();
    const int width = spec_.head_width(), half = width / 2;
    const Rotation rotation(local ? spec_.local_rotary_base : spec_.rotary_base, width, spec_.max_tokens());
    std::vector<float> cosines, sines;
    for (int t = 0; t < spec_.max_tokens(); ++t) {
      for (int i = 0; i < width; ++i) cosines.push_back(rotation.cosines(t)[i % half]);
      for (int i = 0; i < width; ++i) sines.push_back((i < half ? -1.0F : 1.0F) * rotation.sines(t)[i % half]);
    }
    const std::string kind = local ? "local_rotation" : "rotation";
    const std::vector<int64_t> shape{spec_.max_tokens(), width};
    return {gather(made(kind + ".cosines", cosines, shape), places_, 0),
            gather(made(kind + ".sines", sines, shape), places_, 0)};
  }

  // Of a local layer: padding, and what is beyond the window.
  std::string within_window() {
    if (!over_window_.empty()) return over_window_;
    const std::string beyond = graph_.op("Greater", {graph_.op("Abs", {distances()}), graph_.integer(spec_.window)});
    const std::string far = graph_.op("Cast", {beyond}, {{"to", static_cast<int64_t>(OnnxType::real)}});
    over_window_ = graph_.op("Add", {over_keys_, graph_.op("Mul", {far, graph_.real(kNever)})});
    return over_window_;
  }

  // DeBERTa: what distances add to the scores of `query` and `key`, both [batch, heads, tokens, width].
  std::string distance_scores(const std::string& query, const std::string& key, const std::string& prefix) {
    const int64_t rows = int64_t{2} * spec_.relative_buckets;
    if (distance_rows_.empty()) {
      const DistanceBuckets buckets(spec_);
      const int farthest = spec_.max_tokens() - 1;
      std::vector<int64_t> of;
      for (int d = -farthest; d <= farthest; ++d) of.push_back(buckets.row(d));
      const std::string table = graph_.integers(of);  // named first: the order of arguments is the compiler's
      distance_rows_ = gather(table, graph_.op("Add", {distances(), graph_.integer(farthest)}), 0);  // [query, key]
      distance_table_ = norm(weight("relative.weight"), "relative.norm");
    }
    const std::string parts = graph_.integers({rows, spec_.heads, spec_.head_width()});
    const auto meet = [&](const std::string& x, const char* map, const std::string& at) {
      const std::string table = graph_.op("Reshape", {linear(distance_table_, prefix + map), parts});
      const std::string all = graph_.op("MatMul", {x, transpose(table, {1, 2, 0})});  // [batch, heads, tokens, rows]
      // One entry for each pair: an index of the scores' own shape.
      const std::string pairs = graph_.op("Shape", {graph_.op("MatMul", {x, transpose(x, {0, 1, 3, 2})})});
      return graph_.op("GatherElements", {all, graph_.op("Expand", {at, pairs})}, {{"axis", int64_t{3}}});
    };
    const std::string of_keys = meet(key, "query", transpose(distance_rows_, {1, 0}));
    return graph_.op("Add", {meet(query, "key", distance_rows_), transpose(of_keys, {0, 1, 3, 2})});
  }

  std::string feed_forward(const std::string& rows, const std::string& prefix) {
    std::string wide = activated(linear(rows, prefix + "ffn1"));
    if (spec_.gated) wide = graph_.op("Mul", {wide, linear(rows, prefix + "gate")});
    return linear(wide, prefix + "ffn2");
  }

  std::string pooled(const std::string& value, int pooler, bool reader) {
    const std::string name = fmt::format("exits.pooler.{}", pooler), mapped = row_linear(value, name);
    const PoolerActivation kind = reader ? PoolerActivation::tanh : layout_.pooler.activation;
    const std::string active = kind == PoolerActivation::tanh   ? graph_.op("Tanh", {mapped})
                               : kind == PoolerActivation::relu ? graph_.op("Relu", {mapped})
                                                                : gelu(mapped);
    return has(name + ".norm.weight") ? norm(active, name + ".norm") : active;
  }

  void read_mask() {
    mask_ = graph_.op("Cast", {"attention_mask"}, {{"to", static_cast<int64_t>(OnnxType::real)}});
    hidden_from_ = graph_.op("Mul", {graph_.op("Sub", {graph_.real(1), mask_}), graph_.real(kNever)});
    over_keys_ = widened(hidden_from_, {1, 2});
  }

  std::string attention(const std::string& rows, const std::string& prefix, bool local) {
    const int64_t width = spec_.head_width();
    const std::string parts = graph_.integers({0, 0, spec_.heads, width});
    const auto heads = [&](const char* part, std::vector<int64_t> order) {
      return transpose(graph_.op("Reshape", {linear(rows, prefix + part), parts}), std::move(order));
    };
    // Where keys are worked on before they meet the queries, they are turned for the product afterwards.
    const bool plain = spec_.rotary_base == 0 && spec_.relative_buckets == 0;
    std::string query = heads("query", {0, 2, 1, 3}),
                key = heads("key", plain ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
    const std::string value = heads("value", {0, 2, 1, 3});
    if (spec_.rotary_base > 0) {
      query = rotated(query, local);
      key = rotated(key, local);
    }
    std::string scores = graph_.op("MatMul", {query, plain ? key : transpose(key, {0, 1, 3, 2})});
    if (spec_.relative_buckets > 0) scores = graph_.op("Add", {scores, distance_scores(query, key, prefix)});
    const auto divisor = static_cast<float>(spec_.relative_buckets > 0 ? 3 * width : width);
    scores = graph_.op("Div", {scores, graph_.real(std::sqrt(divisor))});
    const std::string& mask = local ? within_window() : over_keys_;
    const std::string shares = graph_.op("Softmax", {graph_.op("Add", {scores, mask})}, {{"axis", int64_t{-1}}});
    const std::string context = transpose(graph_.op("MatMul", {shares, value}), {0, 2, 1, 3});
    return graph_.op("Reshape", {context, graph_.integers({0, 0, spec_.hidden})});
  }

  std::string half_of(const std::string& x, const std::string& doubled) {
    return graph_.op("Mul", {graph_.op("Mul", {x, doubled}), graph_.real(0.5F)});
  }
  // x Φ(x)
  std::string gelu(const std::string& x) {
    const std::string scaled = graph_.op("Div", {x, graph_.real(std::numbers::sqrt2_v<float>)});
    return half_of(x, graph_.op("Add", {graph_.op("Erf", {scaled}), graph_.real(1)}));
  }

  std::string activated(const std::string& x) {
    if (spec_.activation == Activation::relu) return graph_.op("Relu", {x});
    if (spec_.activation == Activation::gelu) return gelu(x);
    const std::string cube = graph_.op("Mul", {graph_.op("Mul", {x, x}), x});
    const std::string bent = graph_.op("Add", {x, graph_.op("Mul", {cube, graph_.real(0.044715F)})});
    const std::string scaled = graph_.op("Mul", {bent, graph_.real(0.7978845608F)});
    return half_of(x, graph_.op("Add", {graph_.op("Tanh", {scaled}), graph_.real(1)}));
  }

  std::string first_row() { return gather(rows_, graph_.integer(0), 1); }

  // Σ_t shares_t h_t for shares [batch, tokens].
  std::string mixed(const std::string& shares) {
    return squeezed(graph_.op("MatMul", {widened(shares, {1}), rows_}), 1);
  }
  std::string mean_row() {
    const std::string count = graph_.op("ReduceSum", {mask_, graph_.integers({1})}, {{"keepdims", int64_t{1}}});
    return mixed(graph_.op("Div", {mask_, count}));
  }
  std::string max_row() {
    const std::string shown = graph_.op("Add", {rows_, widened(hidden_from_, {2})});
    return graph_.op("ReduceMax", {shown}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
  }

  std::string pool_input() {
    switch (layout_.input) {
      case PoolInput::cls:
        return first_row();
      case PoolInput::mean:
        return mean_row();
      case PoolInput::max:
        return max_row();
      case PoolInput::cls_mean:
        return graph_.op("Add", {first_row(), mean_row()});
      case PoolInput::cls_max:
        return graph_.op("Add", {first_row(), max_row()});
      case PoolInput::mean_max:
        return graph_.op("Add", {mean_row(), max_row()});
    }
    check(false, "pool_input: unknown pool input");
    return {};
  }

  std::string read(int reader) {
    const std::string name = fmt::format("exits.reader.{}.weight", reader);
    const std::string query = graph_.op("Unsqueeze", {weight(name), graph_.integers({1})});
    const std::string scores = squeezed(graph_.op("MatMul", {rows_, query}), 2);
    const std::string shares = graph_.op("Softmax", {graph_.op("Add", {scores, hidden_from_})}, {{"axis", int64_t{1}}});
    return graph_.op("Concat", {first_row(), mixed(shares)}, {{"axis", int64_t{1}}});
  }

  const Checkpoint& model_;
  const ModelSpec& spec_;
  const ExitLayout& layout_;
  OnnxWeights& weights_;
  OnnxGraph graph_;
  // Values: the rows so far, 1 and 0, 0 and kNever, and the latter in the form of attention's scores.
  std::string rows_ = {}, mask_ = {}, hidden_from_ = {}, over_keys_ = {};
  std::string tokens_ = {};  // their number
  // Made when first used: places, distances, the mask of local layers, DeBERTa's rows of distances and their table.
  std::string places_ = {}, distances_ = {}, over_window_ = {}, distance_rows_ = {}, distance_table_ = {};
  std::array<Turn, 2> turns_ = {};  // of global and local layers
};

std::vector<int> layers_of(const ExitLayout& layout) {
  std::vector<int> out;
  for (const ExitSite& site : layout.sites) out.push_back(site.after);
  return out;
}

// Metadata for runtimes that read no other file.
void add_notes(OnnxGraph& graph, const ExitLayout& layout, const std::string& weights) {
  graph.note("exeunt.exits", fmt::format("{}", fmt::join(layers_of(layout), ",")));
  graph.note("exeunt.labels", Json(layout.labels).dump());
  graph.note("exeunt.problem", std::string(name_of(layout.problem)));
  graph.note("exeunt.weights", weights);
}

std::string all_exits(const Checkpoint& model, OnnxWeights& weights, const std::string& sha256) {
  const ExitLayout& layout = model.exits();
  GraphBuilder builder(model, weights, "all_exits");
  OnnxGraph& graph = builder.graph();
  builder.start_with_text();
  std::vector<std::string> logits, lte;
  size_t next = 0;
  for (int layer = 1; layer <= model.spec().layers; ++layer) {
    builder.layer(layer - 1);
    if (next == layout.sites.size() || layout.sites[next].after != layer) continue;
    const ExitValues exit = builder.exit(layout.sites[next++]);
    logits.push_back(builder.widened(exit.logits, {1}));
    if (exit.lte) lte.push_back(*exit.lte);
  }
  const auto exits = static_cast<int64_t>(layout.sites.size());
  graph.name_value(graph.op("Concat", logits, {{"axis", int64_t{1}}}), "logits");
  graph.output("logits", OnnxType::real, {"batch", exits, layout.outputs});
  if (!lte.empty()) {
    graph.name_value(graph.op("Concat", lte, {{"axis", int64_t{1}}}), "lte");
    graph.output("lte", OnnxType::real, {"batch", exits});
  }
  builder.ramp();
  add_notes(graph, layout, sha256);
  return graph.bytes();
}

std::string segment(const Checkpoint& model, OnnxWeights& weights, size_t index, const std::string& sha256) {
  const ExitLayout& layout = model.exits();
  const ExitSite& site = layout.sites[index];
  const int first = index == 0 ? 1 : layout.sites[index - 1].after + 1;
  GraphBuilder builder(model, weights, fmt::format("segment_{}", index + 1));
  OnnxGraph& graph = builder.graph();
  index == 0 ? builder.start_with_text() : builder.start_with_rows();
  for (int layer = first; layer <= site.after; ++layer) builder.layer(layer - 1);
  const ExitValues exit = builder.exit(site);
  graph.name_value(exit.logits, "logits");
  graph.output("logits", OnnxType::real, {"batch", layout.outputs});
  if (exit.lte) {
    graph.name_value(builder.squeezed(*exit.lte, 1), "lte");
    graph.output("lte", OnnxType::real, {"batch"});
  }
  if (index + 1 == layout.sites.size()) {
    builder.ramp();
  } else {
    graph.name_value(builder.rows(), "hidden_out");
    graph.output("hidden_out", OnnxType::real, {"batch", "tokens", model.spec().hidden});
  }
  add_notes(graph, layout, sha256);
  return graph.bytes();
}

}  // namespace

std::vector<std::string> export_onnx(const Checkpoint& checkpoint, const fs::path& out, const WriteOptions& options) {
  if (checkpoint.exits().ngrams) {
    std::vector<std::string> notices = export_onnx(without_exit_0(checkpoint), out, options);
    notices.push_back("the exit before the first layer is left out: graphs take tokens, and it takes their text");
    return notices;
  }
  const ExitLayout& layout = checkpoint.exits();
  if (layout.sites.empty()) {
    throw Error(
        Code::bad_file,
        fmt::format("{}: the model has no exits: there is nothing to answer with", checkpoint.folder().string()),
        "train it first: exeunt train --model MODEL --data FILE");
  }
  const std::string sha256 = weights_sha256(checkpoint);
  AtomicFolder folder(out, options.replace);
  OnnxWeights weights(folder.path() / kWeightFile);
  write_atomically(folder.path() / kAllExits, all_exits(checkpoint, weights, sha256));
  OrderedJson index{{"format", "exeunt.onnx/1"}, {"opset", kOnnxOpset}, {"weights", sha256}, {"all_exits", kAllExits}};
  index["segments"] = OrderedJson::array();
  for (size_t i = 0; i < layout.sites.size(); ++i) {
    const std::string name = fmt::format("segment-{:02}.onnx", i + 1);
    write_atomically(folder.path() / name, segment(checkpoint, weights, i, sha256));
    index["segments"].push_back({{"file", name},
                                 {"first_layer", i == 0 ? 1 : layout.sites[i - 1].after + 1},
                                 {"exit_after", layout.sites[i].after}});
  }
  weights.commit();
  write_atomically(folder.path() / kIndex, json_text(index));
  std::vector<std::string> notices = write_companions(checkpoint, folder.path());
  if (options.beside) (void)options.beside(folder.path());
  folder.commit();
  return notices;
}

}  // namespace exeunt
