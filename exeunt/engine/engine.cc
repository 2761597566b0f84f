// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/engine.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "exeunt/engine/backend.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cuda/cuda.h"

namespace exeunt {
namespace {

// Lets one thread wait until a number of things are done elsewhere.
class Countdown {
 public:
  explicit Countdown(size_t count) : left_(count) {}
  void done(const std::exception_ptr& failure = {}, const std::function<void(int64_t)>& tell = {}) {
    const std::scoped_lock lock(mutex_);
    if (tell) tell(1);
    if (failure) failure_ = failure;
    if (--left_ == 0) finished_.notify_all();  // under the lock: afterwards the waiter may be gone
  }
  // Throws the failure if there was one.
  void wait() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return left_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  size_t left_;
  std::exception_ptr failure_ = {};
};

// Copies `values` to row `row` of an array of rows; the array is sized beforehand or stays empty.
void put_row(std::vector<float>& array, size_t row, std::span<const float> values) {
  std::copy(values.begin(), values.end(), array.begin() + static_cast<ptrdiff_t>(row * values.size()));
}

// Runs passes and waits for all of them; each is handed to `keep`. Throws what failed.
template <class Keep>
void run_passes(Backend& backend, std::span<const Encoding> texts, PassRequest request,
                const std::function<void(int64_t)>& advance, Keep keep) {
  for (const Encoding& text : texts) check_text(backend.info().spec, text.ids, text.types);
  Countdown countdown(texts.size());
  request.done = [&](size_t i, Engine::FullPass&& pass, const std::exception_ptr& failure) {
    if (!failure) keep(i, std::move(pass));
    countdown.done(failure, advance);
  };
  backend.run_passes(texts, std::make_shared<const PassRequest>(std::move(request)));
  countdown.wait();
}

void check_ask(const ExitLayout& exits, const Ask& ask) {
  const auto& sites = exits.sites;
  if (deepest_exit(exits, ask.max_layers) < 0) {
    throw Error(Code::usage, fmt::format("max_layers: got {}, but the first exit sits after layer {}", ask.max_layers,
                                         sites.front().after));
  }
  if (!ask.policy) return;
  const Policy& policy = ask.policy->bound;
  check(policy.count >= 1 && policy.classes == exits.outputs &&
            policy.site[policy.count - 1] < static_cast<int>(sites.size()),
        "the policy is bound to this model");
}

std::unique_ptr<Backend> make_backend(const Checkpoint& checkpoint, EngineOptions options) {
  require_heads(checkpoint);
  options.device = find_device(checkpoint, options.device);
  return options.device.kind == Device::Kind::cuda ? make_cuda_backend(checkpoint, options)
                                                   : make_cpu_backend(checkpoint, options);
}

}  // namespace

void require_heads(const Checkpoint& model) {
  if (model.exits().sites.empty()) throw_no_head(model);
}

ExitSites exit_sites(const ExitLayout& layout) {
  ExitSites sites{.layers = {},
                  .outputs = layout.outputs,
                  .problem = layout.problem,
                  .lte = layout.lte,
                  .ramp = layout.compat_last_ramp == LastHead::ramp,
                  .logit_thresholds = layout.threshold_data()};
  for (const ExitSite& site : layout.sites) sites.layers.push_back(site.after);
  return sites;
}

std::string_view name_of(StopReason reason) noexcept {
  constexpr std::array<std::string_view, 6> names = {"policy",   "last_exit", "max_layers",
                                                     "deadline", "cancelled", "failed"};
  return names[static_cast<size_t>(reason)];
}

Engine::Engine(const Checkpoint& checkpoint, const EngineOptions& options)
    : Engine(make_backend(checkpoint, options)) {}
Engine::Engine(std::unique_ptr<Backend> backend) : backend_(std::move(backend)), info_(backend_->info()) {}
Engine::~Engine() = default;

std::shared_ptr<const BoundPolicy> Engine::bind(const PolicySpec& policy, std::vector<float> exit_rates) const {
  auto out = std::make_shared<BoundPolicy>();
  out->spec = policy;
  out->bound = exeunt::bind(policy, exit_sites(exits()));
  out->counts = std::make_shared<ExitCounts>();
  // A policy that looks at one exit alone has nothing to plan by.
  const bool planned = info_of(policy.rule).sole_layer(out->bound.params) == kEveryExit;
  if (planned) out->exit_rates = std::move(exit_rates);
  check(out->exit_rates.empty() || out->exit_rates.size() == static_cast<size_t>(out->bound.count),
        "one exit rate for each evaluated exit");
  return out;
}

Ticket Engine::enqueue(TextSource source, const Ask& ask, Done done) {
  check_ask(exits(), ask);
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  AnswerJob job{.source = std::move(source), .ask = ask, .done = std::move(done), .cancelled = cancelled};
  backend_->submit({&job, 1});
  return Ticket(std::move(cancelled));
}

Ticket Engine::submit(Encoding text, const Ask& ask, Done done) {
  check_text(spec(), text.ids, text.types);
  return enqueue(TextSource{.own = std::move(text)}, ask, std::move(done));
}

Ticket Engine::submit(MakeEncoding text, const Ask& ask, Done done) {
  return enqueue(TextSource{.make = std::move(text)}, ask, std::move(done));
}

Ticket Engine::submit(std::span<LazyText> texts, const Ask& ask) {
  check_ask(exits(), ask);
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  std::vector<AnswerJob> jobs;
  jobs.reserve(texts.size());
  for (LazyText& text : texts) {
    jobs.push_back(
        {.source = {.make = std::move(text.make)}, .ask = ask, .done = std::move(text.done), .cancelled = cancelled});
  }
  backend_->submit(jobs);
  return Ticket(std::move(cancelled));
}

std::vector<Answer> Engine::answer_all(std::vector<TextSource> sources, const Ask& ask) {
  check_ask(exits(), ask);
  std::vector<Answer> answers(sources.size());
  Countdown countdown(sources.size());
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);  // by nobody
  std::vector<AnswerJob> jobs;
  jobs.reserve(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto done = [&, i](Answer&& answer) {
      answers[i] = std::move(answer);
      countdown.done();
    };
    jobs.push_back({.source = std::move(sources[i]), .ask = ask, .done = done, .cancelled = cancelled});
  }
  backend_->submit(jobs);
  countdown.wait();
  return answers;
}

std::vector<Answer> Engine::answer(std::span<const Encoding> texts, const Ask& ask) {
  std::vector<TextSource> sources(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    check_text(spec(), texts[i].ids, texts[i].types);
    sources[i].borrowed = &texts[i];
  }
  std::vector<Answer> answers = answer_all(std::move(sources), ask);
  for (const Answer& answer : answers) {
    if (answer.stop_reason == StopReason::failed) throw Error(answer.code, answer.error);
  }
  return answers;
}

std::vector<Answer> Engine::answer(std::span<MakeEncoding> texts, const Ask& ask) {
  std::vector<TextSource> sources(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) sources[i].make = std::move(texts[i]);
  return answer_all(std::move(sources), ask);
}

void when_all_done(std::span<Engine::LazyText> texts, std::function<void()> act) {
  struct Group {
    std::atomic<size_t> left = 0;
    std::function<void()> act = {};
  };
  const auto group = std::make_shared<Group>();
  group->left = texts.size();
  group->act = std::move(act);
  for (Engine::LazyText& text : texts) {
    text.done = [group, done = std::move(text.done)](Answer&& answer) {
      done(std::move(answer));
      if (group->left.fetch_sub(1, std::memory_order_acq_rel) == 1) group->act();
    };
  }
}

Engine::FullPass Engine::full_pass(const Encoding& text) {
  FullPass out;
  run_passes(*backend_, {&text, 1}, {.depth = spec().layers, .row_0 = true, .alone = true}, {},
             [&](size_t, FullPass&& pass) { out = std::move(pass); });
  return out;
}

std::vector<float> Engine::layer_rows(std::span<const Encoding> texts, int depth, const TakeRows& take,
                                      const std::function<void(int64_t)>& advance) {
  check(depth >= 1 && depth <= spec().layers, "as many layers as the model has");
  std::vector<float> logits;
  if (depth == spec().layers) logits.resize(texts.size() * static_cast<size_t>(exits().outputs));
  run_passes(*backend_, texts, {.depth = depth, .take = take}, advance,
             [&](size_t i, FullPass&& pass) { put_row(logits, i, pass.logits); });
  return logits;
}

ExitTrace Engine::trace(std::span<const Encoding> texts, const std::function<void(int64_t)>& advance) {
  ExitTrace trace;
  trace.info.engine = name();
  trace.info.precision = name_of(precision());
  static_cast<OutputSpec&>(trace.info) = exits();
  trace.info.layers = exit_sites(exits()).layers;
  trace.rows = texts.size();
  trace.exits = static_cast<int>(exits().sites.size());
  trace.width = exits().outputs;
  const size_t width = static_cast<size_t>(trace.width), exit_count = exits().sites.size();
  trace.logits.resize(trace.rows * exit_count * width);
  if (exits().lte) trace.lte.resize(trace.rows * exit_count);
  if (exits().last_ramp) trace.ramp.resize(trace.rows * width);
  trace.lengths.resize(trace.rows);
  run_passes(*backend_, texts, {.depth = spec().layers}, advance, [&](size_t i, FullPass&& pass) {
    trace.lengths[i] = static_cast<int32_t>(texts[i].ids.size());
    put_row(trace.logits, i, pass.logits);
    put_row(trace.lte, i, pass.lte);
    put_row(trace.ramp, i, pass.ramp);
  });
  return trace;
}

std::string engine_name(const Kernels& kernels) {
  return fmt::format("cpu/{}", kernels.name);
}

size_t Engine::waiting() const noexcept {
  return backend_->waiting();
}

}  // namespace exeunt
