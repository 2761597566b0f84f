// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/engine.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/runtime/check_text.h"
#include "exeunt/runtime/cpu/pack_run.h"

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

std::vector<std::unique_ptr<TextRun>> only(std::unique_ptr<TextRun> text) {
  std::vector<std::unique_ptr<TextRun>> out;
  out.push_back(std::move(text));
  return out;
}

// Copies `values` to row `row` of an array of rows; the array is sized beforehand or stays empty.
void put_row(std::vector<float>& array, size_t row, std::span<const float> values) {
  std::copy(values.begin(), values.end(), array.begin() + static_cast<ptrdiff_t>(row * values.size()));
}

}  // namespace

ExitSites exit_sites(const ExitLayout& layout) {
  ExitSites sites{.layers = {},
                  .outputs = layout.outputs,
                  .regression = layout.problem == Problem::regression,
                  .lte = layout.lte,
                  .ramp = layout.compat_last_ramp == LastRamp::ramp,
                  .several = layout.problem == Problem::multi_label,
                  .cuts = layout.cuts.empty() ? nullptr : layout.cuts.data()};
  for (const ExitSite& site : layout.sites) sites.layers.push_back(site.after);
  return sites;
}

std::string_view name_of(Ended ended) noexcept {
  constexpr std::array<std::string_view, 6> names = {"policy",   "last_exit", "max_layers",
                                                     "deadline", "cancelled", "failed"};
  return names[static_cast<size_t>(ended)];
}

struct Engine::State {
  using Cancelled = std::shared_ptr<std::atomic<bool>>;

  State(const Checkpoint& checkpoint, const Kernels& kernels, const EngineOptions& options, int threads)
      : model(checkpoint, kernels, pack_options(kernels, options, threads)),
        hands(std::min(threads, cpu_features().threads)),
        crew({.threads = threads, .processors = cpu_features().threads, .help = options.split}) {
    const int rows = options.pack_rows > 0 ? options.pack_rows : default_pack_rows(kernels, model.precision);
    for (int i = 0; i < threads; ++i) spaces.emplace_back(model, rows);
    ground = {.model = &model,
              .spaces = spaces,
              .pack_rows = rows,
              .cls_first = options.cls_first,
              .now = options.now,
              .row_seconds = &row_seconds};
  }

  using Texts = std::vector<std::unique_ptr<TextRun>>;

  // Texts wait here in order. There is a runner, a task of the crew, for each thread that may find one. All texts get
  // in line before the first can run, or none if memory ends.
  void push(Texts texts) {
    const std::scoped_lock lock(mutex);
    const auto before = static_cast<ptrdiff_t>(queue.size());
    try {
      for (std::unique_ptr<TextRun>& text : texts) queue.push_back(std::move(text));
      for (size_t n = 0; n < texts.size() && runners < crew.threads(); ++n) {
        crew.push([this](Crew::Member& member) { run_packs(member); });
        ++runners;
      }
    } catch (...) {
      queue.erase(queue.begin() + before, queue.end());
      throw;
    }
  }

  std::unique_ptr<TextRun> answering(TextSource source, const Ask& ask, Done done, Cancelled cancelled) {
    return std::make_unique<AnswerRun>(AnswerRun::Setting{&model, &closing, std::move(cancelled)}, std::move(source),
                                       ask, std::move(done));
  }

  Ticket submit(TextSource source, const Ask& ask, Done done) {
    auto cancelled = std::make_shared<std::atomic<bool>>(false);
    push(only(answering(std::move(source), ask, std::move(done), cancelled)));
    return Ticket(std::move(cancelled));
  }

  void run_packs(Crew::Member& member) {
    PackRun pack(ground, member);
    for (bool again = false;; again = true) {
      size_t most = 0;
      {
        const std::scoped_lock lock(mutex);
        if (again) --busy;
        if (queue.empty()) {
          --runners;
          return;
        }
        ++busy;
        most = claim();
      }
      fill(pack, most);
      while (!pack.empty()) {
        pack.step();
        if (!pack.takes_newcomers()) continue;
        {
          const std::scoped_lock lock(mutex);
          most = queue.empty() ? 0 : claim();
        }
        fill(pack, most);
      }
    }
  }

  // How many of the texts that wait a busy thread takes at most: its share, so that threads without work find some,
  // too. Under the mutex.
  [[nodiscard]] size_t claim() {
    const auto sharers = static_cast<size_t>(std::max(1, hands - busy + 1));  // free threads, and this one
    const size_t unclaimed = queue.size() - std::min(queue.size(), claimed);
    const size_t most = std::max<size_t>(1, (unclaimed + sharers - 1) / sharers);
    claimed += most;
    return most;
  }

  // Takes the texts claimed in their order as far as the pack admits them, and waits for none.
  void fill(PackRun& pack, size_t most) {
    for (bool more = true; most > 0; --most) {
      std::unique_ptr<TextRun> text;
      {
        const std::scoped_lock lock(mutex);
        --claimed;
        more = more && !queue.empty() && pack.admits(*queue.front());
        if (!more) continue;
        text = std::move(queue.front());
        queue.pop_front();
      }
      if (!text->prepare()) {
        text->finish();
      } else if (pack.admits(*text)) {
        pack.add(std::move(text));
      } else {  // its length was not known before
        const std::scoped_lock lock(mutex);
        queue.push_front(std::move(text));
        more = false;
      }
    }
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
  std::atomic<double> row_seconds{0};
  PackGround ground = {};
  std::atomic<bool> closing{false};
  mutable std::mutex mutex;
  std::deque<std::unique_ptr<TextRun>> queue = {};  // under mutex, like the next three
  int runners = 0, busy = 0;                        // busy: those that run a pack
  size_t claimed = 0;                               // texts that busy threads are about to take
  int hands;                                        // threads that can run at once
  Crew crew;                                        // last: its threads end before anything they use
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
  return state_->submit({.own = std::move(text)}, ask, std::move(done));
}

Ticket Engine::submit(MakeEncoding text, const Ask& ask, Done done) {
  state_->check_ask(ask);
  return state_->submit({.make = std::move(text)}, ask, std::move(done));
}

std::vector<Answer> Engine::answer(std::span<const Encoding> texts, const Ask& ask) {
  state_->check_ask(ask);
  for (const Encoding& text : texts) check_text(spec(), text.ids, text.types);
  std::vector<Answer> answers(texts.size());
  Countdown countdown(texts.size());
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);  // by nobody
  State::Texts runs;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto done = [&, i](Answer&& answer) {
      answers[i] = std::move(answer);
      countdown.done();
    };
    runs.push_back(state_->answering({.borrowed = &texts[i]}, ask, done, cancelled));
  }
  state_->push(std::move(runs));
  countdown.wait();
  for (const Answer& answer : answers) check(answer.ended != Ended::failed, answer.error);
  return answers;
}

Engine::FullPass Engine::full_pass(const Encoding& text) {
  check_text(spec(), text.ids, text.types);
  FullPass out;
  Countdown countdown(1);
  const auto done = [&](FullPass&& pass, const std::exception_ptr& failure) {
    out = std::move(pass);
    countdown.done(failure);
  };
  const FullRun::Wants wants{.rows = true, .alone = true};
  state_->push(only(std::make_unique<FullRun>(state_->model, text, wants, done)));
  countdown.wait();
  return out;
}

std::vector<float> Engine::layer_rows(std::span<const Encoding> texts, int depth, const TakeRows& take,
                                      const std::function<void(int64_t)>& advance) {
  check(depth >= 1 && depth <= spec().layers, "as many layers as the model has");
  for (const Encoding& text : texts) check_text(spec(), text.ids, text.types);
  std::vector<float> logits;
  if (depth == spec().layers) logits.resize(texts.size() * static_cast<size_t>(exits().outputs));
  Countdown countdown(texts.size());
  State::Texts runs;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto take_here = [&take, i](int layer, std::span<const float> rows) { take(i, layer, rows); };
    const auto done = [&, i](std::span<const float> values, const std::exception_ptr& failure) {
      if (!failure) put_row(logits, i, values);
      countdown.done(failure, advance);
    };
    runs.push_back(std::make_unique<RowsRun>(state_->model, texts[i], depth, take_here, done));
  }
  state_->push(std::move(runs));
  countdown.wait();
  return logits;
}

ExitTrace Engine::trace(std::span<const Encoding> texts, const std::function<void(int64_t)>& advance) {
  for (const Encoding& text : texts) check_text(spec(), text.ids, text.types);
  ExitTrace trace;
  trace.info.engine = name();
  trace.info.precision = name_of(precision());
  trace.info.regression = exits().problem == Problem::regression;
  trace.info.several = exits().problem == Problem::multi_label;
  trace.info.cuts = exits().cuts;
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
  State::Texts runs;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto done = [&, i](FullPass&& pass, const std::exception_ptr& failure) {
      trace.lengths[i] = static_cast<int32_t>(texts[i].ids.size());
      if (!failure) {
        put_row(trace.logits, i, pass.logits);
        put_row(trace.lte, i, pass.lte);
        put_row(trace.ramp, i, pass.ramp);
      }
      countdown.done(failure, advance);
    };
    runs.push_back(std::make_unique<FullRun>(state_->model, texts[i], FullRun::Wants{}, done));
  }
  state_->push(std::move(runs));
  countdown.wait();
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
int Engine::pack_rows() const noexcept {
  return state_->ground.pack_rows;
}
int Engine::threads() const noexcept {
  return state_->crew.threads();
}
size_t Engine::waiting() const noexcept {
  const std::scoped_lock lock(state_->mutex);
  return state_->queue.size();
}
size_t Engine::weight_bytes() const noexcept {
  return state_->model.bytes();
}

}  // namespace exeunt
