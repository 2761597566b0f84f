// SPDX-License-Identifier: Apache-2.0
// config.json of Hugging Face folders and of the five systems, and Google's bert_config.json and albert_config.json.
// These files have many fields of no concern to us, so unknown ones are ignored.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/base/tensor.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// An exit rule as the keys of a config.json give it, which name its fields. Values may be floats: cnt_thres 8.0.
struct ConfigRule {
  std::string thres_name = "bias_1";  // bias_1, bias_2, bias_3, entropy, logits
  double exit_thres = 0.1, cnt_thres = 8, margin = 0;
  std::optional<double> range_tmp = {};
};

// As policy text, "window:0.1,8,bias_1". Throws Error (usage) where a value is missing or out of range.
[[nodiscard]] std::string config_policy(const ConfigRule& rule, int outputs);

// Heads of groups of layers, whose shape and exit rule are in config.json.
struct ExitLayerFields {
  int heads = 1;              // num_exit_layers
  bool shared_pooler = true;  // use_out_pooler
  bool inner = false;         // use_fc2
  PoolInput input = PoolInput::cls;
  std::optional<ConfigRule> rule = {};
};

// What a configuration says about heads, before the weights are read.
struct HeadHints {
  std::vector<std::string> labels = {};   // in the order of the outputs; empty = not given
  std::string problem_type = {};          // Hugging Face's word, or empty
  std::string architecture = {};          // first of `architectures`, or empty
  std::optional<int> output_layers = {};  // exits at this many last layers
  PoolerShape pooler = {};                // of the family's own head, and what it reads
  PoolInput input = PoolInput::cls;
  std::optional<ExitLayerFields> exit_layers = {};
};

struct ModelConfig {
  ModelSpec spec = {};
  HeadHints heads = {};
};

// `guess` is the family to assume if the file names none. Throws Error naming the field, got and wanted.
[[nodiscard]] ModelConfig parse_config(const Json& value, const std::string& where, std::optional<Family> guess = {});

// config.json of an Exeunt folder: the backbone alone, since exits.json holds the rest.
[[nodiscard]] OrderedJson exeunt_config(const ModelSpec& spec);

// For transformers. `architecture` is the class that loads the folder; one with poolers after every layer goes as a
// plain BERT.
[[nodiscard]] OrderedJson hugging_face_config(const ModelSpec& spec, const ExitLayout& exits,
                                              std::string_view architecture, DType dtype);

// The first of `architectures` in config.json, or empty.
[[nodiscard]] std::string first_architecture(JsonObject& fields);

// "BertForTokenClassification labels each token": what a model of another task does; empty for others.
[[nodiscard]] std::string other_task(const std::string& architecture);
// The same of a folder's config.json.
[[nodiscard]] std::string other_task_in(const std::filesystem::path& folder);

}  // namespace exeunt
