// SPDX-License-Identifier: Apache-2.0
// The part of the service that runs texts: admission, deadlines, answers, the shadow at full depth, and the canary.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "exeunt/exits/policy_text.h"
#include "exeunt/serve/body.h"
#include "exeunt/serve/service.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

constexpr auto kDeadlineGrace = 3ms;  // for the engine to hand over its best answer so far
constexpr auto kCanaryEvery = 30s, kCanaryLimit = 10s;
constexpr auto kControlEvery = 25ms;
constexpr size_t kMaxShadows = 16;  // at a time
// Bodies up to here are read by the network thread, as that takes no longer than to wake another.
constexpr size_t kReadAtOnce = 4096;

// Only JSON comes in; a body without a type is taken for it.
void check_type(const HttpRequest& request) {
  const std::string_view type = request.field("content-type");
  if (type.empty() || list_holds(type, "application/json")) return;
  throw Refusal(415, ErrorType::validation, "the body's type is not application/json",
                "send 'Content-Type: application/json'");
}

// `x-request-timeout-ms`, where it is a sound number.
std::optional<int64_t> timeout_field(const HttpRequest& request) {
  const std::string_view text = request.field("x-request-timeout-ms");
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 3'600'000) {
    throw invalid("x-request-timeout-ms: want a whole number from 1 to 3600000");
  }
  return 1000 * value;
}

// Outputs that are no numbers are no answer.
void check_finite(Answer& answer) {
  const auto finite = [](float value) { return std::isfinite(value); };
  if (std::all_of(answer.logits.begin(), answer.logits.end(), finite)) return;
  answer = {};
  answer.error = "the model's outputs are not finite";
}

Refusal no_memory() {
  return {503, ErrorType::overloaded, "out of memory", "retry after a moment, or send less at once"};
}

Refusal too_late() {
  return {504, ErrorType::overloaded, "the deadline passed before any exit was reached",
          "allow more time, or retry when the server is less busy"};
}

}  // namespace

const std::shared_ptr<const AskPolicy>& Service::default_policy() const {
  return tightened_ ? policies_.full() : policies_.at(controller_.level());
}

Service::Answered Service::start(HttpRequest& request, Context& context, Parse parse) {
  check_type(request);
  if (!healthy()) throw Refusal(503, ErrorType::unhealthy, "unhealthy: the engine does not answer");
  if (enough_memory_ && !enough_memory_()) {
    ++metrics_.rejected["memory"];
    throw no_memory();
  }
  auto limit = std::chrono::duration_cast<std::chrono::microseconds>(options_.request_timeout);
  if (const auto timeout = timeout_field(request)) limit = std::min(limit, std::chrono::microseconds(*timeout));
  auto running = std::make_shared<Running>();
  running->bytes = request.body.size();
  running->deadline = context.note.begun + limit;
  set_alarm(running);
  try {
    if (const auto full = admission_.enter(running->bytes)) throw too_much(*full);
    if (running->bytes > kReadAtOnce) read_elsewhere(running, std::move(request.body), parse);
  } catch (...) {
    (void)close(*running);
    throw;
  }
  running->note = std::move(context.note);
  running->reply = std::move(context.reply);
  context.running = running;
  if (running->bytes <= kReadAtOnce) {
    read_job(*running, request.body, parse);
    begin(running);
  }
  return std::nullopt;
}

void Service::read_elsewhere(const std::shared_ptr<Running>& running, std::string&& body, Parse parse) {
  try {
    reader_.give([this, running, parse, body = std::move(body)] {
      read_job(*running, body, parse);
      hand_over([this, running] { begin(running); });
    });
  } catch (...) {
    admission_.leave(0, running->bytes);
    throw;
  }
}

// On any thread.
void Service::read_job(Running& running, std::string_view body, Parse parse) const noexcept {
  try {
    running.job = parse(parse_body(body), {model_, options_.max_client_batch, options_.auto_truncate});
  } catch (...) {
    running.failure = std::current_exception();
  }
}

// What was read is admitted and runs, or is refused.
void Service::begin(const std::shared_ptr<Running>& running) {
  if (running->answered) return admission_.leave(0, running->bytes);  // the deadline or the client's leaving was faster
  size_t texts = 0;
  try {
    if (running->failure) std::rethrow_exception(running->failure);
    metrics_.unknown_fields += static_cast<uint64_t>(running->job.unknown_fields);
    const ExitAsk& exit = running->job.exit;
    running->by_default = !exit.policy;
    running->policy = exit.policy ? policies_.named(*exit.policy) : default_policy();
    if (exit.max_layers && *exit.max_layers < model_.exits.front()) {
      throw invalid(
          fmt::format("max_layers: got {}, the first exit is after layer {}", *exit.max_layers, model_.exits.front()));
    }
    if (exit.deadline_us) {
      running->deadline =
          std::min<Deadline>(running->deadline, running->note.begun + std::chrono::microseconds(*exit.deadline_us));
      deadlines_.erase(running->alarm);
      set_alarm(running);
    }
    if (const auto full = admission_.add(running->job.texts.size())) throw too_much(*full);
    texts = running->job.texts.size();
    submit(running);
  } catch (...) {
    admission_.leave(texts, running->bytes);
    answer(*running, response_to_exception(running->note));
  }
}

void Service::set_alarm(const std::shared_ptr<Running>& running) {
  running->alarm = deadlines_.emplace(running->deadline + kDeadlineGrace, running);
}

// From here on nothing can be answered any more, but through the result.
Reply Service::close(Running& running) {
  running.answered = true;
  deadlines_.erase(running.alarm);
  return std::exchange(running.reply, {});
}

void Service::answer(Running& running, HttpResponse&& response) {
  const Reply reply = close(running);
  spare([&] { seal(response, running.note); });
  reply(std::move(response));
}

Refusal Service::too_much(std::string_view of) {
  ++metrics_.rejected[std::string(of)];
  return {429, ErrorType::overloaded, "model is overloaded", "retry after a moment, or send fewer texts at once"};
}

void Service::submit(const std::shared_ptr<Running>& running) {
  const size_t texts = running->job.texts.size();
  running->runs.resize(texts);
  running->tickets.reserve(texts);
  running->left = texts;
  Ask ask;
  ask.policy = running->policy;
  ask.max_layers = running->job.exit.max_layers.value_or(kAllLayers);
  ask.deadline = running->deadline;
  ask.details = running->job.exit.details;
  for (size_t i = 0; i < texts; ++i) {
    const auto make = [this, running, i] {
      TextRun& run = running->runs[i];
      run.started = run.tokenised = Clock::now();
      try {
        if (run.started >= running->deadline) throw too_late();  // nobody waits for it any more
        Encoding text = encode_text(running->job, i, model_, *runner_.tokenizer);
        run.tokenised = Clock::now();
        return text;
      } catch (const Refusal& refusal) {
        run.refusal = refusal;
        throw;
      } catch (const std::bad_alloc&) {
        run.refusal = no_memory();
        throw;
      }
    };
    const auto done = [this, running, i](Answer&& answer) {
      TextRun& run = running->runs[i];
      run.answer = std::move(answer);
      spare([&] { check_finite(run.answer); });
      run.done = Clock::now();
      if (run.started == Clock::time_point{}) run.started = run.tokenised = run.done;
      if (running->left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      try {
        running->response = compose(*running, model_, runner_.compute);
      } catch (...) {
        running->failure = std::current_exception();
      }
      hand_over([this, running] { finish(running); });
    };
    try {
      running->tickets.push_back(runner_.submit(make, ask, done));
    } catch (const std::bad_alloc&) {
      spare([&] { running->runs[i].refusal = no_memory(); });
      done({});
    } catch (const std::exception& error) {  // the engine could not take it: as if it had failed at once
      Answer failed;
      failed.error = error.what();
      done(std::move(failed));
    }
  }
}

void Service::finish(const std::shared_ptr<Running>& running) {
  admission_.leave(running->job.texts.size(), running->bytes);
  if (running->answered) return;  // the deadline or the client's leaving was faster
  if (running->failure) {
    try {
      std::rethrow_exception(running->failure);
    } catch (...) {
      running->response = response_to_exception(running->note);
    }
  }
  spare([&] {
    log_failures(*running);
    if (running->response.status == 200) count_texts(*running);
  });
  answer(*running, std::move(running->response));
  spare([&] {
    if (running->by_default) maybe_shadow(running);
  });
}

void Service::log_failures(const Running& running) {
  for (const TextRun& run : running.runs) {
    if (run.answer.ended != Ended::failed || run.refusal) continue;
    ++metrics_.failed_texts;
    log_({.level = "error",
          .message = "text failed",
          .fields = {{"request_id", running.note.id}, {"why", run.answer.error}}});
  }
}

void Service::count_texts(const Running& running) {
  last_good_ = Clock::now();
  canary_failures_ = 0;
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  for (const TextRun& run : running.runs) {
    ++metrics_.texts;
    ++metrics_.exits[run.answer.layer];
    metrics_.tokens += static_cast<uint64_t>(run.answer.tokens);
    metrics_.layers_run += static_cast<uint64_t>(run.answer.layers_run);
    metrics_.layers_full += static_cast<uint64_t>(model_.layers);
    metrics_.queue.add(seconds(run.started - running.note.begun));
    metrics_.tokenization.add(seconds(run.tokenised - run.started));
    metrics_.inference.add(seconds(run.done - run.tokenised));
  }
}

void Service::abandon(const std::shared_ptr<Running>& running) {
  if (!running || running->answered) return;
  (void)close(*running);
  for (const Ticket& ticket : running->tickets) ticket.cancel();
  ++metrics_.abandoned;
}

// Every 1/share-th text answered by the default policy also runs to full depth, behind its answer.
void Service::maybe_shadow(const std::shared_ptr<Running>& running) {
  if (options_.shadow_share <= 0 || tightened_ || draining_) return;
  for (size_t i = 0; i < running->runs.size(); ++i) {
    const Ended ended = running->runs[i].answer.ended;
    if (ended != Ended::policy && ended != Ended::last_exit) continue;
    shadow_due_ += options_.shadow_share;
    if (shadow_due_ < 1) continue;
    shadow_due_ -= 1;
    // Clients come first: nothing is run twice while they wait.
    if (shadows_running_ >= kMaxShadows || admission_.fill() > 0.5) {
      ++shadows_skipped_;
      continue;
    }
    shadow_text(running, i);
  }
}

void Service::shadow_text(const std::shared_ptr<Running>& running, size_t nth) {
  ++shadows_running_;
  Ask ask;
  ask.policy = policies_.full();
  const auto make = [this, running, nth] { return encode_text(running->job, nth, model_, *runner_.tokenizer); };
  const auto done = [this, running, nth](Answer&& full) {
    const Answer& early = running->runs[nth].answer;
    const bool counts = full.exit >= 0 && full.ended != Ended::failed && full.ended != Ended::cancelled;
    double loss = full.evidence.label == early.evidence.label ? 0 : 1;
    if (model_.regression) {
      const double range = model_.range > 0 ? model_.range : 1;
      loss = std::min(1.0, std::abs(static_cast<double>(full.evidence.value - early.evidence.value)) / range);
    }
    hand_over([this, counts, loss] {
      --shadows_running_;
      if (!counts) return;
      watch_.record(loss);
      const bool alarm = watch_.alarm();
      if (alarm && !alarmed_) {
        log_({.level = "warn",
              .message = "the policy no longer keeps its promise on these texts",
              .fields = {{"agreement", fmt::format("{:.4f}", watch_.agreement())},
                         {"texts", fmt::format("{}", watch_.texts())},
                         {"action", options_.tighten_on_alarm ? "full depth from now on" : "none"}}});
        tightened_ = options_.tighten_on_alarm;
      }
      alarmed_ = alarm;
    });
  };
  try {
    (void)runner_.submit(make, ask, done);
  } catch (const std::exception&) {
    --shadows_running_;
    ++shadows_skipped_;
  }
}

// A text of our own through the whole engine, where no answer has shown for a while that it lives.
void Service::run_canary(Clock::time_point now) {
  if (canary_since_ && now - *canary_since_ > kCanaryLimit) {
    ++canary_failures_;
    canary_since_.reset();
    log_({.level = "error",
          .message = "the canary was not answered",
          .fields = {{"failures", fmt::format("{}", canary_failures_)}}});
  }
  if (now < next_canary_ || canary_since_) return;
  next_canary_ = now + (canary_failures_ > 0 ? 1s : kCanaryEvery);
  if (now - last_good_ < kCanaryEvery && canary_failures_ == 0) return;
  canary_since_ = now;
  const uint64_t round = ++canary_round_;
  const auto make = [this] {
    return runner_.tokenizer->encode("canary", std::nullopt, {.max_length = model_.max_tokens});
  };
  const auto done = [this, round](Answer&& answer) {
    const bool good = answer.exit >= 0;
    hand_over([this, round, good] {
      if (round != canary_round_) return;
      canary_since_.reset();
      canary_failures_ = good ? 0 : canary_failures_ + 1;
    });
  };
  try {
    (void)runner_.submit(make, Ask{}, done);
  } catch (const std::exception&) {
    canary_since_.reset();
    ++canary_failures_;
  }
}

Clock::time_point Service::wake_at() const {
  Clock::time_point next = canary_since_ ? *canary_since_ + kCanaryLimit : next_canary_;
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  if (policies_.levels() > 1 && (admission_.requests() > 0 || controller_.level() > 0))
    next = std::min(next, next_control_);
  return next;
}

void Service::wake(Clock::time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto running = deadlines_.begin()->second.lock();
    if (!running) {
      deadlines_.erase(deadlines_.begin());
      continue;
    }
    for (const Ticket& ticket : running->tickets) ticket.cancel();
    answer(*running, refusal_response(too_late(), running->note.id));
  }
  if (now >= next_control_) {
    next_control_ = now + kControlEvery;
    (void)controller_.update(now, admission_.fill());
  }
  run_canary(now);
}

}  // namespace exeunt::serve
