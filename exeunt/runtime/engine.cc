// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/engine.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/runtime/check_text.h"
#include "exeunt/runtime/cpu/register_peak.h"
#include "exeunt/runtime/cpu/text_run.h"

namespace exeunt {
namespace {

const Kernels& prepared(const Kernels* wanted) {
  if (wanted == nullptr) return choose_kernels();
  if (!wanted->runs_on(cpu_features()) || !wanted->prepare()) {
    throw Error(Code::resources, fmt::format("kernels '{}': this processor does not run them", wanted->name));
  }
  return *wanted;
}

void require_heads(const Checkpoint& checkpoint) {
  if (!checkpoint.exits().sites.empty()) return;
  throw Error(Code::bad_file, "the model has no exits: it is a bare backbone",
              "train it first: exeunt train --model MODEL --data FILE");
}

PackOptions pack_options(const Kernels& kernels, const EngineOptions& options, int threads) {
  return {.precision = options.precision.value_or(kernels.bf16 ? Precision::bf16 : Precision::fp32),
          .exceptions = options.exceptions,
          .threads = threads};
}

// Lets one thread wait until a number of things are done elsewhere.
class Countdown {
 public:
  explicit Countdown(size_t count) : left_(count) {}
  void done(const std::function<void(int64_t)>& tell = {}) {
    const std::scoped_lock lock(mutex_);
    if (tell) tell(1);
    if (--left_ == 0) finished_.notify_all();  // under the lock: afterwards the waiter may be gone
  }
  void wait() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  size_t left_;
};

// Copies `values` to row `row` of an array of rows; the array is sized beforehand or stays empty.
void put_row(std::vector<float>& array, size_t row, const std::vector<float>& values) {
  std::copy(values.begin(), values.end(), array.begin() + static_cast<ptrdiff_t>(row * values.size()));
}

}  // namespace

ExitSites exit_sites(const ExitLayout& layout) {
  ExitSites sites{.layers = {},
                  .outputs = layout.outputs,
                  .regression = layout.problem == Problem::regression,
                  .lte = layout.lte,
                  .ramp = layout.compat_last_ramp == LastRamp::ramp};
  for (const ExitSite& site : layout.sites) sites.layers.push_back(site.after);
  return sites;
}

std::string_view name_of(Ended ended) noexcept {
  constexpr std::array<std::string_view, 6> names = {"policy",   "last_exit", "max_layers",
                                                     "deadline", "cancelled", "failed"};
  return names[static_cast<size_t>(ended)];
}

struct Engine::State {
  State(const Checkpoint& checkpoint, const Kernels& kernels, const EngineOptions& options, int threads)
      : model(checkpoint, kernels, pack_options(kernels, options, threads)),
        crew({.threads = threads, .processors = cpu_features().threads, .help = options.split}) {
    for (int i = 0; i < threads; ++i) spaces.emplace_back(model);
    ground = {.model = &model, .spaces = spaces, .cls_first = options.cls_first, .now = options.now};
  }

  // A text on its way. `borrowed` outlives it, or the text is its own.
  struct Job {
    Encoding own = {};
    const Encoding* borrowed = nullptr;
    MakeEncoding make = {};
    Ask ask = {};
    Done done = {};
    std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  };

  Ticket push(std::shared_ptr<Job> job) {
    Ticket ticket(job->cancelled);
    crew.push([this, job = std::move(job)](Crew::Member& member) { run(*job, member); });
    return ticket;
  }

  void run(Job& job, Crew::Member& member) {
    Answer answer;
    if (closing.load(std::memory_order_relaxed) || job.cancelled->load(std::memory_order_relaxed)) {
      answer.ended = Ended::cancelled;
    } else {
      try {
        if (job.make) {
          job.own = job.make();
          check_text(model.spec, job.own.ids, job.own.types);
        }
        answer = TextRun(ground, member).answer(job.borrowed ? *job.borrowed : job.own, job.ask, *job.cancelled);
      } catch (const std::exception& error) {
        answer = {.ended = Ended::failed, .error = error.what()};
      }
    }
    job.done(std::move(answer));
  }

  void check_ask(const Ask& ask) const {
    const auto& sites = model.exits.sites;
    if (deepest_exit(model.exits, ask.max_layers) < 0) {
      throw Error(Code::usage, fmt::format("max_layers: got {}, but the first exit sits after layer {}", ask.max_layers,
                                           sites.front().after));
    }
    if (!ask.policy) return;
    const Policy& policy = ask.policy->bound;
    check(policy.count >= 1 && policy.classes == model.exits.outputs &&
              policy.site[policy.count - 1] < static_cast<int>(sites.size()),
          "the policy is bound to this model");
  }

  PackedModel model;
  std::vector<Workspace> spaces = {};
  TextGround ground = {};
  std::atomic<bool> closing{false};
  Crew crew;  // last: its threads end before anything they use
};

Engine::Engine(const Checkpoint& checkpoint, const EngineOptions& options) {
  require_heads(checkpoint);
  const Kernels& kernels = prepared(options.kernels);
  const int threads = options.threads > 0 ? options.threads : cpu_features().threads;
  state_ = std::make_unique<State>(checkpoint, kernels, options, threads);
}

Engine::~Engine() {
  state_->closing = true;
}

std::shared_ptr<const AskPolicy> Engine::bind(const PolicySpec& policy, std::vector<float> exit_rates) const {
  auto out = std::make_shared<AskPolicy>();
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

Ticket Engine::submit(Encoding text, const Ask& ask, Done done) {
  check_text(spec(), text.ids, text.types);
  state_->check_ask(ask);
  auto job = std::make_shared<State::Job>();
  job->own = std::move(text);
  job->ask = ask;
  job->done = std::move(done);
  return state_->push(std::move(job));
}

Ticket Engine::submit(MakeEncoding text, const Ask& ask, Done done) {
  state_->check_ask(ask);
  auto job = std::make_shared<State::Job>();
  job->make = std::move(text);
  job->ask = ask;
  job->done = std::move(done);
  return state_->push(std::move(job));
}

std::vector<Answer> Engine::answer(std::span<const Encoding> texts, const Ask& ask) {
  state_->check_ask(ask);
  for (const Encoding& text : texts) check_text(spec(), text.ids, text.types);
  std::vector<Answer> answers(texts.size());
  Countdown countdown(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    auto job = std::make_shared<State::Job>();
    job->borrowed = &texts[i];
    job->ask = ask;
    job->done = [&, i](Answer&& answer) {
      answers[i] = std::move(answer);
      countdown.done();
    };
    state_->push(std::move(job));
  }
  if (!texts.empty()) countdown.wait();
  for (const Answer& answer : answers) check(answer.ended != Ended::failed, answer.error);
  return answers;
}

Engine::FullPass Engine::full_pass(const Encoding& text) {
  check_text(spec(), text.ids, text.types);
  FullPass out;
  std::exception_ptr failure;
  Countdown countdown(1);
  state_->crew.push([&](Crew::Member& member) {
    try {
      const double begun = thread_seconds();
      out = TextRun(state_->ground, member).full_pass(text);
      out.processor_seconds = thread_seconds() - begun;
    } catch (...) {
      failure = std::current_exception();
    }
    countdown.done();
  });
  countdown.wait();
  if (failure) std::rethrow_exception(failure);
  return out;
}

std::vector<float> Engine::layer_rows(std::span<const Encoding> texts, int depth, const TakeRows& take,
                                      const std::function<void(int64_t)>& advance) {
  check(depth >= 1 && depth <= spec().layers, "as many layers as the model has");
  for (const Encoding& text : texts) check_text(spec(), text.ids, text.types);
  std::vector<float> logits;
  if (depth == spec().layers) logits.resize(texts.size() * static_cast<size_t>(exits().outputs));
  Countdown countdown(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    state_->crew.push([&, i](Crew::Member& member) {
      const auto take_here = [&](int layer, std::span<const float> rows) { take(i, layer, rows); };
      put_row(logits, i, TextRun(state_->ground, member).layer_rows(texts[i], depth, take_here));
      countdown.done(advance);
    });
  }
  if (!texts.empty()) countdown.wait();
  return logits;
}

ExitTrace Engine::trace(std::span<const Encoding> texts, const std::function<void(int64_t)>& advance) {
  for (const Encoding& text : texts) check_text(spec(), text.ids, text.types);
  ExitTrace trace;
  trace.info.engine = name();
  trace.info.precision = name_of(precision());
  trace.info.regression = exits().problem == Problem::regression;
  trace.info.labels = exits().labels;
  trace.info.layers = exit_sites(exits()).layers;
  trace.rows = texts.size();
  trace.exits = static_cast<int>(exits().sites.size());
  trace.width = exits().outputs;
  const size_t width = static_cast<size_t>(trace.width), exit_count = exits().sites.size();
  trace.logits.resize(trace.rows * exit_count * width);
  if (exits().lte) trace.lte.resize(trace.rows * exit_count);
  if (exits().last_ramp) trace.ramp.resize(trace.rows * width);
  trace.lengths.resize(trace.rows);
  Countdown countdown(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    state_->crew.push([&, i](Crew::Member& member) {
      const FullPass pass = TextRun(state_->ground, member).full_pass(texts[i]);
      trace.lengths[i] = static_cast<int32_t>(texts[i].ids.size());
      put_row(trace.logits, i, pass.logits);
      put_row(trace.lte, i, pass.lte);
      put_row(trace.ramp, i, pass.ramp);
      countdown.done(advance);
    });
  }
  if (!texts.empty()) countdown.wait();
  return trace;
}

const ModelSpec& Engine::spec() const noexcept {
  return state_->model.spec;
}
const ExitLayout& Engine::exits() const noexcept {
  return state_->model.exits;
}
Precision Engine::precision() const noexcept {
  return state_->model.precision;
}
const Kernels& Engine::kernels() const noexcept {
  return *state_->model.kernels;
}
std::string engine_name(const Kernels& kernels) {
  return fmt::format("cpu/{}", kernels.name);
}
std::string Engine::name() const {
  return engine_name(kernels());
}
int Engine::threads() const noexcept {
  return state_->crew.threads();
}
size_t Engine::waiting() const noexcept {
  return state_->crew.waiting();
}
size_t Engine::weight_bytes() const noexcept {
  return state_->model.bytes();
}

}  // namespace exeunt
