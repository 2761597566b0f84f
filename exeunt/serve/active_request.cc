// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/active_request.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/ranges.h>

#include "exeunt/base/json.h"
#include "exeunt/base/number.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"

namespace exeunt::serve {
namespace {

std::string dumped(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson numbers(std::span<const float> values) {
  OrderedJson out = OrderedJson::array();
  for (const float value : values) out.push_back(short_double(value));
  return out;
}

// Protocols of classifiers name the one output of a regression as if it were a label.
std::string label_text(const ModelFacts& model, std::span<const float> logits) {
  return model.problem == Problem::regression ? model.label(0) : answer_text(model, logits, {.separator = ","});
}

// At the exit's score temperature, which exits that the policy skips have, too.
std::vector<float> probabilities_of(const ExitDetail& detail, const ModelFacts& model, const BoundPolicy* policy) {
  if (model.problem == Problem::regression) return {};
  const bool scaled = policy != nullptr && !policy->spec.score_temperature.empty();
  const float temperature = scaled ? policy->spec.score_temperature[static_cast<size_t>(detail.exit)] : 1.0F;
  std::vector<float> out(detail.logits.size());
  probabilities(model.exit_logits(detail.logits, temperature), out.data());
  return out;
}

// What the policy's rule compares at an exit; nothing where it compares nothing (full, layer).
std::optional<OrderedJson> measured(const Measure& measure, const Evidence& evidence, int streak) {
  if (measure.streak) return OrderedJson(streak);
  // The first exit has no shift: there is none before it.
  if (measure.field == nullptr || !std::isfinite(evidence.*measure.field)) return std::nullopt;
  return OrderedJson(short_double(evidence.*measure.field));
}

bool is_full(const BoundPolicy* policy) {
  return policy == nullptr || policy->spec.rule == rule_of<FullRule>;
}

// The evidence at each exit, and why the text left.
OrderedJson exit_json(const RenderInput& input, size_t nth) {
  const Answer& answer = input.answers[nth];
  OrderedJson out;
  out["layer"] = answer.layer;
  out["layers_run"] = answer.layers_run;
  out["layers"] = input.model.layers;
  out["left_by"] = name_of(answer.stop_reason);
  const size_t cut = input.cut.empty() ? 0 : input.cut[nth];
  const bool early = !is_full(input.policy);
  if (was_forced(answer.stop_reason) || (early && beyond_promise(input.job, cut)))
    out["covered"] = false;  // by the promise
  out["policy"] = input.policy == nullptr ? "full" : str(input.policy->spec);
  out["tokens"] = answer.tokens;
  out["truncated_tokens"] = cut;
  const RuleInfo& rule = info_of(input.policy == nullptr ? rule_of<FullRule> : input.policy->spec.rule);
  out["rule"] = rule.name;
  OrderedJson exits = OrderedJson::array();
  int streak = 0, last = -1;
  for (const ExitDetail& detail : answer.details) {
    const Evidence& e = detail.evidence;
    streak = e.label == last ? streak + 1 : 0;
    last = e.label;
    OrderedJson row;
    row["layer"] = detail.layer;
    if (input.model.problem == Problem::regression) {
      row["value"] = short_double(e.value);
    } else {
      row["label"] = label_text(input.model, detail.logits);
      row["probabilities"] = numbers(probabilities_of(detail, input.model, input.policy));
      row["entropy"] = short_double(e.entropy);
      row["confidence"] = short_double(e.confidence);
      row["margin"] = short_double(e.margin);
      row["streak"] = streak;
    }
    const auto measure = input.model.problem == Problem::regression ? std::nullopt : measured(rule.measure, e, streak);
    if (measure) row["measure"] = *measure;
    row["logits"] = numbers(detail.logits);
    exits.push_back(std::move(row));
  }
  out["exits"] = std::move(exits);
  return out;
}

// The places of scores, the highest first, as many as asked for.
std::vector<size_t> by_score(const std::vector<float>& scores, std::optional<size_t> top) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), top.value_or(order.size())));
  return order;
}

OrderedJson predictions(const RenderInput& input, size_t nth) {
  const std::vector<float> scores = scores_of(input.answers[nth], input.job.scoring);
  OrderedJson out = OrderedJson::array();
  for (const size_t label : by_score(scores, input.job.top))
    out.push_back({{"score", short_double(scores[label])}, {"label", input.model.label(static_cast<int>(label))}});
  // In the best prediction, so that the list stays a list of predictions.
  if (input.job.exit.details && !out.empty()) out[0]["exit"] = exit_json(input, nth);
  return out;
}

// As transformers' pipeline scores labels: the probability of entailment among all labels' hypotheses, or for each by
// itself against contradiction. At whatever exits the pairs left, by their logits.
OrderedJson zero_shot(const RenderInput& input, size_t first) {
  const ZeroShot& asked = *input.job.zero_shot;
  const size_t count = asked.labels.size();
  const bool alone = asked.multi_label || count == 1;
  std::vector<float> scores(count);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<float>& logits = input.answers[first + i].logits;
    scores[i] = logits[static_cast<size_t>(asked.entailment)];
    if (alone) scores[i] = 1 / (1 + std::exp(logits[static_cast<size_t>(asked.contradiction)] - scores[i]));
  }
  if (!alone) probabilities({scores.data(), static_cast<int>(count)}, scores.data());
  OrderedJson out{
      {"sequence", input.job.texts[first].text}, {"labels", OrderedJson::array()}, {"scores", OrderedJson::array()}};
  for (const size_t i : by_score(scores, input.job.top)) {
    out["labels"].push_back(asked.labels[i]);
    out["scores"].push_back(short_double(scores[i]));
    if (input.job.exit.details) out["exits"].push_back(exit_json(input, first + i));
  }
  return out;
}

OrderedJson ranks(const RenderInput& input) {
  const bool documents = input.job.shape == Shape::rerank_documents;
  std::vector<float> scores;
  for (const Answer& answer : input.answers) scores.push_back(scores_of(answer, input.job.scoring).at(0));
  OrderedJson out = OrderedJson::array();
  for (const size_t i : by_score(scores, input.job.top)) {
    OrderedJson row;
    row["index"] = i;
    if (input.job.return_text && !documents) row["text"] = input.job.texts[i].text;
    row[documents ? "relevance_score" : "score"] = short_double(scores[i]);
    if (input.job.return_text && documents) row["document"] = {{"text", input.job.texts[i].text}};
    if (input.job.exit.details) row["exit"] = exit_json(input, i);
    out.push_back(std::move(row));
  }
  return out;
}

OrderedJson ranked_documents(const RenderInput& input) {
  int64_t tokens = 0;
  for (const Answer& answer : input.answers) tokens += answer.tokens;
  OrderedJson out;
  out["id"] = fmt::format("rerank-{}", input.request_id);
  out["model"] = input.model.name;
  out["results"] = ranks(input);
  out["usage"] = {{"total_tokens", tokens}};
  return out;
}

OrderedJson classification(const RenderInput& input) {
  OrderedJson data = OrderedJson::array();
  int64_t tokens = 0;
  for (size_t i = 0; i < input.answers.size(); ++i) {
    const Answer& answer = input.answers[i];
    const std::vector<float> scores = scores_of(answer);
    OrderedJson row;
    row["index"] = i;
    row["label"] = label_text(input.model, answer.logits);
    row["probs"] = numbers(scores);
    row["num_classes"] = scores.size();
    if (input.job.exit.details) row["exit"] = exit_json(input, i);
    data.push_back(std::move(row));
    tokens += answer.tokens;
  }
  OrderedJson out;
  out["id"] = fmt::format("classify-{}", input.request_id);
  out["object"] = "list";
  out["created"] =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  out["model"] = input.model.name;
  out["data"] = std::move(data);
  out["usage"] = {{"prompt_tokens", tokens}, {"total_tokens", tokens}, {"completion_tokens", 0}};
  return out;
}

OrderedJson output_tensor(const std::string& name, const RenderInput& input) {
  const auto rows = static_cast<int64_t>(input.answers.size());
  OrderedJson out, data = OrderedJson::array();
  out["name"] = name;
  const bool wide = name == "scores" || name == "logits";
  out["shape"] = wide ? std::vector<int64_t>{rows, input.model.outputs} : std::vector<int64_t>{rows};
  out["datatype"] = wide ? "FP32" : name == "exit_layer" ? "INT32" : "BYTES";
  for (size_t i = 0; i < input.answers.size(); ++i) {
    const Answer& answer = input.answers[i];
    if (name == "label") data.push_back(label_text(input.model, answer.logits));
    if (name == "exit_layer") data.push_back(answer.layer);
    if (name == "details") data.push_back(dumped(exit_json(input, i)));
    if (!wide) continue;
    for (const float value : scores_of(answer, name == "logits" ? Scoring::logits : Scoring::native))
      data.push_back(short_double(value));
  }
  out["data"] = std::move(data);
  return out;
}

OrderedJson inference(const RenderInput& input) {
  OrderedJson out;
  out["model_name"] = input.model.name;
  out["model_version"] = "1";
  out["id"] = input.job.id.value_or(std::string(input.request_id));
  OrderedJson outputs = OrderedJson::array();
  for (const std::string& name : input.job.outputs) outputs.push_back(output_tensor(name, input));
  out["outputs"] = std::move(outputs);
  return out;
}

}  // namespace

std::vector<float> scores_of(const Answer& answer, Scoring scoring) {
  if (scoring == Scoring::native && !answer.probabilities.empty()) return answer.probabilities;
  std::vector<float> out = answer.logits;
  if (scoring == Scoring::softmax) probabilities({answer.logits.data(), static_cast<int>(out.size())}, out.data());
  if (scoring == Scoring::native || scoring == Scoring::sigmoid)
    for (float& score : out) score = 1 / (1 + std::exp(-score));
  return out;
}

std::string render(const RenderInput& input) {
  switch (input.job.shape) {
    case Shape::predict:
      return dumped(predictions(input, 0));
    case Shape::predict_batch: {
      OrderedJson out = OrderedJson::array();
      for (size_t i = 0; i < input.answers.size(); ++i) out.push_back(predictions(input, i));
      return dumped(out);
    }
    case Shape::zero_shot: {
      if (!input.job.zero_shot->list) return dumped(zero_shot(input, 0));
      OrderedJson out = OrderedJson::array();
      for (size_t i = 0; i < input.answers.size(); i += input.job.zero_shot->labels.size())
        out.push_back(zero_shot(input, i));
      return dumped(out);
    }
    case Shape::rerank:
      return dumped(ranks(input));
    case Shape::rerank_documents:
      return dumped(ranked_documents(input));
    case Shape::classify:
      return dumped(classification(input));
    case Shape::infer:
      return dumped(inference(input));
  }
  return {};
}

namespace {

int64_t milliseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

double fine_milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// The names of text-embeddings-inference; times in milliseconds, of the slowest text.
void add_compute_fields(const ActiveRequest& request, const ModelFacts& model, HttpFields& out) {
  Clock::duration queue{}, tokenizing{}, inference{};
  int64_t tokens = 0, saved = 0;
  size_t characters = 0, truncated = 0;
  std::vector<int> layers;
  for (size_t i = 0; i < request.outcomes.size(); ++i) {
    const TextOutcome& outcome = request.outcomes[i];
    queue = std::max(queue, outcome.started - request.info.begun);
    tokenizing = std::max(tokenizing, outcome.tokenized - outcome.started);
    inference = std::max(inference, outcome.done - outcome.tokenized);
    tokens += outcome.answer.tokens;
    truncated += outcome.cut;
    saved += model.layers - outcome.answer.layers_run;
    layers.push_back(outcome.answer.layer);
    const auto [text, pair] = request.job.parts(i);
    const auto count = [](std::string_view s) {  // code points: every byte that does not continue one
      return static_cast<size_t>(std::ranges::count_if(s, [](char c) { return (c & 0xc0) != 0x80; }));
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
  // The same finer, as browsers read it: a small model takes less than a millisecond.
  out.emplace_back("server-timing", fmt::format("compute;dur={:.3f}", fine_milliseconds(tokenizing + inference)));
  out.emplace_back("x-exit-layer", fmt::format("{}", fmt::join(layers, ",")));
  out.emplace_back("x-layers-saved", fmt::format("{}", saved));
  if (truncated > 0) out.emplace_back("x-truncated-tokens", fmt::format("{}", truncated));
  const auto cut = std::ranges::count_if(
      request.outcomes, [](const TextOutcome& outcome) { return was_forced(outcome.answer.stop_reason); });
  if (cut > 0) {
    out.emplace_back("x-promise",
                     no_promise(fmt::format("{} of {} answers were cut short", cut, request.outcomes.size())));
  } else if (const char* why = beyond_promise(request.job, truncated); why && !is_full(request.policy.get())) {
    out.emplace_back("x-promise", no_promise(why));
  }
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
  const bool keep_end = job.truncate && job.truncate_left && !pair;
  Encoding out = tokenizer.encode(first, pair, {.max_length = model.max_tokens, .keep_end = keep_end});
  if (keep_end) return out;
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

const char* beyond_promise(const Job& job, size_t cut) noexcept {
  if (job.zero_shot) return "it is about the pairs' own labels, not about candidate labels";
  if (job.truncate_left && cut > 0) return "it is about texts cut at their end, not at their start";
  return nullptr;
}

size_t count_cut_tokens(const Job& job, size_t nth, const Encoding& kept, const Tokenizer& tokenizer) {
  const auto [first, pair] = job.parts(nth);
  const int most = static_cast<int>(kept.ids.size()) + kMaxCountedTokens;
  return tokenizer.encode(first, pair, {.max_length = most}).ids.size() - kept.ids.size();
}

HttpResponse compose(const ActiveRequest& request, const ModelFacts& model, const std::string& compute) {
  if (const auto failure = failure_of(request)) return refusal_response(*failure, request.info.id);
  std::vector<Answer> answers;
  std::vector<size_t> cut;
  for (const TextOutcome& outcome : request.outcomes) {
    answers.push_back(outcome.answer);
    cut.push_back(outcome.cut);
  }
  HttpResponse response;
  response.body = render({.job = request.job,
                          .model = model,
                          .answers = answers,
                          .policy = request.policy.get(),
                          .request_id = request.info.id,
                          .cut = cut});
  response.fields.emplace_back("x-compute-type", compute);
  if (request.policy) response.fields.emplace_back("x-exit-policy", str(request.policy->spec));
  add_compute_fields(request, model, response.fields);
  return response;
}

}  // namespace exeunt::serve
