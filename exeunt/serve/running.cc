// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/running.h"

#include <algorithm>
#include <limits>

#include <fmt/ranges.h>

#include "exeunt/exits/policy_text.h"
#include "exeunt/serve/render.h"

namespace exeunt::serve {
namespace {

// Cuts a text that is too long at its start: what stands between the special tokens at both ends loses its head.
// Special tokens have no place in the text, so their offsets are empty.
Encoding cut_left(Encoding text, size_t most) {
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
void add_compute_fields(const Running& running, const ModelFacts& model, HttpFields& out) {
  Clock::duration queue{}, tokenising{}, inference{};
  int64_t tokens = 0, saved = 0;
  size_t characters = 0;
  std::vector<int> layers;
  for (size_t i = 0; i < running.runs.size(); ++i) {
    const TextRun& run = running.runs[i];
    queue = std::max(queue, run.started - running.note.begun);
    tokenising = std::max(tokenising, run.tokenised - run.started);
    inference = std::max(inference, run.done - run.tokenised);
    tokens += run.answer.tokens;
    saved += model.layers - run.answer.layers_run;
    layers.push_back(run.answer.layer);
    const JobText& text = running.job.texts[i];
    const auto count = [](std::string_view s) {  // code points: every byte that does not continue one
      return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
    };
    characters += count(text.text) + (text.pair ? count(*text.pair) : 0);
  }
  const auto total = Clock::now() - running.note.begun;
  out.emplace_back("x-compute-characters", fmt::format("{}", characters));
  out.emplace_back("x-compute-tokens", fmt::format("{}", tokens));
  out.emplace_back("x-compute-time", fmt::format("{}", milliseconds(tokenising + inference)));
  out.emplace_back("x-total-time", fmt::format("{}", milliseconds(total)));
  out.emplace_back("x-tokenization-time", fmt::format("{}", milliseconds(tokenising)));
  out.emplace_back("x-queue-time", fmt::format("{}", milliseconds(queue)));
  out.emplace_back("x-inference-time", fmt::format("{}", milliseconds(inference)));
  out.emplace_back("x-exit-layer", fmt::format("{}", fmt::join(layers, ",")));
  out.emplace_back("x-layers-saved", fmt::format("{}", saved));
}

// Why there is no answer; nothing if there is one.
std::optional<Refusal> failure_of(const Running& running) {
  for (const TextRun& run : running.runs) {
    if (run.refusal) return run.refusal;
  }
  for (const TextRun& run : running.runs) {
    if (run.answer.exit >= 0 && run.answer.ended != Ended::failed) continue;
    if (run.answer.ended == Ended::deadline) {
      return Refusal(504, ErrorType::overloaded, "the deadline passed before any exit was reached",
                     "allow more time, or retry when the server is less busy");
    }
    return Refusal(424, ErrorType::backend, "inference failed",
                   "the server's log has the reason under this request_id");
  }
  return std::nullopt;
}

}  // namespace

Encoding encode_text(const Job& job, size_t nth, const ModelFacts& model, const Tokenizer& tokenizer) {
  const JobText& text = job.texts[nth];
  if (!text.ids.empty()) return {text.ids, text.types, std::vector<Offset>(text.ids.size()), false};
  const std::optional<std::string_view> pair = text.pair ? std::optional<std::string_view>(*text.pair) : std::nullopt;
  if (job.truncate && job.truncate_left && !pair) {
    return cut_left(tokenizer.encode(text.text, pair, {.max_length = std::numeric_limits<int>::max()}),
                    static_cast<size_t>(model.max_tokens));
  }
  Encoding out = tokenizer.encode(text.text, pair, {.max_length = model.max_tokens});
  if (out.truncated && !job.truncate) {
    throw Refusal(422, ErrorType::validation, fmt::format("`inputs` must have at most {} tokens", model.max_tokens),
                  "shorten the text, or ask for \"truncate\": true");
  }
  if (out.truncated && job.truncate_left) {
    throw invalid("a pair cannot be cut at its start", "shorten it, or ask for \"truncation_direction\": \"Right\"");
  }
  return out;
}

HttpResponse compose(const Running& running, const ModelFacts& model, const std::string& compute) {
  if (const auto failure = failure_of(running)) return refusal_response(*failure, running.note.id);
  std::vector<Answer> answers;
  for (const TextRun& run : running.runs) answers.push_back(run.answer);
  HttpResponse response;
  response.body = render({.job = running.job,
                          .model = model,
                          .answers = answers,
                          .policy = running.policy.get(),
                          .request_id = running.note.id});
  response.fields.emplace_back("x-compute-type", compute);
  if (running.policy) response.fields.emplace_back("x-exit-policy", str(running.policy->spec));
  add_compute_fields(running, model, response.fields);
  return response;
}

}  // namespace exeunt::serve
