// SPDX-License-Identifier: Apache-2.0
// The Open Inference Protocol, version 2, over REST: the body of /v2/models/NAME/infer, and what describes the model.
// In: `text` and `text_pair`, BYTES [N]; or `input_ids`, `attention_mask` and `token_type_ids`, INT64 or INT32 [N, L].
// Out: `label` BYTES [N], `scores` FP32 [N, C], `logits` FP32 [N, C], `exit_layer` INT32 [N], `details` BYTES [N].
#pragma once

#include "exeunt/base/json.h"
#include "exeunt/serve/job.h"

namespace exeunt::serve {

[[nodiscard]] Job parse_infer(const Json& body, const JobRules& rules);

[[nodiscard]] OrderedJson oip_model_metadata(const ModelFacts& model);

}  // namespace exeunt::serve
