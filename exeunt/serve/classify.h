// SPDX-License-Identifier: Apache-2.0
// /classify in the shape of vLLM: {"model": "m", "input": "a" | ["a", "b"], "exit"}.
#pragma once

#include "exeunt/base/json.h"
#include "exeunt/serve/job.h"

namespace exeunt::serve {

// 404 for a model of another name.
[[nodiscard]] Job parse_classify(const Json& body, const JobRules& rules);

}  // namespace exeunt::serve
