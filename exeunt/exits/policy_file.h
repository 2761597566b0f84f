// SPDX-License-Identifier: Apache-2.0
// policy.json: which policy a model runs by default at each precision, what was promised about it, and by what test.
// Strict to read, replaced whole by rename, and guarded by a lock while somebody works on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/exits/policy.h"

namespace exeunt {

// What a loss is, against the same model at full depth.
enum class Loss {
  disagreement,   // 1 where the labels differ; needs no gold
  zero_one_drop,  // 1 where only the early answer is wrong, -1 where only the full one is
  abs_diff        // |difference| of a regression over the range of its labels, at most 1
};
enum class RiskMethod { ltt_binomial, ltt_hb, wsr, crc };

[[nodiscard]] std::string_view name_of(Loss loss) noexcept;
[[nodiscard]] std::string_view name_of(RiskMethod method) noexcept;  // "ltt-binomial" …
[[nodiscard]] Loss loss_named(std::string_view name);                // throws Error (usage) with the nearest name
[[nodiscard]] RiskMethod method_named(std::string_view name);

struct DataPart {
  std::string data;  // sha256
  int64_t rows = 0;
};

struct Certificate {
  Loss loss = Loss::disagreement;
  RiskMethod method = RiskMethod::ltt_binomial;  // crc promises in expectation, the others with probability 1 - delta
  double epsilon = 0, delta = 0;
  int64_t rows = 0;
  double losses = 0;  // summed over the rows, of the default policy
  int budgets = 1, families = 1;
  DataPart fit, certify;
  std::string engine, tool, created;
};

// One point of the trade-off that may be asked for by its budget.
struct PolicyPoint {
  PolicySpec policy;  // rule and parameters; exits and temperatures are the entry's
  double epsilon = 0, cost_fraction = 1;
  std::vector<float> exit_rates = {};  // [evaluated exits] share of the certify rows that left there; or empty
};

struct PolicyEntry {
  std::optional<std::string> precision_map;  // sha256
  std::vector<int> exits;
  std::vector<float> temperature;
  PolicySpec policy;
  std::vector<PolicyPoint> points;  // rising epsilon; the first is `policy`
  std::optional<Certificate> certificate;

  // The policy, or a point's, with this entry's exits and temperatures.
  [[nodiscard]] PolicySpec complete(const PolicySpec& rule) const;
  [[nodiscard]] PolicySpec complete() const { return complete(policy); }
  // The exit rates of the point with this rule; empty where it has none.
  [[nodiscard]] std::vector<float> exit_rates(const PolicySpec& rule) const;
};

struct PolicyFile {
  std::string weights;  // sha256 of the model's
  std::string default_precision;
  std::map<std::string, PolicyEntry> entries;  // fp32, bf16, int8, external
};

[[nodiscard]] const std::vector<std::string>& policy_precisions();

// Throws Error (bad_file).
[[nodiscard]] PolicyFile read_policy_file(const std::filesystem::path& path);
[[nodiscard]] PolicyFile parse_policy_file(const Json& json, const std::string& where);
[[nodiscard]] std::string policy_file_text(const PolicyFile& file);

// Held by who reads, changes and writes a policy.json, from before the reading. A second holder gets an Error
// (resources) at once.
class PolicyLock {
 public:
  explicit PolicyLock(std::filesystem::path path);
  ~PolicyLock();
  PolicyLock(const PolicyLock&) = delete;
  PolicyLock& operator=(const PolicyLock&) = delete;

  void write(const PolicyFile& file) const;  // replaces the file in one step

 private:
  std::filesystem::path path_, lock_;
  int descriptor_ = -1;
};

}  // namespace exeunt
