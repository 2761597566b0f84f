// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/protocols.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "exeunt/base/ascii.h"
#include "exeunt/base/checked.h"
#include "exeunt/base/utf8.h"
#include "exeunt/model/spec.h"

namespace exeunt::serve {

size_t max_json_values(const JobRules& rules) noexcept {
  constexpr size_t kTensors = 3, kOthers = 4096;  // input_ids, attention_mask, token_type_ids
  return kOthers + rules.max_batch * (kTensors * (static_cast<size_t>(rules.model.max_tokens) + 1) + 16);
}

Json parse_body(std::string_view body, const JsonLimits& limits) {
  const auto bad = [](const std::string& what) { return Refusal(400, ErrorType::validation, what); };
  if (body.empty()) throw bad("the body is empty; want a JSON object");
  if (const auto at = find_invalid_utf8(body)) throw bad(fmt::format("body: invalid UTF-8 at byte {}", *at));
  Json value;
  try {
    value = parse_json(body, "body", limits);
  } catch (const Error& error) {
    throw bad(error.what());
  }
  if (!value.is_object()) throw bad(fmt::format("body: got {}, want a JSON object", glimpse(value)));
  return value;
}

namespace {

// Runs `read` and turns an Error of JsonObject and the like into a 422. 400 for blank texts, which nobody answers.
template <class Read>
Job refuse_errors(Read&& read) {
  try {
    Job job = read();
    for (size_t i = 0; i < job.texts.size(); ++i) {
      const auto [text, pair] = job.parts(i);
      if (job.texts[i].ids.empty() && is_blank(text, pair))
        throw Refusal(400, ErrorType::empty, "texts cannot be blank", "send texts of at least one word");
    }
    return job;
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    throw invalid(error.what(), error.hint());
  }
}

// "exit": strict.
ExitOptions parse_exit(const Json& value) {
  JsonObject fields(value, "exit");
  ExitOptions ask;
  if (fields.has("policy")) ask.policy = fields.string("policy");
  if (fields.has("max_layers")) ask.max_layers = static_cast<int>(fields.integer("max_layers", 0, kMaxLayers));
  if (fields.has("deadline_ms")) ask.deadline_us = 1000 * fields.integer("deadline_ms", 1, 3'600'000);
  ask.details = fields.boolean_or("details", false);
  // Null counts as absent; unknown names are refused.
  for (const std::string_view name : {"policy", "max_layers", "deadline_ms"}) fields.ignore(name);
  fields.finish();
  return ask;
}

// Throws 413 for more texts than allowed, 400 for none.
void check_batch(size_t texts, const JobRules& rules) {
  if (texts == 0) throw Refusal(400, ErrorType::empty, "`inputs` cannot be empty", "send at least one text");
  if (texts > rules.max_batch) {
    throw Refusal(413, ErrorType::validation,
                  fmt::format("batch size {} > maximum allowed batch size {}", texts, rules.max_batch),
                  "split the batch, or start the server with a larger --max-client-batch-size");
  }
}

// A text must not be empty: 400.
void check_text(std::string_view text, std::string_view field) {
  if (text.empty())
    throw Refusal(400, ErrorType::empty, fmt::format("`{}` cannot be empty", field), "send texts of at least one word");
}

// 422 for a pair if the model was trained on single texts. `two_texts` is how to send two texts that are not a pair.
void refuse_pairs(const JobRules& rules, std::string_view two_texts) {
  if (rules.model.texts != 1) return;
  throw invalid("got a pair of texts, and the model was trained on single ones",
                fmt::format("two texts that are not a pair: {}", two_texts));
}

// The options that the routes of text-embeddings-inference and our own share: how to cut a text that is too long, what
// to give as scores, and "exit".
void read_options(JsonObject& fields, const JobRules& rules, Job& job) {
  // A value that has a known range is answered as it is; one without is a reranker's logit, and its sigmoid the score.
  if (rules.model.range && !job.query) job.scoring = Scoring::logits;
  job.truncate = fields.boolean_or("truncate", rules.auto_truncate);
  if (const Json* direction = fields.find("truncation_direction")) {
    if (*direction != "Left" && *direction != "Right") {
      fields.fail("truncation_direction", glimpse(*direction), "\"Left\" or \"Right\"");
    }
    job.truncate_left = *direction == "Left";
  }
  if (fields.boolean_or("raw_scores", false)) job.scoring = Scoring::logits;
  if (const Json* exit = fields.find("exit")) job.exit = parse_exit(*exit);
}

// The texts of a batch.
void add_texts(std::vector<std::string>&& texts, std::string_view field, Job& job) {
  for (std::string& text : texts) {
    check_text(text, field);
    job.texts.push_back({.text = std::move(text)});
  }
}

constexpr std::string_view kWantInputs =
    "a string, a pair of strings [string, string] or a batch of these [[string], [string, string], …]";

constexpr std::string_view kWantTexts = R"(a string, {"text": string, "text_pair": string}, or a list of these)";

[[noreturn]] void refuse_inputs(std::string_view got, std::string_view want) {
  throw invalid(fmt::format("body: field 'inputs': got {}, want {}", got, want));
}

std::string input_text(const Json& value, std::string_view want = kWantInputs) {
  if (!value.is_string()) refuse_inputs(glimpse(value), want);
  std::string text = value.get<std::string>();
  check_text(text, "inputs");
  return text;
}

// One text or a pair, from a list of one or two strings.
JobText listed_text(const Json& list, const JobRules& rules) {
  if (!list.is_array() || list.empty() || list.size() > 2) {
    refuse_inputs(list.is_array() ? fmt::format("a list of {}", list.size()) : glimpse(list), kWantInputs);
  }
  JobText out{.text = input_text(list[0])};
  if (list.size() == 2) {
    refuse_pairs(rules, R"({"inputs": [["first"], ["second"]]})");
    out.pair = input_text(list[1]);
  }
  return out;
}

void read_inputs(const Json& inputs, const JobRules& rules, Job& job) {
  if (inputs.is_string()) {
    job.texts.push_back({.text = input_text(inputs)});
  } else if (inputs.is_array() && !inputs.empty() && inputs[0].is_array()) {
    job.shape = Shape::predict_batch;
    check_batch(inputs.size(), rules);
    for (const Json& item : inputs) job.texts.push_back(listed_text(item, rules));
  } else if (inputs.is_array() && inputs.empty()) {
    check_batch(0, rules);
  } else {
    job.texts.push_back(listed_text(inputs, rules));
  }
}

// A string, an object as transformers' pipelines take it, or, as on /predict, a list of one or two strings.
JobText one_input(const Json& value, const JobRules& rules) {
  JobText out;
  if (value.is_object()) {
    JsonObject fields(value, "inputs");
    out.text = input_text(fields.get("text"), kWantTexts);
    if (const Json* pair = fields.find("text_pair")) out.pair = input_text(*pair, kWantTexts);
  } else if (value.is_array()) {
    if (value.empty() || value.size() > 2)
      refuse_inputs(fmt::format("a list of {} in a list", value.size()), kWantTexts);
    out.text = input_text(value[0], kWantTexts);
    if (value.size() == 2) out.pair = input_text(value[1], kWantTexts);
  } else {
    out.text = input_text(value, kWantTexts);
  }
  if (out.pair) refuse_pairs(rules, R"({"inputs": ["first", "second"]})");
  return out;
}

Scoring scoring_named(const Json& name) {
  if (name == "none") return Scoring::logits;
  if (name == "sigmoid") return Scoring::sigmoid;
  if (name == "softmax") return Scoring::softmax;
  throw invalid(fmt::format(R"(parameters: field 'function_to_apply': got {}, want "sigmoid", "softmax" or "none")",
                            glimpse(name)));
}

// How many results are given.
void read_top(JsonObject& fields, std::string_view name, Job& job) {
  const Json* top = fields.find(name);
  if (top == nullptr) return;
  if (!top->is_number_integer() || *top < 1) fields.fail(name, glimpse(*top), "a number from 1");
  job.top = top->get<size_t>();
}

// The label of a model of entailment whose name begins like this.
std::optional<int> label_beginning(const ModelFacts& model, std::string_view word) {
  if (model.problem != Problem::classification) return std::nullopt;
  for (int label = 0; label < model.outputs; ++label)
    if (lower(model.label(label)).starts_with(word)) return label;
  return std::nullopt;
}

// "a,b" or ["a", "b"].
std::vector<std::string> candidate_labels(JsonObject& fields) {
  if (!fields.get("candidate_labels").is_string()) return fields.strings("candidate_labels");
  const std::string joined = fields.string("candidate_labels");
  std::vector<std::string> out;
  for (const std::string_view label : split(joined, ',')) out.emplace_back(trimmed(label));
  return out;
}

// Pairs each text with a hypothesis for each label.
void read_candidates(JsonObject& fields, const JobRules& rules, Job& job) {
  constexpr size_t kMaxBytes = size_t{4} << 20;
  constexpr std::string_view kPlace = "{}";
  const auto entailment = label_beginning(rules.model, "entail");
  if (!entailment || rules.model.outputs < 2 || rules.model.texts == 1)
    throw invalid("parameters: field 'candidate_labels': the model has labels of its own, want none",
                  "zero-shot labels take a model of entailment");
  const std::string form =
      fields.has("hypothesis_template") ? fields.string("hypothesis_template") : "This example is {}.";
  const size_t place = form.find(kPlace);
  if (place == std::string::npos) fields.fail("hypothesis_template", form, "a text with {} for the label");
  ZeroShot zero_shot{.labels = candidate_labels(fields),
                     .multi_label = fields.boolean_or("multi_label", false),
                     .entailment = *entailment,
                     .contradiction = label_beginning(rules.model, "contra").value_or(*entailment == 0 ? 1 : 0)};
  check_batch(job.texts.size() * zero_shot.labels.size(), rules);
  std::vector<JobText> texts;
  size_t bytes = 0;
  for (const JobText& text : std::exchange(job.texts, {})) {
    if (text.pair) throw invalid("body: field 'inputs': got a pair, want single texts for candidate labels");
    check_text(trimmed(text.text), "inputs");
    for (const std::string& label : zero_shot.labels) {
      check_text(trimmed(label), "candidate_labels");
      std::string hypothesis = form;
      hypothesis.replace(place, kPlace.size(), label);
      bytes += text.text.size() + hypothesis.size();
      if (bytes > kMaxBytes)
        throw Refusal(413, ErrorType::validation,
                      fmt::format("texts and hypotheses are more than {} bytes together", kMaxBytes),
                      "send fewer or shorter texts at once");
      texts.push_back({.text = text.text, .pair = std::move(hypothesis)});
    }
  }
  job.texts = std::move(texts);
  job.shape = Shape::zero_shot;
  job.zero_shot = std::move(zero_shot);
}

void read_parameters(const Json& value, const JobRules& rules, Job& job) {
  if (value.is_null()) return;
  JsonObject fields(value, "parameters");
  if (fields.has("candidate_labels")) read_candidates(fields, rules, job);
  read_top(fields, "top_k", job);
  if (const Json* name = fields.find("function_to_apply")) job.scoring = scoring_named(*name);
  job.unknown_fields += fields.unread();
}

// 404 for a model of another name; none need be named.
void check_model(JsonObject& fields, const JobRules& rules) {
  fields.ignore("model");
  if (fields.has("model") && fields.string("model") != rules.model.name) {
    throw Refusal(404, ErrorType::validation, "unknown model", fmt::format("the model is '{}'", rules.model.name));
  }
}

// 424 for a model that gives more than one number.
void check_reranker(const JobRules& rules) {
  if (rules.model.outputs == 1) return;
  throw Refusal(424, ErrorType::backend,
                fmt::format("model is not a re-ranker: it has {} outputs, want 1", rules.model.outputs),
                "use /predict");
}

// The query is tokenized once for every text.
void check_pairs(const Job& job) {
  constexpr size_t kMaxQueries = size_t{4} << 20;
  if (job.query->size() * job.texts.size() <= kMaxQueries) return;
  throw Refusal(413, ErrorType::validation,
                fmt::format("a query of {} bytes for {} texts: their product is more than {} bytes", job.query->size(),
                            job.texts.size(), kMaxQueries),
                "shorten the query, or send fewer texts at once");
}

// Strings, or objects with a text; what else these have is not ranked.
std::vector<std::string> document_texts(JsonObject& fields) {
  std::vector<std::string> out;
  const Json& documents = fields.get("documents");
  if (!documents.is_array()) fields.fail("documents", glimpse(documents), "a list of strings or of {\"text\": string}");
  for (size_t i = 0; i < documents.size(); ++i) {
    const Json& one = documents[i];
    out.push_back(one.is_string() ? one.get<std::string>()
                                  : JsonObject(one, fmt::format("documents[{}]", i)).string("text"));
  }
  return out;
}

// A query and texts to rank, as text-embeddings-inference names them, or documents as others do.
Job read_rerank(const Json& body, const JobRules& rules, Shape shape) {
  return refuse_errors([&] {
    check_reranker(rules);
    JsonObject fields(body, "body");
    Job job;
    job.shape = shape;
    const bool documents = shape == Shape::rerank_documents;
    if (documents) check_model(fields, rules);
    std::vector<std::string> texts = documents ? document_texts(fields) : fields.strings("texts");
    job.query = fields.string("query");
    check_text(*job.query, "query");
    check_batch(texts.size(), rules);
    add_texts(std::move(texts), documents ? "documents" : "texts", job);
    check_pairs(job);
    read_options(fields, rules, job);
    read_top(fields, "top_n", job);
    job.return_text = fields.boolean_or(documents ? "return_documents" : "return_text", false);
    job.unknown_fields = fields.unread();
    return job;
  });
}

}  // namespace

Job parse_predict(const Json& body, const JobRules& rules) {
  return refuse_errors([&] {
    JsonObject fields(body, "body");
    Job job;
    read_inputs(fields.get("inputs"), rules, job);
    read_options(fields, rules, job);
    job.unknown_fields = fields.unread();
    return job;
  });
}

Job parse_text_classification(const Json& body, const JobRules& rules) {
  return refuse_errors([&] {
    JsonObject fields(body, "body");
    Job job;
    job.shape = Shape::predict_batch;  // a list for each text, also for one
    const Json& inputs = fields.get("inputs");
    if (inputs.is_array()) {
      check_batch(inputs.size(), rules);
      for (const Json& input : inputs) job.texts.push_back(one_input(input, rules));
    } else {
      job.texts.push_back(one_input(inputs, rules));
    }
    read_options(fields, rules, job);
    if (const Json* parameters = fields.find("parameters")) read_parameters(*parameters, rules, job);
    if (job.zero_shot) job.zero_shot->list = inputs.is_array();
    fields.ignore("options");
    job.unknown_fields += fields.unread();
    return job;
  });
}

Job parse_rerank(const Json& body, const JobRules& rules) {
  return read_rerank(body, rules, Shape::rerank);
}

Job parse_rerank_documents(const Json& body, const JobRules& rules) {
  return read_rerank(body, rules, Shape::rerank_documents);
}

Job parse_classify(const Json& body, const JobRules& rules) {
  return refuse_errors([&] {
    JsonObject fields(body, "body");
    Job job;
    job.shape = Shape::classify;
    job.truncate = rules.auto_truncate;
    fields.ignore("user");
    check_model(fields, rules);
    const Json& input = fields.get("input");
    std::vector<std::string> texts =
        input.is_string() ? std::vector{input.get<std::string>()} : fields.strings("input");
    check_batch(texts.size(), rules);
    add_texts(std::move(texts), "input", job);
    if (const Json* exit = fields.find("exit")) job.exit = parse_exit(*exit);
    job.unknown_fields = fields.unread();
    return job;
  });
}

// The Open Inference Protocol.
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
  const auto end = std::ranges::find(mask, 0);
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
  JsonObject fields(value, "parameters");
  Json exit = Json::object();
  constexpr std::array<std::pair<const char*, const char*>, 4> ours = {{{"exit_policy", "policy"},
                                                                        {"max_layers", "max_layers"},
                                                                        {"deadline_ms", "deadline_ms"},
                                                                        {"details", "details"}}};
  for (const auto& [theirs, name] : ours) {
    if (const Json* found = fields.find(theirs)) exit[name] = *found;
  }
  ExitOptions ask = parse_exit(exit);
  for (const char* name : {"timeout", "priority"}) fields.ignore(name);
  unknown += fields.unread();
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
    if (std::ranges::count(names, names.back()) > 1) fields.fail("name", names.back(), "each output once");
  }
  return names;
}

}  // namespace

Job parse_infer(const Json& body, const JobRules& rules) {
  return refuse_errors([&] {
    JsonObject fields(body, "body");
    Job job;
    job.shape = Shape::infer;
    job.truncate = rules.auto_truncate;
    if (fields.find("id") != nullptr) job.id = fields.string("id");
    if (const Json* parameters = fields.find("parameters"))
      job.exit = parse_parameters(*parameters, job.unknown_fields);
    const Tensors tensors = read_tensors(fields.get("inputs"), rules);
    if (tensors.contains("input_ids")) {
      read_tokens(tensors, rules, job);
    } else {
      read_texts(tensors, rules, job);
    }
    if (const Json* outputs = fields.find("outputs")) job.outputs = parse_outputs(*outputs);
    job.unknown_fields += fields.unread();
    if (job.outputs.empty()) job.outputs = {"label", "scores", "logits", "exit_layer"};
    if (job.exit.details && std::ranges::find(job.outputs, "details") == job.outputs.end()) {
      job.outputs.emplace_back("details");
    }
    job.exit.details = std::ranges::find(job.outputs, "details") != job.outputs.end();
    return job;
  });
}

OrderedJson oip_model_metadata(const ModelFacts& model) {
  const auto tensor = [](std::string_view name, std::string_view type, const std::vector<int>& shape) {
    return OrderedJson{{"name", name}, {"datatype", type}, {"shape", shape}};
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
