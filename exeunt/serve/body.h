// SPDX-License-Identifier: Apache-2.0
// Request bodies: strict JSON, and what the protocols share. All throw Refusal.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/serve/job.h"
#include "exeunt/serve/refusal.h"

namespace exeunt::serve {

// As many JSON values as a full batch of tokens can have, and some more.
[[nodiscard]] size_t most_values(const JobRules& rules) noexcept;
// 400 for invalid UTF-8 or JSON, deep nesting, too many values, or anything but an object.
[[nodiscard]] Json parse_body(std::string_view body, const JsonLimits& limits = {});

// Runs `read` and turns an Error of JsonObject and the like into a 422.
template <class Read>
auto reading(Read&& read) {
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
[[nodiscard]] ExitAsk parse_exit(const Json& value);

// Throws 413 for more texts than allowed, 400 for none.
void check_batch(size_t texts, const JobRules& rules);
// A text must not be empty: 400.
void check_text(std::string_view text, std::string_view field);
// A pair for a model that was trained on single texts would get an answer that means nothing: 422. `several` is how to
// send two texts that are not a pair.
void refuse_pairs(const JobRules& rules, std::string_view several);
// The options that the routes of text-embeddings-inference and our own share: how to cut a text that is too long, what
// to give as scores, and "exit".
void take_options(JsonObject& fields, const JobRules& rules, Job& job);
// The texts of a batch.
void add_texts(std::vector<std::string>&& texts, std::string_view field, Job& job);

}  // namespace exeunt::serve
