// SPDX-License-Identifier: Apache-2.0
// The protocol of text-embeddings-inference: /predict and /rerank, with its shapes, names and defaults.
#pragma once

#include "exeunt/base/json.h"
#include "exeunt/serve/job.h"

namespace exeunt::serve {

// {"inputs": "a" | ["a", "b"] (a pair) | [["a"], ["a", "b"]] (a batch), "truncate", "truncation_direction",
//  "raw_scores", "exit"}
[[nodiscard]] Job parse_predict(const Json& body, const JobRules& rules);

// {"query": "q", "texts": ["a", "b"], "truncate", "truncation_direction", "raw_scores", "return_text", "exit"}
// 424 for a model that has more than one output.
[[nodiscard]] Job parse_rerank(const Json& body, const JobRules& rules);

}  // namespace exeunt::serve
