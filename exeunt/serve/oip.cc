// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>

#include "exeunt/base/checked.h"
#include "exeunt/serve/protocols.h"

namespace exeunt::serve {
namespace {

constexpr std::array<std::string_view, 5> kOutputs = {"label", "scores", "logits", "exit_layer", "details"};

struct Tensor {
  std::string where;
  std::string datatype;
  std::vector<int64_t> shape;
  std::vector<const Json*> data;  // flat

  [[noreturn]] void fail(const std::string& what) const { throw invalid(fmt::format("{}: {}", where, what)); }
};

// The values of a nested or flat list, in row-major order. Depth is bounded by the parser.
void flatten(const Json& value, size_t limit, Tensor& out) {
  if (!value.is_array()) {
    if (out.data.size() >= limit) out.fail(fmt::format("has more than the {} values of its shape", limit));
    out.data.push_back(&value);
    return;
  }
  for (const Json& item : value) flatten(item, limit, out);
}

Tensor read_tensor(const Json& value, size_t nth, const JobRules& rules) {
  JsonObject fields(value, fmt::format("inputs[{}]", nth));
  Tensor out{.where = fields.where(), .datatype = fields.string("datatype"), .shape = {}, .data = {}};
  const Json& shape = fields.get("shape");
  if (!shape.is_array() || shape.empty() || shape.size() > 2) out.fail("shape: want [N] or [N, L]");
  for (const Json& side : shape) {
    if (!side.is_number_integer() || side < 1 || side > (1 << 24)) {
      out.fail(fmt::format("shape: got {}, want whole numbers from 1 to {}", glimpse(side), 1 << 24));
    }
    out.shape.push_back(side.get<int64_t>());
  }
  check_batch(static_cast<size_t>(out.shape[0]), rules);
  const auto elements = checked_elements(out.shape);
  if (!elements) out.fail("shape: too large");
  flatten(fields.get("data"), *elements, out);
  if (out.data.size() != *elements) {
    out.fail(fmt::format("has {} values, its shape {}", out.data.size(), *elements));
  }
  return out;
}

std::vector<std::string> strings_of(const Tensor& tensor) {
  if (tensor.datatype != "BYTES")
    tensor.fail(fmt::format("datatype: got {}, want BYTES", tensor.datatype.substr(0, 16)));
  if (tensor.shape.size() == 2 && tensor.shape[1] != 1) tensor.fail("shape: want [N] or [N, 1]");
  std::vector<std::string> out;
  for (const Json* value : tensor.data) {
    if (!value->is_string()) tensor.fail(fmt::format("data: got {}, want strings", glimpse(*value)));
    out.push_back(value->get<std::string>());
  }
  return out;
}

std::vector<int64_t> numbers_of(const Tensor& tensor, int64_t high) {
  if (tensor.datatype != "INT64" && tensor.datatype != "INT32") {
    tensor.fail(fmt::format("datatype: got {}, want INT64 or INT32", tensor.datatype.substr(0, 16)));
  }
  if (tensor.shape.size() != 2) tensor.fail("shape: want [N, L]");
  std::vector<int64_t> out;
  for (const Json* value : tensor.data) {
    if (!value->is_number_integer() || *value < 0 || *value > high) {
      tensor.fail(fmt::format("data: got {}, want whole numbers from 0 to {}", glimpse(*value), high));
    }
    out.push_back(value->get<int64_t>());
  }
  return out;
}

using Tensors = std::map<std::string, Tensor, std::less<>>;

Tensors read_tensors(const Json& inputs, const JobRules& rules) {
  if (!inputs.is_array() || inputs.empty() || inputs.size() > 3)
    throw invalid("body: field 'inputs': want 1 to 3 tensors");
  Tensors out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    JsonObject fields(inputs[i], fmt::format("inputs[{}]", i));
    const std::string name =
        fields.choice("name", {"text", "text_pair", "input_ids", "attention_mask", "token_type_ids"});
    if (!out.emplace(name, read_tensor(inputs[i], i, rules)).second) fields.fail("name", name, "each tensor once");
  }
  return out;
}

void read_texts(const Tensors& tensors, const JobRules& rules, Job& job) {
  if (tensors.size() != tensors.count("text") + tensors.count("text_pair") || !tensors.contains("text")) {
    throw invalid("body: field 'inputs': want text with or without text_pair, or input_ids with its mask and types");
  }
  add_texts(strings_of(tensors.at("text")), tensors.at("text").where, job);
  const auto pair = tensors.find("text_pair");
  if (pair == tensors.end()) return;
  refuse_pairs(rules, "`text` with two elements");
  std::vector<std::string> seconds = strings_of(pair->second);
  if (seconds.size() != job.texts.size()) pair->second.fail("want as many texts as `text`");
  for (size_t i = 0; i < seconds.size(); ++i) {
    check_text(seconds[i], pair->second.where);
    job.texts[i].pair = std::move(seconds[i]);
  }
}

// How many tokens of a row are real: the mask must be ones, then zeros.
size_t real_tokens(std::span<const int64_t> mask, const Tensor& tensor) {
  const auto end = std::find(mask.begin(), mask.end(), 0);
  if (std::any_of(end, mask.end(), [](int64_t m) { return m != 0; })) tensor.fail("want ones, then zeros, in each row");
  if (end == mask.begin()) tensor.fail("a row without tokens");
  return static_cast<size_t>(end - mask.begin());
}

void read_tokens(const Tensors& tensors, const JobRules& rules, Job& job) {
  if (tensors.contains("text") || tensors.contains("text_pair")) throw invalid("body: want texts or tokens, not both");
  const Tensor& ids = tensors.at("input_ids");
  const std::vector<int64_t> values = numbers_of(ids, rules.model.vocabulary - 1);
  const auto part = [&](std::string_view name, int64_t high) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return std::vector<int64_t>{};
    if (found->second.shape != ids.shape) found->second.fail("want the shape of input_ids");
    return numbers_of(found->second, high);
  };
  const std::vector<int64_t> mask = part("attention_mask", 1),
                             types = part("token_type_ids", std::clamp(rules.model.segments, 1, 256) - 1);
  const auto width = static_cast<size_t>(ids.shape[1]);
  for (size_t row = 0; row < static_cast<size_t>(ids.shape[0]); ++row) {
    const size_t first = row * width;
    const size_t count =
        mask.empty() ? width : real_tokens(std::span(mask).subspan(first, width), tensors.at("attention_mask"));
    if (count > static_cast<size_t>(rules.model.max_tokens)) {
      ids.fail(fmt::format("a row of {} tokens; the model takes {}", count, rules.model.max_tokens));
    }
    JobText text;
    for (size_t i = first; i < first + count; ++i) {
      text.ids.push_back(static_cast<int32_t>(values[i]));
      text.types.push_back(types.empty() ? uint8_t{0} : static_cast<uint8_t>(types[i]));
    }
    job.texts.push_back(std::move(text));
  }
}

ExitOptions parse_parameters(const Json& value, int& unknown) {
  constexpr std::array<std::string_view, 6> known = {"exit_policy", "max_layers", "deadline_ms",
                                                     "details",     "timeout",    "priority"};
  JsonObject fields(value, "parameters");
  unknown += count_unknown(value, known);
  Json exit = Json::object();
  constexpr std::array<std::pair<const char*, const char*>, 4> ours = {{{"exit_policy", "policy"},
                                                                        {"max_layers", "max_layers"},
                                                                        {"deadline_ms", "deadline_ms"},
                                                                        {"details", "details"}}};
  for (const auto& [theirs, name] : ours) {
    if (const Json* found = fields.find(theirs)) exit[name] = *found;
  }
  ExitOptions ask = parse_exit(exit);
  if (fields.has("timeout")) {  // Triton's, in microseconds
    const int64_t timeout = fields.integer("timeout", 1, 3'600'000'000);
    ask.deadline_us = std::min(ask.deadline_us.value_or(timeout), timeout);
  }
  return ask;
}

std::vector<std::string> parse_outputs(const Json& outputs) {
  if (!outputs.is_array() || outputs.size() > 16) throw invalid("body: field 'outputs': want a list of outputs");
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs.size(); ++i) {
    JsonObject fields(outputs[i], fmt::format("outputs[{}]", i));
    names.push_back(fields.choice("name", std::vector<std::string>(kOutputs.begin(), kOutputs.end())));
    if (std::count(names.begin(), names.end(), names.back()) > 1) fields.fail("name", names.back(), "each output once");
  }
  return names;
}

}  // namespace

Job parse_infer(const Json& body, const JobRules& rules) {
  return refuse_errors([&] {
    constexpr std::array<std::string_view, 4> known = {"id", "parameters", "inputs", "outputs"};
    JsonObject fields(body, "body");
    Job job;
    job.shape = Shape::infer;
    job.truncate = rules.auto_truncate;
    job.unknown_fields = count_unknown(body, known);
    if (fields.has("id")) job.id = fields.string("id");
    if (const Json* parameters = fields.find("parameters"))
      job.exit = parse_parameters(*parameters, job.unknown_fields);
    const Tensors tensors = read_tensors(fields.get("inputs"), rules);
    if (tensors.contains("input_ids")) {
      read_tokens(tensors, rules, job);
    } else {
      read_texts(tensors, rules, job);
    }
    if (const Json* outputs = fields.find("outputs")) job.outputs = parse_outputs(*outputs);
    if (job.outputs.empty()) job.outputs = {"label", "scores", "logits", "exit_layer"};
    if (job.exit.details && std::find(job.outputs.begin(), job.outputs.end(), "details") == job.outputs.end()) {
      job.outputs.emplace_back("details");
    }
    job.exit.details = std::find(job.outputs.begin(), job.outputs.end(), "details") != job.outputs.end();
    return job;
  });
}

OrderedJson oip_model_metadata(const ModelFacts& model) {
  const auto tensor = [](std::string_view name, std::string_view type, const std::vector<int>& shape) {
    OrderedJson out;
    out["name"] = name;
    out["datatype"] = type;
    out["shape"] = shape;
    return out;
  };
  OrderedJson out;
  out["name"] = model.name;
  out["versions"] = {"1"};
  out["platform"] = "exeunt";
  out["inputs"] = OrderedJson::array(
      {tensor("text", "BYTES", {-1}), tensor("text_pair", "BYTES", {-1}), tensor("input_ids", "INT64", {-1, -1}),
       tensor("attention_mask", "INT64", {-1, -1}), tensor("token_type_ids", "INT64", {-1, -1})});
  out["outputs"] = OrderedJson::array({tensor("label", "BYTES", {-1}), tensor("scores", "FP32", {-1, model.outputs}),
                                       tensor("logits", "FP32", {-1, model.outputs}),
                                       tensor("exit_layer", "INT32", {-1}), tensor("details", "BYTES", {-1})});
  return out;
}

}  // namespace exeunt::serve
