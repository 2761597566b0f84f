// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/active_request.h"

#include <algorithm>
#include <limits>

#include <fmt/ranges.h>

#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
#include "exeunt/serve/render.h"

namespace exeunt::serve {
namespace {

// Truncates a long text at its start: what lies between the special tokens at both ends loses its head. Special tokens
// have no place in the text, so their offsets are empty.
Encoding truncate_left(Encoding text, size_t most) {
  if (text.ids.size() <= most) return text;
  const auto special = [](const Offset& offset) { return offset == Offset{0, 0}; };
  const auto first = std::find_if_not(text.offsets.begin(), text.offsets.end(), special) - text.offsets.begin();
  const auto excess = static_cast<std::ptrdiff_t>(text.ids.size() - most);
  text.ids.erase(text.ids.begin() + first, text.ids.begin() + first + excess);
  text.types.erase(text.types.begin() + first, text.types.begin() + first + excess);
  text.offsets.erase(text.offsets.begin() + first, text.offsets.begin() + first + excess);
  text.truncated = true;
  return text;
}

int64_t milliseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

// The names of text-embeddings-inference; times in milliseconds, of the slowest text.
void add_compute_fields(const ActiveRequest& request, const ModelFacts& model, HttpFields& out) {
  Clock::duration queue{}, tokenizing{}, inference{};
  int64_t tokens = 0, saved = 0;
  size_t characters = 0;
  std::vector<int> layers;
  for (size_t i = 0; i < request.outcomes.size(); ++i) {
    const TextOutcome& outcome = request.outcomes[i];
    queue = std::max(queue, outcome.started - request.info.begun);
    tokenizing = std::max(tokenizing, outcome.tokenized - outcome.started);
    inference = std::max(inference, outcome.done - outcome.tokenized);
    tokens += outcome.answer.tokens;
    saved += model.layers - outcome.answer.layers_run;
    layers.push_back(outcome.answer.layer);
    const auto [text, pair] = request.job.parts(i);
    const auto count = [](std::string_view s) {  // code points: every byte that does not continue one
      return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
    };
    characters += count(text) + (pair ? count(*pair) : 0);
  }
  const auto total = Clock::now() - request.info.begun;
  out.emplace_back("x-compute-characters", fmt::format("{}", characters));
  out.emplace_back("x-compute-tokens", fmt::format("{}", tokens));
  out.emplace_back("x-compute-time", fmt::format("{}", milliseconds(tokenizing + inference)));
  out.emplace_back("x-total-time", fmt::format("{}", milliseconds(total)));
  out.emplace_back("x-tokenization-time", fmt::format("{}", milliseconds(tokenizing)));
  out.emplace_back("x-queue-time", fmt::format("{}", milliseconds(queue)));
  out.emplace_back("x-inference-time", fmt::format("{}", milliseconds(inference)));
  out.emplace_back("x-exit-layer", fmt::format("{}", fmt::join(layers, ",")));
  out.emplace_back("x-layers-saved", fmt::format("{}", saved));
  const auto cut = std::count_if(request.outcomes.begin(), request.outcomes.end(),
                                 [](const TextOutcome& outcome) { return was_forced(outcome.answer.stop_reason); });
  if (cut > 0)
    out.emplace_back("x-promise",
                     no_promise(fmt::format("{} of {} answers were cut short", cut, request.outcomes.size())));
}

// Why there is no answer, if so.
std::optional<Refusal> failure_of(const ActiveRequest& request) {
  for (const TextOutcome& outcome : request.outcomes) {
    if (outcome.refusal) return outcome.refusal;
  }
  for (const TextOutcome& outcome : request.outcomes) {
    if (outcome.answer.exit >= 0 && outcome.answer.stop_reason != StopReason::failed) continue;
    if (outcome.answer.stop_reason == StopReason::deadline) return deadline_passed();
    if (outcome.answer.code == Code::resources) return device_failed();
    return Refusal(424, ErrorType::backend, "inference failed",
                   "the server's log gives the reason under this request_id");
  }
  return std::nullopt;
}

}  // namespace

Encoding encode_text(const Job& job, size_t nth, const ModelFacts& model, const Tokenizer& tokenizer) {
  const JobText& text = job.texts[nth];
  if (!text.ids.empty()) return {text.ids, text.types, std::vector<Offset>(text.ids.size()), false};
  const auto [first, pair] = job.parts(nth);
  if (job.truncate && job.truncate_left && !pair) {
    return truncate_left(tokenizer.encode(first, pair, {.max_length = std::numeric_limits<int>::max()}),
                         static_cast<size_t>(model.max_tokens));
  }
  Encoding out = tokenizer.encode(first, pair, {.max_length = model.max_tokens});
  if (out.truncated && !job.truncate) {
    throw Refusal(422, ErrorType::validation, fmt::format("`inputs` must have at most {} tokens", model.max_tokens),
                  "shorten the text, or ask for \"truncate\": true");
  }
  if (out.truncated && job.truncate_left) {
    throw invalid("a pair cannot be truncated at its start",
                  "shorten it, or ask for \"truncation_direction\": \"Right\"");
  }
  return out;
}

HttpResponse compose(const ActiveRequest& request, const ModelFacts& model, const std::string& compute) {
  if (const auto failure = failure_of(request)) return refusal_response(*failure, request.info.id);
  std::vector<Answer> answers;
  for (const TextOutcome& outcome : request.outcomes) answers.push_back(outcome.answer);
  HttpResponse response;
  response.body = render({.job = request.job,
                          .model = model,
                          .answers = answers,
                          .policy = request.policy.get(),
                          .request_id = request.info.id});
  response.fields.emplace_back("x-compute-type", compute);
  if (request.policy) response.fields.emplace_back("x-exit-policy", str(request.policy->spec));
  add_compute_fields(request, model, response.fields);
  return response;
}

}  // namespace exeunt::serve
