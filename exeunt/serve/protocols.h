// SPDX-License-Identifier: Apache-2.0
// Request bodies: strict JSON, the parser of each protocol with its names and defaults, and what they make of it, which
// is independent of the protocol: texts, exit options, and the form of the response. All throw Refusal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/outputs/output_spec.h"
#include "exeunt/serve/http_message.h"

namespace exeunt::serve {

// What the protocols need to know about the model.
struct ModelFacts : OutputSpec {
  std::string name = {};
  int outputs = 0;
  int layers = 0;
  std::vector<int> exits = {};  // after which layers
  int max_tokens = 512;
  int vocabulary = 0;
  int segments = 2;
  int texts = 0;  // in each row of its training: 1, 2 for pairs, 0 = unknown
};

struct JobText {
  std::string text = {};
  std::optional<std::string> pair = {};
  std::vector<int32_t> ids = {};  // tokens from the client, instead of a text
  std::vector<uint8_t> types = {};
};

// The early-exit options of a request: "exit":{…}, or OIP parameters.
struct ExitOptions {
  std::optional<std::string> policy = {};
  std::optional<int> max_layers = {};
  std::optional<int64_t> deadline_us = {};
  bool details = false;
};

enum class Shape { predict, predict_batch, zero_shot, rerank, rerank_documents, classify, infer };

// What is given as the score of a label.
enum class Scoring {
  native,   // as the model was trained: probabilities, or the sigmoid of a single output
  logits,   // as the model puts them out
  sigmoid,  // of each logit
  softmax
};

// Labels of the client's, for a model of entailment: a text is paired with a hypothesis for each of them.
struct ZeroShot {
  std::vector<std::string> labels = {};
  bool multi_label = false;               // a label's score does not depend on the others
  bool list = false;                      // answered with a list, also for one text
  int entailment = 0, contradiction = 0;  // of the model's labels
};

struct Job {
  Shape shape = Shape::predict;
  std::vector<JobText> texts = {};
  std::optional<std::string> query = {};  // rerank: the first part of every pair, whose second one is `text`
  ExitOptions exit = {};
  bool truncate = true;
  bool truncate_left = false;
  Scoring scoring = Scoring::native;
  std::optional<size_t> top = {};  // how many labels of a text, or of the texts ranked, are given; none: all
  bool return_text = false;        // rerank
  std::optional<ZeroShot> zero_shot = {};
  std::optional<std::string> id = {};     // infer
  std::vector<std::string> outputs = {};  // infer: the requested names
  int unknown_fields = 0;                 // ignored, and counted

  // Both parts of a text.
  [[nodiscard]] std::pair<std::string_view, std::optional<std::string_view>> parts(size_t nth) const {
    const JobText& text = texts[nth];
    if (query) return {*query, text.text};
    return {text.text, text.pair ? std::optional<std::string_view>(*text.pair) : std::nullopt};
  }
  // All that decides over the tokens of a text.
  [[nodiscard]] Job only(size_t nth) const {
    return {.texts = {texts[nth]}, .query = query, .truncate = truncate, .truncate_left = truncate_left};
  }
};

struct JobRules {
  const ModelFacts& model;
  size_t max_batch = 32;
  bool auto_truncate = true;
};

using ParseJob = Job (*)(const Json& body, const JobRules& rules);

// text-embeddings-inference, /predict: {"inputs": "a" | ["a", "b"] (a pair) | [["a"], ["a", "b"]] (a batch),
// "truncate", "truncation_direction", "raw_scores", "exit"}
[[nodiscard]] Job parse_predict(const Json& body, const JobRules& rules);

// Hugging Face's inference API, /: {"inputs": "a" | ["a", "b"] (two texts) | {"text": "a", "text_pair": "b"},
// "parameters": {"top_k", "function_to_apply"}}, with the other fields of /predict. Answered with a list for each text.
// With "parameters": {"candidate_labels", "hypothesis_template", "multi_label"}, zero-shot classification by a model of
// entailment, as transformers' pipeline has it; 422 for other models.
[[nodiscard]] Job parse_text_classification(const Json& body, const JobRules& rules);

// text-embeddings-inference, /rerank: {"query": "q", "texts": ["a", "b"], "truncate", "truncation_direction",
// "raw_scores", "return_text", "top_n", "exit"}; 424 for a model with more than one output.
[[nodiscard]] Job parse_rerank(const Json& body, const JobRules& rules);

// Cohere, Jina and vLLM, /v1/rerank and /v2/rerank: {"model": "m", "query": "q", "documents": ["a", {"text": "b"}],
// "return_documents"}, with the other fields of /rerank; 404 for a model of another name.
[[nodiscard]] Job parse_rerank_documents(const Json& body, const JobRules& rules);

// vLLM, /classify: {"model": "m", "input": "a" | ["a", "b"], "exit"}; 404 for a model of another name.
[[nodiscard]] Job parse_classify(const Json& body, const JobRules& rules);

// The Open Inference Protocol, version 2, over REST: /v2/models/NAME/infer.
// In: `text` and `text_pair`, BYTES [N]; or `input_ids`, `attention_mask` and `token_type_ids`, INT64 or INT32 [N, L].
// Out: `label` BYTES [N], `scores` FP32 [N, C], `logits` FP32 [N, C], `exit_layer` INT32 [N], `details` BYTES [N].
[[nodiscard]] Job parse_infer(const Json& body, const JobRules& rules);
[[nodiscard]] OrderedJson oip_model_metadata(const ModelFacts& model);

// As many JSON values as a full batch of tokens can have, and some more.
[[nodiscard]] size_t max_json_values(const JobRules& rules) noexcept;
// 400 for invalid UTF-8 or JSON, deep nesting, too many values, or anything but an object.
[[nodiscard]] Json parse_body(std::string_view body, const JsonLimits& limits = {});

}  // namespace exeunt::serve
