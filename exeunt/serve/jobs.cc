// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/jobs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <boost/asio/post.hpp>

#include "exeunt/base/number.h"
#include "exeunt/serve/access_control.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

constexpr auto kDeadlineGrace = 3ms;  // for the engine to hand over its best answer so far
// The network thread parses bodies up to here: that takes no longer than waking another thread.
constexpr size_t kParseInline = 4096;

// `x-request-timeout-ms`, in microseconds.
std::optional<int64_t> timeout_field(const HttpRequest& request) {
  const std::string_view text = request.field("x-request-timeout-ms");
  if (text.empty()) return std::nullopt;
  const auto value = number_of<int64_t>(text);
  if (!value || *value < 1 || *value > 3'600'000) {
    throw invalid("x-request-timeout-ms: want a whole number from 1 to 3600000");
  }
  return 1000 * *value;
}

// NaN and infinite outputs are failures.
void check_finite(Answer& answer) {
  const auto finite = [](float value) { return std::isfinite(value); };
  if (std::ranges::all_of(answer.logits, finite)) return;
  answer = {};
  answer.error = "the model's outputs are not finite";
}

}  // namespace

void Jobs::start(HttpRequest& request, Incoming& incoming, ParseJob parser) {
  check_content_type(request);
  if (!parts_.canary.healthy()) throw unhealthy();
  if (parts_.context.enough_memory && !parts_.context.enough_memory()) {
    ++parts_.context.metrics.rejected["memory"];
    throw out_of_memory();
  }
  auto limit = std::chrono::duration_cast<std::chrono::microseconds>(options_.request_timeout);
  if (const auto timeout = timeout_field(request)) limit = std::min(limit, std::chrono::microseconds(*timeout));
  auto active = std::make_shared<ActiveRequest>();
  active->bytes = request.body.size();
  active->deadline = incoming.info.begun + limit;
  set_deadline(active);
  try {
    if (const auto full = admission_.enter(active->bytes)) throw overloaded(*full);
    if (active->bytes > kParseInline) parse_on_worker(active, std::move(request.body), parser);
  } catch (...) {
    (void)take_reply(*active);
    throw;
  }
  active->info = std::move(incoming.info);
  active->reply = std::move(incoming.reply);
  incoming.active = active;
  if (active->bytes <= kParseInline) {
    parse(*active, request.body, parser);
    run_parsed(active);
  }
}

void Jobs::parse_on_worker(const Request& request, std::string&& body, ParseJob parser) {
  try {
    boost::asio::post(parsers_, [this, request, parser, body = std::move(body)] {
      parse(*request, body, parser);
      parts_.context.post_or_wait([this, request] { run_parsed(request); });
    });
  } catch (...) {
    admission_.leave(0, request->bytes);
    throw;
  }
}

// On any thread.
void Jobs::parse(ActiveRequest& request, std::string_view body, ParseJob parser) const noexcept {
  try {
    const auto stop = [&] { return request.cancelled.load(std::memory_order_relaxed); };
    if (stop()) return;
    const JobRules rules{parts_.context.model, options_.max_client_batch, options_.auto_truncate};
    request.job = parser(parse_body(body, {.values = max_json_values(rules), .stop = stop}), rules);
  } catch (...) {
    request.failure = std::current_exception();
  }
}

// Admits the parsed texts and runs them, or refuses.
void Jobs::run_parsed(const Request& request) {
  if (request->answered) return admission_.leave(0, request->bytes);  // timed out or abandoned meanwhile
  size_t texts = 0;
  try {
    if (request->failure) std::rethrow_exception(request->failure);
    parts_.context.metrics.unknown_fields += static_cast<uint64_t>(request->job.unknown_fields);
    const ExitOptions& exit = request->job.exit;
    request->default_policy = !exit.policy;
    request->policy = exit.policy ? parts_.policies.named(*exit.policy) : parts_.policies.current();
    if (const int first = parts_.context.model.exits.front(); exit.max_layers && *exit.max_layers < first) {
      throw invalid(fmt::format("max_layers: got {}, the first exit is after layer {}", *exit.max_layers, first));
    }
    if (exit.deadline_us) {
      request->deadline =
          std::min<Deadline>(request->deadline, request->info.begun + std::chrono::microseconds(*exit.deadline_us));
      deadlines_.erase(request->deadline_entry);
      set_deadline(request);
    }
    if (const auto full = admission_.add(request->job.texts.size())) throw overloaded(*full);
    texts = request->job.texts.size();
    submit(request);
  } catch (...) {
    admission_.leave(texts, request->bytes);
    answer(*request, exception_response(parts_.context.log, request->info.id));
  }
}

void Jobs::set_deadline(const Request& request) {
  request->deadline_entry = deadlines_.emplace(request->deadline + kDeadlineGrace, request);
}

void Jobs::submit(const Request& request) {
  const size_t texts = request->job.texts.size();
  request->outcomes.resize(texts);
  Ask ask;
  ask.policy = request->policy;
  ask.max_layers = request->job.exit.max_layers.value_or(kAllLayers);
  ask.deadline = request->deadline;
  ask.details = request->job.exit.details;
  std::vector<Engine::LazyText> all;
  all.reserve(texts);
  for (size_t i = 0; i < texts; ++i) {
    all.push_back({.make = [this, request, i] { return encode(*request, i); },
                   .done = [request, i](Answer&& answer) { text_done(request->outcomes[i], std::move(answer)); }});
  }
  when_all_done(all, [this, request] { texts_done(request); });
  try {
    request->ticket = parts_.context.runner.submit(all, ask);
  } catch (const std::bad_alloc&) {
    throw;                                 // no text was queued, and the caller refuses the request
  } catch (const std::exception& error) {  // as if the engine had failed on each
    for (TextOutcome& outcome : request->outcomes) {
      Answer failed;
      failed.error = error.what();
      text_done(outcome, std::move(failed));
    }
    texts_done(request);
  }
}

// On a thread of the engine.
Encoding Jobs::encode(ActiveRequest& request, size_t nth) const {
  TextOutcome& outcome = request.outcomes[nth];
  outcome.started = outcome.tokenized = Clock::now();
  try {
    if (outcome.started >= request.deadline) throw deadline_passed();
    Encoding text = encode_text(request.job, nth, parts_.context.model, *parts_.context.runner.tokenizer);
    if (text.truncated) outcome.cut = count_cut_tokens(request.job, nth, text, *parts_.context.runner.tokenizer);
    outcome.tokenized = Clock::now();
    return text;
  } catch (const Refusal& refusal) {
    outcome.refusal = refusal;
    throw;
  } catch (const std::bad_alloc&) {
    outcome.refusal = out_of_memory();
    throw;
  }
}

// On a thread of the engine.
void Jobs::text_done(TextOutcome& outcome, Answer&& answer) noexcept {
  outcome.answer = std::move(answer);
  best_effort([&] { check_finite(outcome.answer); });
  outcome.done = Clock::now();
  if (outcome.started == Clock::time_point{}) outcome.started = outcome.tokenized = outcome.done;
}

// On the thread of the engine that ended last.
void Jobs::texts_done(const Request& request) noexcept {
  try {
    request->response = compose(*request, parts_.context.model, parts_.context.runner.compute);
  } catch (...) {
    request->failure = std::current_exception();
  }
  parts_.context.post_or_wait([this, request] { finish(request); });
}

void Jobs::finish(const Request& request) {
  admission_.leave(request->job.texts.size(), request->bytes);
  if (request->answered) return;  // timed out or abandoned meanwhile
  if (request->failure) {
    try {
      std::rethrow_exception(request->failure);
    } catch (...) {
      request->response = exception_response(parts_.context.log, request->info.id);
    }
  }
  best_effort([&] {
    log_failures(*request);
    if (request->response.status == 200) count_texts(*request);
  });
  answer(*request, std::move(request->response));
  best_effort([&] {
    if (request->default_policy) parts_.shadow.sample(*request);
  });
}

// From here on only the caller can answer.
Reply Jobs::take_reply(ActiveRequest& request) {
  request.answered = true;
  request.cancelled.store(true, std::memory_order_relaxed);
  deadlines_.erase(request.deadline_entry);
  return std::exchange(request.reply, {});
}

void Jobs::answer(ActiveRequest& request, HttpResponse&& response) {
  const Reply reply = take_reply(request);
  best_effort([&] { parts_.complete_response(response, request.info); });
  reply(std::move(response));
}

void Jobs::log_failures(const ActiveRequest& request) {
  for (const TextOutcome& outcome : request.outcomes) {
    if (outcome.answer.stop_reason != StopReason::failed || outcome.refusal) continue;
    ++parts_.context.metrics.failed_texts;
    if (outcome.answer.code == Code::resources) parts_.canary.on_failure(Clock::now());
    parts_.context.log({.level = "error",
                        .message = "text failed",
                        .fields = {{"request_id", request.info.id}, {"why", outcome.answer.error}}});
  }
}

void Jobs::count_texts(const ActiveRequest& request) {
  // Answers before the first layer come from the host also where the device no longer answers.
  if (std::ranges::any_of(request.outcomes, [](const TextOutcome& one) { return one.answer.layers_run > 0; }))
    parts_.canary.on_answer(Clock::now());
  Metrics& metrics = parts_.context.metrics;
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  for (const TextOutcome& outcome : request.outcomes) {
    ++metrics.texts;
    ++metrics.exits[outcome.answer.layer];
    metrics.tokens += static_cast<uint64_t>(outcome.answer.tokens);
    if (outcome.cut > 0 && metrics.truncated_texts++ == 0) warn_of_truncation();
    metrics.layers_run += static_cast<uint64_t>(outcome.answer.layers_run);
    metrics.layers_full += static_cast<uint64_t>(parts_.context.model.layers);
    metrics.queue.add(seconds(outcome.started - request.info.begun));
    metrics.tokenization.add(seconds(outcome.tokenized - outcome.started));
    metrics.inference.add(seconds(outcome.done - outcome.tokenized));
  }
}

// Once: what clients send is not the operator's to change, and the metric counts the others.
void Jobs::warn_of_truncation() {
  parts_.context.log({.level = "warn",
                      .message = "a text was truncated; others are counted in exeunt_truncated_texts_total",
                      .fields = {{"max_tokens", fmt::format("{}", parts_.context.model.max_tokens)}}});
}

Refusal Jobs::overloaded(std::string_view of) {
  ++parts_.context.metrics.rejected[std::string(of)];
  return {429, ErrorType::overloaded, "model is overloaded", "retry after a moment, or send fewer texts at once"};
}

void Jobs::abandon(const Request& request) {
  if (!request || request->answered) return;
  (void)take_reply(*request);
  request->ticket.cancel();
  ++parts_.context.metrics.abandoned;
}

Clock::time_point Jobs::wake_at() const noexcept {
  return deadlines_.empty() ? Clock::time_point::max() : deadlines_.begin()->first;
}

void Jobs::wake(Clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto request = deadlines_.begin()->second.lock();
    if (!request) {
      deadlines_.erase(deadlines_.begin());
      continue;
    }
    request->ticket.cancel();
    answer(*request, refusal_response(deadline_passed(), request->info.id));
  }
}

}  // namespace exeunt::serve
