// SPDX-License-Identifier: Apache-2.0
// Request bodies: strict JSON, the parser of each protocol with its names and defaults, and what they share. All throw
// Refusal.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/serve/job.h"
#include "exeunt/serve/refusal.h"

namespace exeunt::serve {

using ParseJob = Job (*)(const Json& body, const JobRules& rules);

// text-embeddings-inference, /predict: {"inputs": "a" | ["a", "b"] (a pair) | [["a"], ["a", "b"]] (a batch),
// "truncate", "truncation_direction", "raw_scores", "exit"}
[[nodiscard]] Job parse_predict(const Json& body, const JobRules& rules);

// Hugging Face's inference API, /: {"inputs": "a" | ["a", "b"] (two texts) | {"text": "a", "text_pair": "b"},
// "parameters": {"top_k", "function_to_apply"}}, with the other fields of /predict. Answered with a list for each text.
[[nodiscard]] Job parse_text_classification(const Json& body, const JobRules& rules);

// text-embeddings-inference, /rerank: {"query": "q", "texts": ["a", "b"], "truncate", "truncation_direction",
// "raw_scores", "return_text", "exit"}; 424 for a model with more than one output.
[[nodiscard]] Job parse_rerank(const Json& body, const JobRules& rules);

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

// Runs `read` and turns an Error of JsonObject and the like into a 422.
template <class Read>
auto refuse_errors(Read&& read) {
  try {
    return read();
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    throw invalid(error.what(), error.hint());
  }
}

// How many top-level fields are unknown here.
[[nodiscard]] int count_unknown(const Json& body, std::span<const std::string_view> known);

// "exit": strict.
[[nodiscard]] ExitOptions parse_exit(const Json& value);

// Throws 413 for more texts than allowed, 400 for none.
void check_batch(size_t texts, const JobRules& rules);
// A text must not be empty: 400.
void check_text(std::string_view text, std::string_view field);
// 422 for a pair if the model was trained on single texts. `two_texts` is how to send two texts that are not a pair.
void refuse_pairs(const JobRules& rules, std::string_view two_texts);
// The options that the routes of text-embeddings-inference and our own share: how to cut a text that is too long, what
// to give as scores, and "exit".
void read_options(JsonObject& fields, const JobRules& rules, Job& job);
// The texts of a batch.
void add_texts(std::vector<std::string>&& texts, std::string_view field, Job& job);

}  // namespace exeunt::serve
