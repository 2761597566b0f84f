// SPDX-License-Identifier: Apache-2.0
// Stand-ins for the engine and the network thread. The engine's threads take texts in turn, hold them for a while, and
// answer by rule: the label of a text is the parity of its length; it leaves at layer 1 if it holds an 'e', else at
// layer 2 of 3. Full depth says the same, except for texts with a 'd'.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "exeunt/policy/policy_text.h"
#include "exeunt/serve/served_policies.h"
#include "exeunt/serve/service_context.h"
#include "exeunt/serve/shadow.h"

namespace exeunt::serve {

// One token a byte, between two special ones.
class ByteTokenizer : public Tokenizer {
 public:
  Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                  const EncodeOptions& options) const override {
    Encoding out;
    const std::string all = std::string(text) + (pair ? "|" + std::string(*pair) : "");
    const size_t room = static_cast<size_t>(options.max_length) - 2;
    out.truncated = all.size() > room;
    out.ids.push_back(1);
    const size_t skipped = options.keep_end && all.size() > room ? all.size() - room : 0;
    for (const char c : all.substr(skipped, room)) out.ids.push_back(static_cast<unsigned char>(c));
    out.ids.push_back(2);
    out.types.resize(out.ids.size());
    out.offsets.resize(out.ids.size());
    for (uint32_t i = 1; i + 1 < out.ids.size(); ++i) out.offsets[i] = {i - 1, i};
    return out;
  }
  int vocabulary() const noexcept override { return 256; }
  std::string_view family() const noexcept override { return "bytes"; }
  std::string token(int32_t id) const override { return std::string(1, static_cast<char>(id)); }
  std::optional<int32_t> id(std::string_view token) const override { return token.empty() ? 0 : token[0]; }
};

inline ModelFacts fake_model() {
  return {{.labels = {"even", "odd"}}, "fake", 2, 3, {1, 2, 3}, /*max_tokens=*/64, /*vocabulary=*/256};
}

inline std::shared_ptr<const BoundPolicy> bind_policy(const PolicySpec& spec, std::vector<float>) {
  auto policy = std::make_shared<BoundPolicy>();
  policy->spec = spec;
  policy->bound = exeunt::bind(spec, {.layers = {1, 2, 3}, .outputs = 2});
  return policy;
}

class FakeEngine {
 public:
  explicit FakeEngine(int threads, std::chrono::microseconds work = std::chrono::microseconds(0)) : work_(work) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  }
  ~FakeEngine() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      held_ = false;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Runner runner() {
    Runner out;
    out.tokenizer = &tokenizer_;
    out.bind = bind_policy;
    out.submit = [this](std::span<Engine::LazyText> texts, const Ask& ask) {
      auto cancelled = std::make_shared<std::atomic<bool>>(false);
      const std::lock_guard lock(mutex_);
      for (Engine::LazyText& text : texts)
        queue_.push_back({std::move(text.make), ask, std::move(text.done), cancelled});
      changed_.notify_all();
      return Ticket(cancelled);
    };
    return out;
  }

  // While held, nothing is begun.
  void hold(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  int begun() const { return begun_; }
  void lose_device(bool lost) { lost_ = lost; }  // as a GPU that is gone

 private:
  struct Item {
    Engine::MakeEncoding make;
    Ask ask;
    Engine::Done done;
    std::shared_ptr<std::atomic<bool>> cancelled;
  };

  void run() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || (!held_ && !queue_.empty()); });
      if (queue_.empty()) return;
      Item item = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      Answer answer = ending_ ? Answer{.stop_reason = StopReason::cancelled} : answered(item);
      item.done(std::move(answer));
    }
  }

  Answer answered(Item& item) {
    Answer out;
    out.stop_reason = *item.cancelled ? StopReason::cancelled : StopReason::deadline;
    if (*item.cancelled || Clock::now() >= item.ask.deadline) return out;
    ++begun_;
    out.stop_reason = StopReason::failed;
    Encoding text;
    try {
      text = item.make();
    } catch (const std::exception& error) {
      out.error = error.what();
      return out;
    }
    if (work_.count() > 0) std::this_thread::sleep_for(work_);
    const std::string words(text.ids.begin() + 1, text.ids.end() - 1);
    if (words.find("fail") != std::string::npos) {
      out.error = "a fault was injected at /secret/path";
      return out;
    }
    if (lost_ || words.find("lost") != std::string::npos) {
      out.error = "CUDA: waiting for a batch failed: the device is lost";
      out.code = Code::resources;
      return out;
    }
    const bool full = item.ask.policy == nullptr || str(item.ask.policy->spec) == "full";
    out.layer = full ? 3 : words.find('e') != std::string::npos ? 1 : 2;
    out.stop_reason = item.ask.max_layers < out.layer ? StopReason::max_layers
                      : full                          ? StopReason::last_exit
                                                      : StopReason::policy;
    out.layer = std::min(out.layer, item.ask.max_layers);
    out.exit = out.layer - 1;
    out.layers_run = out.layer;
    out.tokens = static_cast<int>(text.ids.size());
    const bool odd = (words.size() % 2 == 1) != (full && words.find('d') != std::string::npos);
    out.logits = odd ? std::vector<float>{0, 1} : std::vector<float>{1, 0};
    out.probabilities = odd ? std::vector<float>{0.25F, 0.75F} : std::vector<float>{0.75F, 0.25F};
    if (words.find("nan") != std::string::npos) out.logits[0] = std::numeric_limits<float>::quiet_NaN();
    out.evidence = compute_evidence(ExitLogits{out.logits.data(), 2});
    for (int exit = 0; item.ask.details && exit < out.layer; ++exit) {
      out.details.push_back({.exit = exit, .layer = exit + 1, .logits = out.logits, .evidence = out.evidence});
    }
    return out;
  }

  ByteTokenizer tokenizer_;
  std::chrono::microseconds work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::atomic<bool> ending_ = false, lost_ = false;
  bool held_ = false;
  std::atomic<int> begun_ = 0;
  std::vector<std::thread> threads_;
};

// Stands in for the engine of shadow runs: says what FakeEngine says at full depth, or what it is given.
class FakeReference {
 public:
  ShadowReference reference() {
    return {.pass = [this](const Encoding& text, uint64_t dropped) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !held_; });
      ++runs_;
      dropped_ += dropped;
      tokens_ = text.ids;
      if (!logits_.empty()) return ShadowPass{.logits = logits_};
      const std::string words(text.ids.begin() + 1, text.ids.end() - 1);
      if (words.find("fail") != std::string::npos) throw std::runtime_error("a fault was injected");
      const bool odd = (words.size() % 2 == 1) != (words.find('d') != std::string::npos);
      return ShadowPass{.logits = odd ? std::vector<float>{0, 1} : std::vector<float>{1, 0}, .processor_seconds = 0.5};
    }};
  }
  // While held, nothing is compared.
  void hold(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  int runs() const {
    const std::lock_guard lock(mutex_);
    return runs_;
  }
  uint64_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }
  // Of the last text.
  std::vector<int32_t> tokens() const {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }
  void answer_with(std::vector<float> logits) {
    const std::lock_guard lock(mutex_);
    logits_ = std::move(logits);
  }

 private:
  mutable std::mutex mutex_ = {};
  std::condition_variable changed_ = {};
  bool held_ = false;
  int runs_ = 0;
  uint64_t dropped_ = 0;
  std::vector<int32_t> tokens_ = {};
  std::vector<float> logits_ = {};
};

// The context of a service under test: a fake engine, and posts that run when the test says so.
class FakeContext {
 public:
  explicit FakeContext(int threads = 1) : engine_(std::make_unique<FakeEngine>(threads)) {}

  ServiceContext context() {
    return {fake_model(), engine_->runner(),
            [this](std::function<void()> work) {
              {
                const std::lock_guard lock(mutex_);
                posted_.push_back(std::move(work));
              }
              changed_.notify_all();
            },
            Log(false, [this](std::string_view line) { log_ += line; })};
  }
  void run_posted() {
    std::vector<std::function<void()>> work;
    {
      const std::lock_guard lock(mutex_);
      work.swap(posted_);
    }
    for (const auto& each : work) each();
  }
  // Waits until something is posted; false after a minute.
  bool wait_for_post() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [this] { return !posted_.empty(); });
  }
  // Runs what is posted until `done` says so; false after a minute.
  template <class Done>
  bool until(Done&& done) {
    const auto limit = Clock::now() + std::chrono::minutes(1);
    while (!done()) {
      if (Clock::now() > limit) return false;
      run_posted();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }
  // Before what was built on the context goes: the engine's last answers still go to it.
  void end_engine() { engine_.reset(); }

  FakeEngine& engine() { return *engine_; }
  const std::string& log() const { return log_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> posted_;
  std::string log_;
  std::unique_ptr<FakeEngine> engine_;
};

// Certified for 1 % of answers changed at entropy:0.1, with points at 2 and 5 %.
inline PolicySettings certified(double max_drop = 0) {
  PolicyEntry entry;
  entry.exits = {1, 2, 3};
  entry.decision_temperature = entry.score_temperature = {1, 1, 1};
  entry.policy = parse_policy("entropy:0.1");
  entry.points = {{parse_policy("entropy:0.1"), 0.01, 0.6},
                  {parse_policy("entropy:0.2"), 0.02, 0.5},
                  {parse_policy("entropy:0.4"), 0.05, 0.3}};
  entry.certificate.emplace();
  entry.certificate->max_drop = 0.01;
  entry.certificate->delta = 0.05;
  entry.certificate->rows = 1000;
  return {.entry = entry, .chosen = {}, .allowed = {}, .max_drop_under_load = max_drop};
}

}  // namespace exeunt::serve
