// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/protocols.h"

#include <algorithm>

#include "exeunt/base/utf8.h"
#include "exeunt/model/spec.h"
#include "exeunt/outputs/evidence.h"

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

int count_unknown(const Json& body, std::span<const std::string_view> known) {
  int unknown = 0;
  for (const auto& [key, value] : body.items()) {
    unknown += std::find(known.begin(), known.end(), key) == known.end() ? 1 : 0;
  }
  return unknown;
}

ExitOptions parse_exit(const Json& value) {
  JsonObject fields(value, "exit");
  ExitOptions ask;
  if (fields.has("policy")) ask.policy = fields.string("policy");
  if (fields.has("max_layers")) ask.max_layers = static_cast<int>(fields.integer("max_layers", 1, kMaxLayers));
  if (fields.has("deadline_ms")) ask.deadline_us = 1000 * fields.integer("deadline_ms", 1, 3'600'000);
  ask.details = fields.boolean_or("details", false);
  // Null counts as absent; unknown names are refused.
  for (const std::string_view name : {"policy", "max_layers", "deadline_ms"}) fields.ignore(name);
  fields.finish();
  return ask;
}

void check_batch(size_t texts, const JobRules& rules) {
  if (texts == 0) throw Refusal(400, ErrorType::empty, "`inputs` cannot be empty", "send at least one text");
  if (texts > rules.max_batch) {
    throw Refusal(413, ErrorType::validation,
                  fmt::format("batch size {} > maximum allowed batch size {}", texts, rules.max_batch),
                  "split the batch, or start the server with a larger --max-client-batch-size");
  }
}

void check_text(std::string_view text, std::string_view field) {
  if (text.empty())
    throw Refusal(400, ErrorType::empty, fmt::format("`{}` cannot be empty", field), "send texts of at least one word");
}

void refuse_pairs(const JobRules& rules, std::string_view two_texts) {
  if (rules.model.texts != 1) return;
  throw invalid("got a pair of texts, and the model was trained on single ones",
                fmt::format("two texts that are not a pair: {}", two_texts));
}

void read_options(JsonObject& fields, const JobRules& rules, Job& job) {
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

void add_texts(std::vector<std::string>&& texts, std::string_view field, Job& job) {
  for (std::string& text : texts) {
    check_text(text, field);
    job.texts.push_back({.text = std::move(text)});
  }
}

}  // namespace exeunt::serve
