// SPDX-License-Identifier: Apache-2.0
// Counters, and their Prometheus text (version 0.0.4). Used by the network thread alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/certify/risk.h"

namespace exeunt::serve {

// Geometric buckets from 15 µs by 1.5, as in text-embeddings-inference.
class Histogram {
 public:
  static constexpr int kBounds = 35;
  void add(double seconds) noexcept;
  [[nodiscard]] uint64_t count() const noexcept { return count_; }
  void write(std::string& out, std::string_view name) const;

 private:
  std::array<uint64_t, kBounds + 1> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0;
};

// Watches one policy in production: do texts drawn from the traffic still lose as little against the reference as was
// certified? Test and bound hold however often one looks at them (certify/risk.h).
class PromiseWatch {
 public:
  static constexpr double kFalseAlarm = 0.001;  // the chance of ever raising one, while the promise is kept
  static constexpr double kConfidence = 0.95;   // of the bound

  // `max_drop`: the certified mean loss. Without one there is nothing to alarm about, and only the bound is kept.
  // `max_false`: that of the texts that the loss is not about.
  explicit PromiseWatch(std::optional<double> max_drop, std::optional<double> max_false = {}) : max_drop_(max_drop) {
    if (max_drop) test_.emplace(*max_drop, max_false ? kFalseAlarm / 2 : kFalseAlarm);
    if (max_drop && max_false) others_.emplace(*max_false, kFalseAlarm / 2);
  }

  // A drawn text was compared. `loss`: that of the certificate, from 0 to 1. `counts`: whether the loss is about it.
  void record(double loss, bool counts = true) {
    if (!counts) {
      if (others_) others_->record(loss);
      return;
    }
    if (test_) test_->record(loss);
    ++texts_;
    disagreements_ += loss > 0 ? 1 : 0;
    losses_ += loss;
  }
  // A drawn text was dropped. What it lost is not known, so the bound takes it for lost, and nothing is covered until
  // the server has caught up: texts that come at such times may differ from the others.
  void drop() noexcept {
    ++dropped_;
    covered_ = false;
  }
  void mark_covered() noexcept { covered_ = true; }

  [[nodiscard]] std::optional<double> max_drop() const noexcept { return max_drop_; }
  [[nodiscard]] uint64_t texts() const noexcept { return texts_; }  // compared
  [[nodiscard]] uint64_t disagreements() const noexcept { return disagreements_; }
  [[nodiscard]] uint64_t dropped() const noexcept { return dropped_; }
  [[nodiscard]] double losses() const noexcept { return losses_; }  // their sum

  // The mean loss of all texts answered since the start lies below this with confidence kConfidence; nothing while it
  // is not covered.
  [[nodiscard]] std::optional<double> upper_bound() const {
    if (!covered_) return std::nullopt;
    return anytime_upper_bound(losses_ + static_cast<double>(dropped_), static_cast<int64_t>(texts_ + dropped_),
                               1 - kConfidence);
  }
  // True from the moment at which the promise was found broken: the texts have drifted since it was certified.
  [[nodiscard]] bool alarm() const noexcept { return (test_ && test_->raised()) || (others_ && others_->raised()); }
  // The test of the texts that the loss is about, or of the others; null without a promise of them.
  [[nodiscard]] RiskAlarm* test(bool others) noexcept {
    std::optional<RiskAlarm>& one = others ? others_ : test_;
    return one ? &*one : nullptr;
  }

 private:
  std::optional<double> max_drop_;
  std::optional<RiskAlarm> test_ = {}, others_ = {};
  uint64_t texts_ = 0, disagreements_ = 0, dropped_ = 0;
  double losses_ = 0;
  bool covered_ = true;
};

// Watches the share of texts that a policy answers at its first exit, before the first layer where the model has such
// an exit: words shift faster than meaning, and often before any answer is lost.
class ShareWatch {
 public:
  static constexpr double kTolerance = 0.05;  // a share that differs by less is no shift

  ShareWatch(double share, int64_t rows);  // of so many certification texts

  void record(bool first_exit);

  [[nodiscard]] double calibrated() const noexcept { return share_; }
  [[nodiscard]] double share() const noexcept { return static_cast<double>(first_) / static_cast<double>(texts_); }
  // True from the moment at which the share was found to be another. The chance that this is ever wrong is at most
  // PromiseWatch::kFalseAlarm, over the draw of the certification texts, too.
  [[nodiscard]] bool shifted() const noexcept { return (more_ && more_->raised()) || (fewer_ && fewer_->raised()); }

 private:
  double share_;
  std::optional<RiskAlarm> more_, fewer_;  // none where no share would be beyond the tolerance
  uint64_t texts_ = 0, first_ = 0;
};

struct Metrics {
  std::map<int, uint64_t> responses = {};                      // by status
  std::map<std::string, uint64_t, std::less<>> rejected = {};  // by reason
  std::map<int, uint64_t> exits = {};                          // by layer
  uint64_t texts = 0, layers_run = 0, layers_full = 0, tokens = 0, truncated_texts = 0;
  uint64_t unknown_fields = 0, abandoned = 0, failed_texts = 0, interruptions = 0;
  uint64_t connections = 0, connections_refused = 0;
  size_t connections_open = 0;
  Histogram duration = {}, tokenization = {}, queue = {}, inference = {};

  // What shadow runs say of every point that is served.
  struct WatchedPoint {
    std::string policy = {};
    PromiseWatch watch;
    std::optional<ShareWatch> first_exit = {};  // none where its share at calibration is not known
  };
  struct Shadows {
    std::vector<WatchedPoint> points = {};  // empty without shadow runs
    size_t pending = 0, bytes = 0;
    double processor_seconds = 0;
  };

  // Gauges, filled in by the caller.
  struct Now {
    size_t queue_texts = 0, queue_bytes = 0;
    std::string policy = {};                     // the effective default
    double threshold = 0;                        // its first parameter
    double max_drop = 0;                         // its certified loss; 0 without a certificate
    std::map<int, float> calibrated_exits = {};  // ServedPolicies::calibrated_exits() of it
    int level = 0;                               // steps the load controller has taken
    Shadows shadows = {};
    double processor_seconds = 0;  // of the process
    bool ready = true;
    double uptime_seconds = 0;
    uint64_t resident_bytes = 0;
  };
  [[nodiscard]] std::string text(const Now& now, bool tei_names) const;
};

[[nodiscard]] double processor_seconds();  // of all threads of the process since it started

// A label's value, escaped.
[[nodiscard]] std::string label_value(std::string_view text);

}  // namespace exeunt::serve
