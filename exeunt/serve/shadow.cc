// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/shadow.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <thread>
#include <utility>

#include <boost/asio/post.hpp>
#include <sys/resource.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/trace.h"

namespace exeunt::serve {
namespace {

constexpr size_t kRemembered = 1 << 16;
constexpr auto kKeepEvery = std::chrono::seconds(1);  // at most this is lost if the server is killed

}  // namespace

Shadow::Shadow(ServiceContext& context, ServedPolicies& policies, ShadowOptions options)
    : context_(context),
      policies_(policies),
      options_(std::move(options)),
      random_(options_.seed),
      recent_(kRemembered) {
  if (options_.share <= 0) return;
  for (size_t i = 0; i < policies_.points(); ++i) {
    const std::optional<RiskLoss>& loss = options_.reference.loss;
    watches_.emplace_back(policies_.promised(i), loss ? loss->max_false : std::nullopt);
    const std::map<int, float> exits = policies_.calibrated_exits(i);
    const std::optional<PolicyEntry>& entry = policies_.entry();
    shares_.emplace_back();
    if (!exits.empty() && entry->certificate) shares_.back().emplace(exits.begin()->second, entry->certificate->rows);
  }
  restore_watches();
  thread_.emplace(1);
}

// `work(point, test, bets)` for every test of a promise; `bets` names it.
template <class Work>
void Shadow::each_test(const Work& work) {
  for (size_t i = 0; i < watches_.size(); ++i) {
    for (const bool others : {false, true}) {
      if (RiskAlarm* test = watches_[i].test(others))
        work(i, *test,
             WatchedBets{str(policies_.point(i).spec), *watches_[i].max_drop(), policies_.entry()->certificate->created,
                         others});
    }
  }
}

std::vector<WatchedBets> Shadow::watched_bets() {
  std::vector<WatchedBets> out;
  each_test([&](size_t, RiskAlarm& test, WatchedBets bets) {
    const RiskAlarm::Memory& memory = test.memory();
    bets.losses = memory.losses;
    bets.wealth = {memory.wealth.begin(), memory.wealth.end()};
    bets.alarm = memory.raised;
    out.push_back(std::move(bets));
  });
  return out;
}

void Shadow::restore_watches() {
  if (options_.watch_file.empty()) return;
  std::vector<WatchedBets> known;
  try {
    known = read_watch_file(options_.watch_file);
  } catch (const Error& error) {
    context_.log({.level = "warn",
                  .message = "what earlier servers saw of the promise is lost: its watch begins anew",
                  .fields = {{"error", error.what()}}});
  }
  each_test([&](size_t point, RiskAlarm& test, const WatchedBets& bets) {
    const auto same = std::ranges::find_if(known, [&](const WatchedBets& one) {
      return one.policy == bets.policy && one.max_drop == bets.max_drop && one.created == bets.created &&
             one.others == bets.others;
    });
    if (same == known.end()) return;
    RiskAlarm::Memory memory{.losses = same->losses, .raised = same->alarm};
    std::ranges::copy(same->wealth, memory.wealth.begin());
    test.restore(memory);
    if (same->alarm) note_alarm(point);
  });
}

// On the shadow thread, which may wait for the disk.
void Shadow::keep_watches() {
  if (options_.watch_file.empty()) return;
  kept_ = Clock::now();
  boost::asio::post(*thread_, [path = options_.watch_file, text = watch_file_text(watched_bets())] {
    best_effort([&] { write_atomically(path, text); });
  });
}

void Shadow::end() noexcept {
  stop();
  if (!thread_) return;
  thread_.reset();
  best_effort([&] {
    if (!options_.watch_file.empty()) write_atomically(options_.watch_file, watch_file_text(watched_bets()));
  });
}

void Shadow::sample(const ActiveRequest& request) {
  if (options_.share <= 0) return;
  const auto point = policies_.point_of(*request.policy);
  if (!point && !options_.reference.logs) return;  // full depth: there is nothing to watch
  for (size_t i = 0; i < request.outcomes.size(); ++i) {
    const StopReason reason = request.outcomes[i].answer.stop_reason;
    if (reason != StopReason::policy && reason != StopReason::last_exit) continue;
    if (beyond_promise(request.job, request.outcomes[i].cut)) continue;
    if (std::uniform_real_distribution<>()(random_) < options_.share) enqueue(request, i, point);
  }
}

void Shadow::enqueue(const ActiveRequest& request, size_t nth, std::optional<size_t> point) {
  const JobText& text = request.job.texts[nth];
  const std::vector<float>& early = request.outcomes[nth].answer.logits;
  const auto [first, second] = request.job.parts(nth);
  const size_t bytes = first.size() + second.value_or("").size() + early.size() * sizeof(early[0]) +
                       text.ids.size() * (sizeof(text.ids[0]) + sizeof(text.types[0]));
  if (pending_ >= kMaxPending || pending_bytes_ + bytes > kMaxPendingBytes) return drop(point);
  try {
    const auto sample = std::make_shared<Sample>(Sample{.point = point,
                                                        .job = request.job.only(nth),
                                                        .early = early,
                                                        .layer = request.outcomes[nth].answer.layer,
                                                        .dropped_before = dropped_,
                                                        .bytes = bytes});
    boost::asio::post(*thread_,
                      [this, sample] { context_.post_or_wait([this, done = compare(*sample)] { finish(done); }); });
  } catch (const std::bad_alloc&) {
    return drop(point);
  }
  dropped_ = 0;
  ++pending_;
  pending_bytes_ += bytes;
}

void Shadow::drop(std::optional<size_t> point) noexcept {
  ++dropped_;
  if (point) watches_[*point].drop();
}

Shadow::Comparison Shadow::compare(const Sample& sample) const noexcept {
  Comparison out{.point = sample.point, .bytes = sample.bytes, .layer = sample.layer};
  best_effort([&] {
    const Encoding text = encode_text(sample.job, 0, context_.model, *context_.runner.tokenizer);
    const ShadowPass pass = options_.reference.pass(text, sample.dropped_before);
    out.processor_seconds = pass.processor_seconds;
    out.kept = pass.kept;
    out.hash = row_hash_of(text.ids);
    const auto finite = [](float value) { return std::isfinite(value); };
    if (pass.logits.empty() || !std::ranges::all_of(pass.logits, finite)) return;
    const LossOf loss(options_.reference.loss.value_or(default_loss(context_.model.problem)), context_.model,
                      options_.reference.range);
    out.loss = loss({.given = sample.early, .reference = pass.logits});
    out.counts = loss.counts(pass.logits);
  });
  return out;
}

void Shadow::finish(const Comparison& comparison) {
  --pending_;
  pending_bytes_ -= comparison.bytes;
  processor_seconds_ += comparison.processor_seconds;
  if (!comparison.kept && !std::exchange(log_full_, true)) {
    context_.log({.level = "warn", .message = "the shadow log is full: nothing more is kept", .fields = {}});
  }
  if (!comparison.loss) {
    drop(comparison.point);
  } else if (comparison.point) {
    PromiseWatch& watch = watches_[*comparison.point];
    const bool before = watch.alarm();
    watch.record(*comparison.loss, comparison.counts);
    if (!before && watch.alarm()) note_alarm(*comparison.point);
    if (before != watch.alarm() || Clock::now() - kept_ >= kKeepEvery) keep_watches();
    watch_share(comparison);
  }
  if (pending_ > 0) return;
  for (PromiseWatch& watch : watches_) watch.mark_covered();
}

void Shadow::note_alarm(size_t point) {
  if (options_.tighten_on_alarm) policies_.tighten(point);
  const PromiseWatch& watch = watches_[point];
  const bool distinct = policies_.entry()->certificate->unit == CertifiedUnit::texts;
  context_.log(
      {.level = "warn",
       .message = "a policy no longer keeps its promise on these texts",
       .fields = {{"policy", str(policies_.point(point).spec)},
                  {"certified", fmt::format("{:g}", *watch.max_drop())},
                  {"of", distinct ? "distinct texts; here each request counts" : "requests"},
                  {"mean_loss", watch.texts() == 0
                                    ? "found by an earlier server"
                                    : fmt::format("{:.4f}", watch.losses() / static_cast<double>(watch.texts()))},
                  {"texts", fmt::format("{}", watch.texts())},
                  {"action", options_.tighten_on_alarm ? "served no more" : "none"}}});
}

void Shadow::watch_share(const Comparison& comparison) {
  const size_t point = *comparison.point;
  std::optional<ShareWatch>& watch = shares_[point];
  if (!watch) return;
  const bool once = policies_.entry()->certificate->unit == CertifiedUnit::texts;  // as at calibration
  if (once && !recent_.insert(comparison.hash)) return;
  const int first = policies_.calibrated_exits(point).begin()->first;
  const bool before = watch->shifted();
  watch->record(comparison.layer == first);
  if (before || !watch->shifted()) return;
  context_.log({.level = "warn",
                .message = "texts leave at the first exit more or less often than at calibration: they have changed",
                .fields = {{"policy", str(policies_.point(point).spec)},
                           {"layer", fmt::format("{}", first)},
                           {"calibrated", fmt::format("{:.3f}", watch->calibrated())},
                           {"share", fmt::format("{:.3f}", watch->share())}}});
}

Metrics::Shadows Shadow::report() const {
  Metrics::Shadows out{
      .points = {}, .pending = pending_, .bytes = options_.reference.bytes, .processor_seconds = processor_seconds_};
  for (size_t i = 0; i < watches_.size(); ++i) {
    out.points.push_back({.policy = str(policies_.point(i).spec), .watch = watches_[i], .first_exit = shares_[i]});
  }
  return out;
}

namespace {

// Runs `work` on a new thread of low priority, which the threads that it starts inherit. Waits for it,
// and throws what it throws.
template <class Work>
void run_at_low_priority(const Work& work) {
  std::exception_ptr failure;
  std::thread([&] {
    (void)::setpriority(PRIO_PROCESS, 0, 19);  // on Linux, 0 is this thread alone
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

std::vector<float> last_exit(const Engine::FullPass& pass, int outputs) {
  return {pass.logits.end() - outputs, pass.logits.end()};
}

void require_finite(const Engine::FullPass& pass) {
  for (const auto* values : {&pass.logits, &pass.lte, &pass.ramp}) {
    const auto finite = [](float value) { return std::isfinite(value); };
    if (!std::ranges::all_of(*values, finite)) throw Error(Code::failure, "the model's outputs are not finite");
  }
}

}  // namespace

double loss_range(const Certificate* certificate, const ModelFacts& model) {
  if (model.problem != Problem::regression) return 0;
  const bool certified = certificate != nullptr && certificate->range.size() == 2;
  const double range = certified ? certificate->range[1] - certificate->range[0] : model.range_width();
  if (range > 0) return range;
  throw Error(Code::usage, "--shadow: neither the certificate nor the model has a range of values to measure losses by",
              "certify the model with 'exeunt calibrate' first (its --range LOW,HIGH names the range), or leave "
              "--shadow out");
}

ShadowEngine::ShadowEngine(const Checkpoint& model, Engine& served, const ShadowEngineOptions& options)
    : served_(served), reference_is_fp32_(options.reference == LossReference::fp32) {
  if (!options.log.empty()) log_.emplace(options.log, options.log_head);
  if (served.precision() == Precision::fp32 || !(reference_is_fp32_ || log_)) return;
  run_at_low_priority([&] {  // its thread inherits that
    fp32_ = std::make_unique<Engine>(
        model, EngineOptions{
                   .device = options.device, .precision = Precision::fp32, .threads = 1, .kernels = options.kernels});
  });
}

ShadowPass ShadowEngine::pass(const Encoding& text, uint64_t dropped) {
  const Engine::FullPass fp32 = fp32_ ? fp32_->full_pass(text) : Engine::FullPass{};
  const Engine::FullPass served = runs_served() ? served_.full_pass(text) : Engine::FullPass{};
  require_finite(fp32);
  require_finite(served);
  const int outputs = served_.exits().outputs;
  ShadowPass out{.logits = last_exit(fp32_ && reference_is_fp32_ ? fp32 : served, outputs),
                 .processor_seconds = fp32.processor_seconds + served.processor_seconds};
  if (!log_) return out;
  out.kept = log_->write({.time = now_rfc3339(),
                          .row_hash = hash_text(row_hash_of(text.ids)),
                          .tokens = static_cast<int>(text.ids.size()),
                          .logits = served.logits,
                          .lte = served.lte,
                          .ramp = served.ramp,
                          .reference = last_exit(fp32_ ? fp32 : served, outputs),
                          .dropped = dropped});
  return out;
}

double ShadowEngine::relative_cost(const Encoding& text) {
  const auto cost = [&](Engine& engine) {
    (void)engine.full_pass(text);  // the first one also fills caches
    const double before = processor_seconds();
    (void)engine.full_pass(text);
    return std::max(processor_seconds() - before, 1e-6);
  };
  return (fp32_ ? cost(*fp32_) / cost(served_) : 0) + (runs_served() ? 1 : 0);
}

}  // namespace exeunt::serve
