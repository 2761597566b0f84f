// SPDX-License-Identifier: Apache-2.0
// Request bodies of each protocol, with its names and defaults. All throw Refusal.
#pragma once

#include "exeunt/base/json.h"
#include "exeunt/serve/job.h"

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

}  // namespace exeunt::serve
