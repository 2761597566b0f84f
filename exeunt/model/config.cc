// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"
#include "exeunt/model/exeunt_folder.h"
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
    const std::string task = other_task(first_architecture(fields));
    throw Error(Code::bad_file,
                fmt::format("{}: field '{}': got '{}', want one of {}", fields.where(), field, type, known_families()),
                fmt::format("{}only these encoders can be read", task.empty() ? "" : task + ", and "));
  }
  // Files older than `model_type`: detect the family by fields that only it has, then by what the weights look like.
  const auto detected = find_family([&](const FamilyRow& row) {
    return std::ranges::any_of(row.telling_fields, [&](std::string_view field) { return fields.has(field); });
  });
  if (detected || guess) return detected ? *detected : *guess;
  throw Error(Code::bad_file, fmt::format("{}: field 'model_type' is missing", fields.where()),
              fmt::format("add it: one of {}", known_families()));
}

Activation activation_of(JsonObject& fields, std::string_view field, Activation absent) {
  // The same functions go by several names.
  constexpr std::pair<std::string_view, Activation> kNames[] = {{"gelu", Activation::gelu},
                                                                {"gelu_python", Activation::gelu},
                                                                {"gelu_new", Activation::gelu_new},
                                                                {"gelu_pytorch_tanh", Activation::gelu_new},
                                                                {"relu", Activation::relu}};
  const std::string name = fields.string_or(field, std::string(word_of(absent)));
  for (const auto& [known, activation] : kNames) {
    if (known == name) return activation;
  }
  fields.fail(field, "'" + name + "'", "one of gelu, gelu_new, relu");
}

// Limits are those of floats, here and below: what is rounded to a limit could be written, but not be read again.
float dropout_of(JsonObject& fields, std::string_view name, double absent) {
  const double number = fields.number_or(name, absent);
  const auto rate = static_cast<float>(number);
  if (rate < 0 || rate >= 1) fields.fail(name, fmt::format("{}", number), "a number from 0 to below 1");
  return rate;
}

int size_of_field(JsonObject& fields, std::string_view name, int64_t high, int64_t absent) {
  return static_cast<int>(fields.integer_or(name, 1, high, absent));
}

float base_of(JsonObject& fields, std::string_view name, double absent) {
  const double number = fields.number_or(name, absent);
  const auto base = static_cast<float>(number);
  if (!(base > 1 && base < 1e12F)) fields.fail(name, fmt::format("{}", number), "a number above 1");
  return base;
}

// A field that only one value of is supported.
void require_flag(JsonObject& fields, std::string_view name, bool absent, bool wanted) {
  if (fields.boolean_or(name, absent) == wanted) return;
  fields.fail(name, wanted ? "false" : "true", wanted ? "true" : "false: no other kind is supported");
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

// Where transformers 5 writes one base per kind of layer, earlier versions wrote two fields.
void read_rotary(JsonObject& fields, ModelSpec& spec) {
  if (fields.find("rope_scaling") != nullptr) {
    fields.fail("rope_scaling", glimpse(*fields.find("rope_scaling")), "null: positions cannot be scaled");
  }
  const Json* kinds = fields.find("rope_parameters");
  if (kinds == nullptr) {
    spec.rotary_base = base_of(fields, "global_rope_theta", spec.rotary_base);
    spec.local_rotary_base = base_of(fields, "local_rope_theta", spec.local_rotary_base);
    return;
  }
  JsonObject by_kind(*kinds, fields.where() + ": rope_parameters");
  for (const auto& [kind, base] :
       {std::pair{"full_attention", &spec.rotary_base}, std::pair{"sliding_attention", &spec.local_rotary_base}}) {
    const Json* given = by_kind.find(kind);
    if (given == nullptr) continue;
    JsonObject one(*given, by_kind.where() + ": " + kind);
    const std::string type = one.string_or("rope_type", "default");
    if (type != "default") one.fail("rope_type", "'" + type + "'", "'default': positions cannot be scaled");
    *base = base_of(one, "rope_theta", *base);
  }
}

// Which layers attend to all tokens: every nth, from the first on. transformers 5 writes the kind of every layer.
int read_global_every(JsonObject& fields, const ModelSpec& spec) {
  const Json* kinds = fields.find("layer_types");
  if (kinds == nullptr) {
    // Beyond the number of layers all numbers mean the same, the first layer alone, and the kinds below tell only that.
    return std::min(size_of_field(fields, "global_attn_every_n_layers", kMaxLayers, spec.global_every), spec.layers);
  }
  const auto layers = static_cast<size_t>(spec.layers);
  const auto global = [&](size_t i) { return (*kinds)[i] == "full_attention"; };
  constexpr std::string_view kWanted =
      "full_attention in every nth layer from the first on, sliding_attention in the others";
  if (!kinds->is_array() || kinds->size() != layers) {
    fields.fail("layer_types", glimpse(*kinds), fmt::format("a list of {} kinds, as many as there are layers", layers));
  }
  size_t every = 1;
  while (every < layers && !global(every)) ++every;
  for (size_t i = 0; i < layers; ++i) {
    const bool local = (*kinds)[i] == "sliding_attention";
    if (global(i) != (i % every == 0) || local == global(i)) fields.fail("layer_types", glimpse(*kinds), kWanted);
  }
  return static_cast<int>(every);
}

void read_modernbert(JsonObject& fields, ModelSpec& spec) {
  for (const std::string_view name : {"norm_bias", "attention_bias", "mlp_bias"}) {
    require_flag(fields, name, false, false);
  }
  if (spec.head_width() % 2 != 0) {
    fields.fail("num_attention_heads", std::to_string(spec.heads),
                fmt::format("one that leaves each an even part of hidden_size, {}", spec.hidden));
  }
  spec.window = static_cast<int>(fields.integer_or("local_attention", 2, kMaxPositions, 2 * spec.window) / 2);
  read_rotary(fields, spec);
  spec.global_every = read_global_every(fields, spec);
}

// "p2c|c2p" or a list of the two.
bool asks_both_ways(const Json& value) {
  std::string text;
  if (value.is_string()) text = value.get<std::string>();
  if (value.is_array()) {
    for (const Json& item : value) {
      if (!text.empty()) text += '|';
      if (item.is_string()) text += item.get<std::string>();
    }
  }
  return text == "p2c|c2p" || text == "c2p|p2c";
}

// What all of DeBERTa-v3 has, of the many kinds its code can do.
void read_deberta(JsonObject& fields, ModelSpec& spec) {
  require_flag(fields, "relative_attention", false, true);
  require_flag(fields, "share_att_key", false, true);
  require_flag(fields, "position_biased_input", true, false);
  const Json* ways = fields.find("pos_att_type");
  if (ways == nullptr || !asks_both_ways(*ways)) {
    fields.fail("pos_att_type", ways == nullptr ? "none" : glimpse(*ways), "'p2c|c2p'");
  }
  const std::string norm = fields.string_or("norm_rel_ebd", "none");
  if (norm != "layer_norm") fields.fail("norm_rel_ebd", "'" + norm + "'", "'layer_norm'");
  if (const int64_t kernel = fields.integer_or("conv_kernel_size", 0, kMaxPositions, 0); kernel != 0) {
    fields.fail("conv_kernel_size", std::to_string(kernel), "0: layers with a convolution are not supported");
  }
  for (const std::string_view name : {"embedding_size", "pooler_hidden_size", "attention_head_size"}) {
    if (fields.find(name) == nullptr) continue;
    const int64_t size = fields.integer(name, 1, kMaxHidden);
    const int wanted = name == "attention_head_size" ? spec.head_width() : spec.hidden;
    if (size != wanted) fields.fail(name, std::to_string(size), fmt::format("{}, as hidden_size asks for", wanted));
  }
  // -1 stands for "none" and for "as many as there are positions".
  const int64_t buckets = fields.integer_or("position_buckets", -1, kMaxPositions, -1);
  const int64_t farthest = fields.integer_or("max_relative_positions", -1, kMaxPositions, -1);
  if (buckets < 4 || buckets % 2 != 0) {
    fields.fail("position_buckets", std::to_string(buckets), "an even number from 4 on: distances go into buckets");
  }
  spec.relative_buckets = static_cast<int>(buckets);
  spec.relative_distance = farthest < 1 ? spec.positions : static_cast<int>(farthest);
  if (spec.relative_distance <= spec.relative_buckets / 2 + 1) {
    fields.fail("max_relative_positions", std::to_string(spec.relative_distance),
                fmt::format("more than {}, half of position_buckets and one", spec.relative_buckets / 2 + 1));
  }
}

ModelSpec read_spec(JsonObject& fields, const FamilyRow& row) {
  const ModelSpec& absent = row.spec;
  ModelSpec spec = absent;
  const FieldNames& names = row.fields;
  spec.vocab = size_of_field(fields, "vocab_size", kMaxVocab, absent.vocab);
  spec.hidden = size_of_field(fields, names.hidden, kMaxHidden, absent.hidden);
  spec.layers = size_of_field(fields, names.layers, kMaxLayers, absent.layers);
  spec.heads = size_of_field(fields, names.heads, kMaxHidden, absent.heads);
  spec.inner = size_of_field(fields, names.inner, kMaxInner, absent.inner);
  spec.positions = size_of_field(fields, "max_position_embeddings", kMaxPositions, absent.positions);
  if (!names.segments.empty()) {
    const int least = absent.segments == 0 ? 0 : 1;
    spec.segments = static_cast<int>(fields.integer_or(names.segments, least, kMaxSegments, absent.segments));
  }
  spec.embedding = spec.hidden;
  if (spec.hidden % spec.heads != 0) {
    fields.fail(names.heads, std::to_string(spec.heads), fmt::format("a divisor of {}, {}", names.hidden, spec.hidden));
  }
  spec.pad_id = static_cast<int>(fields.integer_or("pad_token_id", 0, spec.vocab - 1, absent.pad_id));
  if (spec.pad_id >= spec.vocab) {
    fields.fail("pad_token_id", fmt::format("none, which stands for {}", spec.pad_id),
                fmt::format("a number below vocab_size, {}", spec.vocab));
  }
  if (absent.position_offset != 0) spec.position_offset = spec.pad_id + 1;
  if (spec.max_tokens() < 1) {
    fields.fail("max_position_embeddings", std::to_string(spec.positions),
                fmt::format("more than {}, where positions start", spec.position_offset));
  }
  if (spec.embedding_projection) {
    spec.embedding = size_of_field(fields, "embedding_size", kMaxHidden, absent.embedding);
    if (row.embeddings.projected_if_needed) spec.embedding_projection = spec.embedding != spec.hidden;
  }
  if (absent.groups != 0) {
    spec.groups = size_of_field(fields, "num_hidden_groups", spec.layers, absent.groups);
    const int64_t within = fields.integer_or("inner_group_num", 1, kMaxLayers, 1);
    if (within != 1)
      fields.fail("inner_group_num", std::to_string(within), "1, the only value ALBERT was released with");
  }
  if (!names.norm_eps.empty()) {
    const double eps = fields.number_or(names.norm_eps, short_double(absent.norm_eps));
    spec.norm_eps = static_cast<float>(eps);
    if (!(spec.norm_eps > 0 && spec.norm_eps < 1))
      fields.fail(names.norm_eps, fmt::format("{}", eps), "a small number above 0");
  }
  spec.activation = activation_of(fields, names.activation, absent.activation);
  spec.hidden_dropout = dropout_of(fields, names.hidden_dropout, short_double(absent.hidden_dropout));
  spec.attention_dropout = dropout_of(fields, names.attention_dropout, short_double(absent.attention_dropout));
  spec.classifier_dropout =
      dropout_of(fields, names.classifier_dropout, row.classifier_dropout_absent.value_or(spec.hidden_dropout));
  if (absent.window != 0) read_modernbert(fields, spec);
  if (absent.relative_buckets != 0) read_deberta(fields, spec);
  return spec;
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
      index = number_of<size_t>(key);
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

double in_range(std::string_view key, double value, double low, double high) {
  if (!(value >= low && value <= high))
    throw Error(Code::usage, fmt::format("{}: got {}, want a number from {} to {}", key, value, low, high));
  return value;
}

std::optional<ExitLayerFields> read_exit_layers(JsonObject& fields) {
  const bool any = fields.has("num_exit_layers") || fields.has("use_out_pooler") || fields.has("thres_name");
  if (!any) return std::nullopt;
  ExitLayerFields out;
  out.heads = size_of_field(fields, "num_exit_layers", kMaxLayers, 1);
  out.shared_pooler = fields.boolean_or("use_out_pooler", true);
  out.inner = fields.boolean_or("use_fc2", false);
  std::string input = fields.string_or("pooler_input", "cls");
  std::ranges::replace(input, '-', '+');  // "cls-mean" is the sum of the two
  const auto known = named<PoolInput>(input);
  if (!known) fields.fail("pooler_input", "'" + input + "'", "one of cls, mean, max, cls-mean, cls-max, mean-max");
  out.input = *known;
  const std::string rule = fields.string_or("thres_name", "");
  if (rule.empty()) return out;
  out.rule = ConfigRule{.thres_name = rule,
                        .exit_thres = fields.number_or("exit_thres", 0),
                        .cnt_thres = fields.number_or("cnt_thres", 0),
                        .margin = fields.number_or("margin", 0)};
  if (fields.has("range_tmp")) out.rule->range_tmp = fields.number("range_tmp");
  return out;
}

// What the family's own head is, as far as its configuration says.
void read_head(JsonObject& fields, const FamilyRow& row, HeadHints& heads) {
  heads.pooler = row.pooler;
  if (!row.head_activation.empty()) {
    const std::string name = fields.string_or(row.head_activation, std::string(word_of(row.pooler.activation)));
    const auto activation = named<PoolerActivation>(name);
    if (!activation) {
      fields.fail(row.head_activation, "'" + name + "'",
                  fmt::format("one of {}", fmt::join(names_of(PoolerActivation{}), ", ")));
    }
    heads.pooler.activation = *activation;
  }
  if (!row.pools_mean) return;
  heads.pooler.bias = fields.boolean_or("classifier_bias", false);
  const std::string input = fields.string_or("classifier_pooling", "cls");
  if (input != "cls" && input != "mean") fields.fail("classifier_pooling", "'" + input + "'", "one of cls, mean");
  heads.input = *named<PoolInput>(input);
}

void add_modernbert(OrderedJson& out, const ModelSpec& spec) {
  out["norm_bias"] = out["attention_bias"] = out["mlp_bias"] = false;
  out["embedding_dropout"] = short_double(spec.hidden_dropout);
  out["local_attention"] = 2 * spec.window;
  out["global_attn_every_n_layers"] = spec.global_every;
  out["layer_types"] = OrderedJson::array();
  for (int i = 0; i < spec.layers; ++i) {
    out["layer_types"].push_back(spec.is_local(i) ? "sliding_attention" : "full_attention");
  }
  const auto rope = [](float base) {
    return OrderedJson{{"rope_type", "default"}, {"rope_theta", short_double(base)}};
  };
  out["global_rope_theta"] = short_double(spec.rotary_base);
  out["local_rope_theta"] = short_double(spec.local_rotary_base);
  out["rope_parameters"] = {{"full_attention", rope(spec.rotary_base)},
                            {"sliding_attention", rope(spec.local_rotary_base)}};
}

void add_deberta(OrderedJson& out, const ModelSpec& spec) {
  out["relative_attention"] = out["share_att_key"] = true;
  out["position_biased_input"] = false;
  out["pos_att_type"] = {"p2c", "c2p"};
  out["norm_rel_ebd"] = "layer_norm";
  out["position_buckets"] = spec.relative_buckets;
  out["max_relative_positions"] = spec.relative_distance;
  out["pooler_hidden_size"] = spec.hidden;
}

void add_sizes(OrderedJson& out, const ModelSpec& spec) {
  const FamilyRow& row = row_of(row_of(spec.family).exported_as);
  const FieldNames& names = row_of(spec.family).fields;
  const auto put = [&](std::string_view name, const OrderedJson& value) {
    if (!name.empty()) out[std::string(name)] = value;
  };
  out["vocab_size"] = spec.vocab;
  if (row.spec.embedding_projection) out["embedding_size"] = spec.embedding;
  put(names.hidden, spec.hidden);
  put(names.layers, spec.layers);
  if (spec.groups != 0) {
    out["num_hidden_groups"] = spec.groups;
    out["inner_group_num"] = 1;
  }
  put(names.heads, spec.heads);
  put(names.inner, spec.inner);
  out["max_position_embeddings"] = spec.positions;
  put(names.segments, spec.segments);
  out["pad_token_id"] = spec.pad_id;
  put(names.norm_eps, short_double(spec.norm_eps));
  put(names.activation, std::string(word_of(spec.activation)));
  put(names.hidden_dropout, short_double(spec.hidden_dropout));
  put(names.attention_dropout, short_double(spec.attention_dropout));
  put(names.classifier_dropout, short_double(spec.classifier_dropout));
  if (spec.position_table) out["position_embedding_type"] = "absolute";
  if (spec.window != 0) add_modernbert(out, spec);
  if (spec.relative_buckets != 0) add_deberta(out, spec);
}

}  // namespace

std::string first_architecture(JsonObject& fields) {
  const Json* list = fields.find("architectures");
  if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string()) return {};
  return list->front().get<std::string>();
}

std::string other_task(const std::string& architecture) {
  constexpr std::pair<std::string_view, std::string_view> kTasks[] = {
      {"ForTokenClassification", "labels each token"},
      {"ForQuestionAnswering", "finds answers within a text"},
      {"ForMultipleChoice", "chooses among several texts"},
      {"ForNextSentencePrediction", "tells whether a text follows another"},
      {"ForMaskedLM", "fills in masked words"},
      {"ForConditionalGeneration", "writes texts"},
      {"ForCausalLM", "writes texts"},
      {"LMHeadModel", "writes texts"},
      {"EncoderDecoderModel", "writes texts"}};
  for (const auto& [suffix, does] : kTasks) {
    if (architecture.ends_with(suffix)) return fmt::format("{} {}", architecture.substr(0, 64), does);
  }
  return {};
}

std::string other_task_in(const std::filesystem::path& folder) {
  const ReadPath path = ReadPath::in(folder, kConfigFile);
  if (!path_exists(path.path())) return {};
  const Json config = read_json(path);
  JsonObject fields(config, path.string());
  return other_task(first_architecture(fields));
}

ModelConfig parse_config(const Json& value, const std::string& where, std::optional<Family> guess) {
  JsonObject fields(value, where);
  ModelConfig config;
  const Family family = family_of(fields, guess);
  refuse_unsupported(fields);
  config.spec = read_spec(fields, row_of(family));
  config.heads.labels = read_labels(fields);
  config.heads.problem_type = fields.string_or("problem_type", "");
  config.heads.architecture = first_architecture(fields);
  read_head(fields, row_of(family), config.heads);
  if (config.spec.layer_poolers && fields.has("num_output_layers")) {
    const int64_t exits = fields.integer("num_output_layers", 1, kMaxLayers);
    if (exits > config.spec.layers) {
      fields.fail("num_output_layers", std::to_string(exits),
                  fmt::format("at most num_hidden_layers, {}", config.spec.layers));
    }
    config.heads.output_layers = static_cast<int>(exits);
  }
  if (config.spec.groups != 0) config.heads.exit_layers = read_exit_layers(fields);
  return config;
}

OrderedJson exeunt_config(const ModelSpec& spec) {
  OrderedJson out;
  out["model_type"] = std::string(name_of(spec.family));
  add_sizes(out, spec);
  return out;
}

namespace {

// As transformers has it.
std::string_view problem_type(Problem problem) noexcept {
  switch (problem) {
    case Problem::classification:
      return "single_label_classification";
    case Problem::multi_label:
      return "multi_label_classification";
    case Problem::regression:
      return "regression";
  }
  return {};
}

}  // namespace

OrderedJson hugging_face_config(const ModelSpec& spec, const ExitLayout& exits, std::string_view architecture,
                                DType dtype) {
  OrderedJson out;
  const Family exported_as = row_of(spec.family).exported_as;
  out["architectures"] = {std::string(architecture)};
  out["model_type"] = std::string(name_of(exported_as));
  if (exported_as != spec.family) out[std::string(kFamilyField)] = std::string(name_of(spec.family));
  add_sizes(out, spec);
  const FamilyRow& row = row_of(exported_as);
  const PoolerShape pooler = exits.sites.empty() ? row.pooler : exits.pooler;
  if (!row.head_activation.empty()) out[std::string(row.head_activation)] = std::string(word_of(pooler.activation));
  if (row.pools_mean) {
    out["classifier_pooling"] = exits.input == PoolInput::mean ? "mean" : "cls";
    out["classifier_bias"] = pooler.bias;
  }
  if (!exits.sites.empty()) {
    const bool named = exits.problem != Problem::regression;
    const std::vector<std::string> labels = named ? exits.labels : std::vector<std::string>{"LABEL_0"};
    OrderedJson::object_t id2label, label2id;  // names are distinct, so nothing is looked for among those before it
    for (size_t i = 0; i < labels.size(); ++i) id2label.emplace_back(std::to_string(i), labels[i]);
    for (size_t i = 0; i < labels.size(); ++i) label2id.emplace_back(labels[i], i);
    out["id2label"] = std::move(id2label);
    out["label2id"] = std::move(label2id);
    out["problem_type"] = problem_type(exits.problem);
  }
  out["torch_dtype"] = dtype == DType::f16 ? "float16" : dtype == DType::bf16 ? "bfloat16" : "float32";
  return out;
}

std::string config_policy(const ConfigRule& rule, int outputs) {
  static const std::vector<std::string> names{"bias_1", "bias_2", "bias_3", "entropy", "logits"};
  if (std::find(names.begin(), names.end(), rule.thres_name) == names.end()) {
    throw Error(Code::usage, fmt::format("thres_name: got '{}'", rule.thres_name.substr(0, 64)),
                suggestion(rule.thres_name, names));
  }
  // At or below zero the threshold never lets a text leave.
  const double threshold = in_range("exit_thres", std::max(0.0, rule.exit_thres), 0, 1);
  if (rule.thres_name == "entropy") return fmt::format("nentropy:{}", threshold);
  if (rule.thres_name == "logits") {
    // "The smallest probability is below t" is "the largest exceeds 1 - t" where there are two.
    return outputs == 2 ? fmt::format("confidence:{}", static_cast<float>(1 - threshold))
                        : fmt::format("minprob:{}", threshold);
  }
  std::string text = fmt::format("window:{},{},{}", threshold,
                                 std::trunc(in_range("cnt_thres", rule.cnt_thres, 1, 1000)), rule.thres_name);
  if (in_range("margin", rule.margin, 0, 0.5) != 0) text += fmt::format(",margin={}", rule.margin);
  if (rule.thres_name != "bias_3") return text;
  if (!rule.range_tmp) throw Error(Code::usage, "bias_3 needs range_tmp");
  return text + fmt::format(",range={}", in_range("range_tmp", *rule.range_tmp, 0, 1));
}

}  // namespace exeunt
