// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/model/family.h"

namespace exeunt {
namespace {

// Written where transformers is to take a model for another family, so that it comes back as what it was.
constexpr std::string_view kFamilyField = "exeunt_family";

std::string known_families() {
  std::vector<std::string_view> names;
  for (const FamilyRow& row : families()) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Family family_of(JsonObject& fields, std::optional<Family> guess) {
  for (const std::string_view field : {kFamilyField, std::string_view("model_type")}) {
    if (!fields.has(field)) continue;
    const std::string type = fields.string(field);
    if (const auto family = family_named(type)) return *family;
    throw Error(Code::bad_file,
                fmt::format("{}: field '{}': got '{}', want one of {}", fields.where(), field, type, known_families()),
                "only these encoders can be read");
  }
  // Files older than `model_type`: tell the family by fields that only it has, then by what the weights look like.
  const auto told = find_family([&](const FamilyRow& row) {
    return std::ranges::any_of(row.telling_fields, [&](std::string_view field) { return fields.has(field); });
  });
  if (told || guess) return told ? *told : *guess;
  throw Error(Code::bad_file, fmt::format("{}: field 'model_type' is missing", fields.where()),
              fmt::format("add it: one of {}", known_families()));
}

Activation activation_of(JsonObject& fields, Activation absent) {
  // The same functions go by several names.
  constexpr std::pair<std::string_view, Activation> kNames[] = {{"gelu", Activation::gelu},
                                                                {"gelu_python", Activation::gelu},
                                                                {"gelu_new", Activation::gelu_new},
                                                                {"gelu_pytorch_tanh", Activation::gelu_new},
                                                                {"relu", Activation::relu}};
  const std::string name = fields.string_or("hidden_act", std::string(name_of(absent)));
  for (const auto& [known, activation] : kNames) {
    if (known == name) return activation;
  }
  fields.fail("hidden_act", "'" + name + "'", "one of gelu, gelu_new, relu");
}

float dropout_of(JsonObject& fields, std::string_view name, double absent) {
  const double rate = fields.number_or(name, absent);
  if (rate < 0 || rate >= 1) fields.fail(name, fmt::format("{}", rate), "a number from 0 to below 1");
  return static_cast<float>(rate);
}

int size_of_field(JsonObject& fields, std::string_view name, int64_t high, int64_t absent) {
  return static_cast<int>(fields.integer_or(name, 1, high, absent));
}

// Fields that change the arithmetic must be rejected, not ignored.
void refuse_unsupported(JsonObject& fields) {
  const std::string positions = fields.string_or("position_embedding_type", "absolute");
  if (positions != "absolute") fields.fail("position_embedding_type", "'" + positions + "'", "'absolute'");
  for (const std::string_view name : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
    if (fields.boolean_or(name, false)) fields.fail(name, "true", "false: only encoders can be read");
  }
  if (const Json* pruned = fields.find("pruned_heads"); pruned != nullptr && !pruned->empty()) {
    fields.fail("pruned_heads", glimpse(*pruned), "no pruned heads");
  }
}

// The shortest decimal that rounds to this float: 1e-12F is written as 1e-12.
double tidy(float value) {
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

ModelSpec read_spec(JsonObject& fields, const FamilyRow& row) {
  const ModelSpec& absent = row.spec;
  ModelSpec spec = absent;
  spec.vocab = size_of_field(fields, "vocab_size", kMaxVocab, absent.vocab);
  spec.hidden = size_of_field(fields, "hidden_size", kMaxHidden, absent.hidden);
  spec.layers = size_of_field(fields, "num_hidden_layers", kMaxLayers, absent.layers);
  spec.heads = size_of_field(fields, "num_attention_heads", kMaxHidden, absent.heads);
  spec.inner = size_of_field(fields, "intermediate_size", kMaxInner, absent.inner);
  spec.positions = size_of_field(fields, "max_position_embeddings", kMaxPositions, absent.positions);
  spec.segments = size_of_field(fields, "type_vocab_size", kMaxSegments, absent.segments);
  spec.embedding = spec.hidden;
  if (spec.hidden % spec.heads != 0) {
    fields.fail("num_attention_heads", std::to_string(spec.heads),
                fmt::format("a divisor of hidden_size, {}", spec.hidden));
  }
  spec.pad_id = static_cast<int>(fields.integer_or("pad_token_id", 0, spec.vocab - 1, absent.pad_id));
  if (absent.position_offset != 0) spec.position_offset = spec.pad_id + 1;
  if (spec.max_tokens() < 1) {
    fields.fail("max_position_embeddings", std::to_string(spec.positions),
                fmt::format("more than {}, where positions start", spec.position_offset));
  }
  if (spec.embedding_projection) {
    spec.embedding = size_of_field(fields, "embedding_size", kMaxHidden, absent.embedding);
  }
  if (absent.groups != 0) {
    spec.groups = size_of_field(fields, "num_hidden_groups", spec.layers, absent.groups);
    const int64_t within = fields.integer_or("inner_group_num", 1, kMaxLayers, 1);
    if (within != 1)
      fields.fail("inner_group_num", std::to_string(within), "1, the only value ALBERT was released with");
  }
  const double eps = fields.number_or("layer_norm_eps", 1e-12);
  if (!(eps > 0 && eps < 1)) fields.fail("layer_norm_eps", fmt::format("{}", eps), "a small number above 0");
  spec.norm_eps = static_cast<float>(eps);
  spec.activation = activation_of(fields, absent.activation);
  spec.hidden_dropout = dropout_of(fields, "hidden_dropout_prob", tidy(absent.hidden_dropout));
  spec.attention_dropout = dropout_of(fields, "attention_probs_dropout_prob", tidy(absent.attention_dropout));
  spec.classifier_dropout =
      dropout_of(fields, row.classifier_dropout, row.classifier_dropout_absent.value_or(spec.hidden_dropout));
  return spec;
}

std::optional<size_t> index_in(std::string_view text) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return index;
}

// id2label has string keys "0", "1", … in any order; label2id is its inverse.
std::vector<std::string> read_labels(JsonObject& fields) {
  std::vector<std::string> labels;
  const Json* by_index = fields.find("id2label");
  const Json* by_name = fields.find("label2id");
  const std::string_view field = by_index != nullptr ? "id2label" : "label2id";
  const Json* given = by_index != nullptr ? by_index : by_name;
  if (given == nullptr) return labels;
  if (!given->is_object()) fields.fail(field, glimpse(*given), "an object");
  if (given->size() > kMaxOutputs) {
    fields.fail(field, fmt::format("{} labels", given->size()), fmt::format("at most {}", kMaxOutputs));
  }
  labels.resize(given->size());
  std::vector<bool> set(labels.size(), false);
  for (const auto& [key, value] : given->items()) {
    std::optional<size_t> index;
    if (by_index != nullptr) {
      index = index_in(key);
    } else if (value.is_number_unsigned()) {
      index = value.get<size_t>();
    }
    if (!index || *index >= labels.size() || set[*index] || (by_index != nullptr && !value.is_string())) {
      fields.fail(field, fmt::format("{}: {}", key, glimpse(value)),
                  fmt::format("each index from 0 to {} once, with a name", labels.size() - 1));
    }
    labels[*index] = by_index != nullptr ? value.get<std::string>() : key;
    set[*index] = true;
  }
  return labels;
}

std::optional<ElbertFields> read_elbert(JsonObject& fields) {
  const bool any = fields.has("num_exit_layers") || fields.has("use_out_pooler") || fields.has("thres_name");
  if (!any) return std::nullopt;
  ElbertFields out;
  out.heads = size_of_field(fields, "num_exit_layers", kMaxLayers, 1);
  out.shared_pooler = fields.boolean_or("use_out_pooler", true);
  out.inner = fields.boolean_or("use_fc2", false);
  std::string input = fields.string_or("pooler_input", "cls");
  std::replace(input.begin(), input.end(), '-', '+');  // ELBERT writes the sum of two inputs as "cls-mean"
  const auto named = pool_input_named(input);
  if (!named) fields.fail("pooler_input", "'" + input + "'", "one of cls, mean, max, cls-mean, cls-max, mean-max");
  out.input = *named;
  const std::string rule = fields.string_or("thres_name", "");
  if (rule.empty()) return out;
  out.rule = ElbertRule{.thres_name = rule,
                        .exit_thres = fields.number_or("exit_thres", 0),
                        .cnt_thres = fields.number_or("cnt_thres", 0),
                        .margin = fields.number_or("margin", 0)};
  if (fields.has("range_tmp")) out.rule->range_tmp = fields.number("range_tmp");
  return out;
}

std::string first_architecture(JsonObject& fields) {
  const Json* list = fields.find("architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string()) return {};
  return list->front().get<std::string>();
}

void add_sizes(OrderedJson& out, const ModelSpec& spec) {
  out["vocab_size"] = spec.vocab;
  if (spec.embedding_projection) out["embedding_size"] = spec.embedding;
  out["hidden_size"] = spec.hidden;
  out["num_hidden_layers"] = spec.layers;
  if (spec.groups != 0) {
    out["num_hidden_groups"] = spec.groups;
    out["inner_group_num"] = 1;
  }
  out["num_attention_heads"] = spec.heads;
  out["intermediate_size"] = spec.inner;
  out["max_position_embeddings"] = spec.positions;
  out["type_vocab_size"] = spec.segments;
  out["pad_token_id"] = spec.pad_id;
  out["layer_norm_eps"] = tidy(spec.norm_eps);
  out["hidden_act"] = std::string(name_of(spec.activation));
  out["hidden_dropout_prob"] = tidy(spec.hidden_dropout);
  out["attention_probs_dropout_prob"] = tidy(spec.attention_dropout);
  out[std::string(row_of(spec.family).classifier_dropout)] = tidy(spec.classifier_dropout);
  out["position_embedding_type"] = "absolute";
}

}  // namespace

ModelConfig parse_config(const Json& value, const std::string& where, std::optional<Family> guess) {
  JsonObject fields(value, where);
  ModelConfig config;
  const Family family = family_of(fields, guess);
  refuse_unsupported(fields);
  config.spec = read_spec(fields, row_of(family));
  config.heads.labels = read_labels(fields);
  config.heads.problem_type = fields.string_or("problem_type", "");
  config.heads.architecture = first_architecture(fields);
  if (config.spec.layer_poolers && fields.has("num_output_layers")) {
    const int64_t exits = fields.integer("num_output_layers", 1, kMaxLayers);
    if (exits > config.spec.layers) {
      fields.fail("num_output_layers", std::to_string(exits),
                  fmt::format("at most num_hidden_layers, {}", config.spec.layers));
    }
    config.heads.output_layers = static_cast<int>(exits);
  }
  if (config.spec.groups != 0) config.heads.elbert = read_elbert(fields);
  return config;
}

OrderedJson exeunt_config(const ModelSpec& spec) {
  OrderedJson out;
  out["model_type"] = std::string(name_of(spec.family));
  add_sizes(out, spec);
  return out;
}

OrderedJson hugging_face_config(const ModelSpec& spec, const ExitLayout& exits, std::string_view architecture,
                                DType dtype) {
  OrderedJson out;
  const Family exported_as = row_of(spec.family).exported_as;
  out["architectures"] = {std::string(architecture)};
  out["model_type"] = std::string(name_of(exported_as));
  if (exported_as != spec.family) out[std::string(kFamilyField)] = std::string(name_of(spec.family));
  add_sizes(out, spec);
  if (!exits.sites.empty()) {
    const bool regression = exits.problem == Problem::regression;
    const std::vector<std::string> labels = regression ? std::vector<std::string>{"LABEL_0"} : exits.labels;
    for (size_t i = 0; i < labels.size(); ++i) out["id2label"][std::to_string(i)] = labels[i];
    for (size_t i = 0; i < labels.size(); ++i) out["label2id"][labels[i]] = i;
    out["problem_type"] = regression                              ? "regression"
                          : exits.problem == Problem::multi_label ? "multi_label_classification"
                                                                  : "single_label_classification";
  }
  out["torch_dtype"] = dtype == DType::f16 ? "float16" : dtype == DType::bf16 ? "bfloat16" : "float32";
  return out;
}

}  // namespace exeunt
