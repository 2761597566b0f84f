// SPDX-License-Identifier: Apache-2.0
// Shadow runs: some of the texts that the default policy answered are compared with the certificate's reference, after
// their response and one at a time, to watch the promise of every point that is served. Texts are drawn at random,
// whatever the load, and each counts, also where its text came before: so the watch sees the mean loss of requests,
// which does not change while the traffic does not. If there are too many to keep up with, what is dropped is counted,
// and the bound says so. Used by the network thread alone.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include <boost/asio/thread_pool.hpp>

#include "exeunt/base/secret_hash.h"
#include "exeunt/policy/shadow_log.h"
#include "exeunt/serve/active_request.h"
#include "exeunt/serve/served_policies.h"
#include "exeunt/serve/service_context.h"
#include "exeunt/serve/watch_file.h"

namespace exeunt::serve {

// What one shadow run gives.
struct ShadowPass {
  std::vector<float> logits = {};  // of the reference
  double processor_seconds = 0;
  bool kept = true;  // false: the log has no room left
};

// What answers are compared with.
struct ShadowReference {
  // Runs a text; `dropped` texts were drawn and dropped since the one before. Called on one thread; throws if it fails.
  std::function<ShadowPass(const Encoding&, uint64_t dropped)> pass = {};
  std::optional<RiskLoss> loss = {};  // that is watched; none: what suits the model
  double range = 0;                   // of regression values, greatest minus least
  size_t bytes = 0;                   // of weights loaded for it
  bool logs = false;                  // every pass is kept for a later calibration, of texts at full depth as well
};

struct ShadowOptions {
  double share = 0;                       // of the texts answered by the default policy
  bool tighten_on_alarm = false;          // a point that no longer keeps its promise is served no more
  uint64_t seed = 1;                      // of the draw
  std::filesystem::path watch_file = {};  // keeps what the watch has seen; empty = forgotten at the end
  ShadowReference reference = {};
};

// The last hashes that were seen, up to a number.
class RecentHashes {
 public:
  explicit RecentHashes(size_t most) : most_(most) {}

  // False if it is among the last ones already.
  bool insert(uint64_t hash) {
    if (!known_.insert(hash).second) return false;
    order_.push_back(hash);
    if (order_.size() > most_) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }

 private:
  size_t most_;
  std::unordered_set<uint64_t, SecretHash> known_ = {};
  std::deque<uint64_t> order_ = {};
};

class Shadow {
 public:
  static constexpr size_t kMaxPending = 1024, kMaxPendingBytes = 16 << 20;  // beyond, drawn texts are dropped

  Shadow(ServiceContext& context, ServedPolicies& policies, ShadowOptions options);

  // Draws from the texts of a request that the default policy answered.
  void sample(const ActiveRequest& request);
  void stop() noexcept { options_.share = 0; }
  // Ends the thread, dropping what waits: before the engines go that it uses.
  void end() noexcept;

  [[nodiscard]] Metrics::Shadows report() const;

 private:
  struct Sample {
    std::optional<size_t> point;  // none: answered at full depth in place of a point that broke its promise
    Job job;                      // of this text alone
    std::vector<float> early;     // logits of the answer
    int layer;                    // where it left
    uint64_t dropped_before;
    size_t bytes;
  };
  struct Comparison {
    std::optional<size_t> point;
    size_t bytes = 0;
    int layer = 0;
    std::optional<double> loss = {};  // none: the comparison failed
    bool counts = true;               // LossOf::counts
    uint64_t hash = 0;                // of the token ids
    double processor_seconds = 0;
    bool kept = true;
  };
  void enqueue(const ActiveRequest& request, size_t nth, std::optional<size_t> point);
  void drop(std::optional<size_t> point) noexcept;
  [[nodiscard]] Comparison compare(const Sample& sample) const noexcept;  // on the shadow thread
  void finish(const Comparison& comparison);
  void note_alarm(size_t point);
  void watch_share(const Comparison& comparison);
  void restore_watches();
  void keep_watches();
  template <class Work>
  void each_test(const Work& work);
  [[nodiscard]] std::vector<WatchedBets> watched_bets();

  ServiceContext& context_;
  ServedPolicies& policies_;
  ShadowOptions options_;
  std::mt19937_64 random_;
  std::vector<PromiseWatch> watches_ = {};              // one for each point
  std::vector<std::optional<ShareWatch>> shares_ = {};  // as WatchedPoint::first_exit
  RecentHashes recent_;                                 // texts that are in these shares, where a text counts once
  size_t pending_ = 0, pending_bytes_ = 0;
  uint64_t dropped_ = 0;  // since the last one taken
  double processor_seconds_ = 0;
  bool log_full_ = false;
  Clock::time_point kept_ = {};                          // when the watches were
  std::optional<boost::asio::thread_pool> thread_ = {};  // last: it uses what is above
};

struct ShadowEngineOptions {
  LossReference reference = LossReference::fp32;
  Device device = {};
  const Kernels* kernels = nullptr;
  std::string log = {};  // file; empty = none
  ShadowLogHead log_head = {};
};

// By which the loss of a regression is measured: the certificate's range of values, else the model's. Throws Error
// (usage) if neither has one. 0 for classes, which need none.
[[nodiscard]] double loss_range(const Certificate* certificate, const ModelFacts& model);

// What runs shadows: the certificate's reference, and both fp32 and every exit of the served precision if a log is
// kept. Where another precision is served, fp32 has a second engine, whose thread has low priority. (Not so
// the thread that waits for it: that one shares locks with the network thread.)
class ShadowEngine {
 public:
  // `served` must outlive it. Throws Error.
  ShadowEngine(const Checkpoint& model, Engine& served, const ShadowEngineOptions& options);

  // On one thread at a time.
  [[nodiscard]] ShadowPass pass(const Encoding& text, uint64_t dropped);

  [[nodiscard]] size_t bytes() const noexcept { return fp32_ ? fp32_->weight_bytes() : 0; }
  [[nodiscard]] bool logs() const noexcept { return log_.has_value(); }
  // Processor time of one pass, as a multiple of the served engine's at full depth.
  [[nodiscard]] double relative_cost(const Encoding& text);

 private:
  [[nodiscard]] bool runs_served() const noexcept { return !fp32_ || !reference_is_fp32_ || log_; }

  Engine& served_;
  bool reference_is_fp32_;             // the certificate's reference; else it is the served precision
  std::unique_ptr<Engine> fp32_ = {};  // fp32, one thread of low priority; none: that is served, or not needed
  std::optional<ShadowLogWriter> log_ = {};
};

}  // namespace exeunt::serve
