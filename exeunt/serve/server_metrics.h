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

struct Metrics {
  std::map<int, uint64_t> responses = {};                      // by status
  std::map<std::string, uint64_t, std::less<>> rejected = {};  // by reason
  std::map<int, uint64_t> exits = {};                          // by layer
  uint64_t texts = 0, layers_run = 0, layers_full = 0, tokens = 0;
  uint64_t unknown_fields = 0, abandoned = 0, failed_texts = 0, interruptions = 0;
  uint64_t connections = 0, connections_refused = 0;
  size_t connections_open = 0;
  Histogram duration = {}, tokenization = {}, queue = {}, inference = {};

  // What shadow runs say of every point that is served.
  struct WatchedPoint {
    std::string policy = {};
    std::optional<double> certified = {};  // mean loss that is tested; none: nothing that shadow runs could refute
    uint64_t texts = 0, disagreements = 0, dropped = 0;
    double losses = 0;
    std::optional<double> upper_bound = {};  // of the mean loss; none while it is not covered
    bool alarm = false;
  };
  struct Shadows {
    std::vector<WatchedPoint> points = {};  // empty without shadow runs
    size_t pending = 0, bytes = 0;
    uint64_t repeats = 0;
    double processor_seconds = 0;
  };

  // Gauges, filled in by the caller.
  struct Now {
    size_t queue_texts = 0, queue_bytes = 0;
    std::string policy = {};  // the effective default
    double threshold = 0;     // its first parameter
    double max_drop = 0;      // its certified loss; 0 without a certificate
    int level = 0;            // steps the load controller has taken
    Shadows shadows = {};
    double processor_seconds = 0;  // of the process
    bool ready = true;
    double uptime_seconds = 0;
    uint64_t resident_bytes = 0;
  };
  [[nodiscard]] std::string text(const Now& now, bool tei_names) const;
};

// Of this process, from /proc; 0 if unknown.
[[nodiscard]] uint64_t resident_bytes();
[[nodiscard]] double processor_seconds();  // of all its threads since it started

// A label's value, escaped.
[[nodiscard]] std::string label_value(std::string_view text);

}  // namespace exeunt::serve
