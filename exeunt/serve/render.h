// SPDX-License-Identifier: Apache-2.0
// From the engine's answers to the body of a response, in the shape its protocol has.
#pragma once

#include <span>
#include <string>

#include "exeunt/engine/engine.h"
#include "exeunt/serve/job.h"

namespace exeunt::serve {

struct RenderInput {
  const Job& job;
  const ModelFacts& model;
  std::span<const Answer> answers;      // one per text, each of which reached an exit
  const BoundPolicy* policy = nullptr;  // null: full depth
  std::string_view request_id = {};
};

[[nodiscard]] std::string render(const RenderInput& input);

// By default as text-embeddings-inference gives them: probabilities, or the sigmoid of a single output.
[[nodiscard]] std::vector<float> scores_of(const Answer& answer, Scoring scoring = Scoring::native);

}  // namespace exeunt::serve
