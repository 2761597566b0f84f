// SPDX-License-Identifier: Apache-2.0
// policy.json: the policy a model runs by default in each precision, its certificate, and the test behind it.
// Strict to read, replaced whole by rename, and guarded by a lock while somebody works on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/exits/policy.h"
#include "exeunt/exits/risk.h"

namespace exeunt {

// Each struct lists its fields once, in policy_file.cc; reader, writer and docs/formats.md follow that list.

struct DataPart {
  std::string data;  // sha256
  int64_t rows = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

struct Certificate {
  RiskLoss loss = RiskLoss::disagreement;
  RiskMethod method = RiskMethod::ltt_binomial;  // crc holds in expectation, the others with probability 1 - delta
  double epsilon = 0, delta = 0;
  int64_t rows = 0;
  double losses = 0;  // summed over the rows, of the default policy
  int budgets = 1, families = 1;
  DataPart fit, certify;
  std::string engine, tool, created;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

// One point of the trade-off, selected by its budget.
struct PolicyPoint {
  PolicySpec policy;  // rule and parameters; exits and temperatures are the entry's
  double epsilon = 0, cost_fraction = 1;
  std::vector<float> exit_rates = {};  // [evaluated exits] fraction of the certify rows that exited there; or empty

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

struct PolicyEntry {
  std::optional<std::string> precision_map;  // sha256
  std::vector<int> exits;
  std::vector<float> temperature;
  PolicySpec policy;
  std::vector<PolicyPoint> points;  // increasing epsilon; the first is `policy`
  std::optional<Certificate> certificate;

  // The policy, or a point's, with this entry's exits and temperatures.
  [[nodiscard]] PolicySpec complete(const PolicySpec& rule) const;
  [[nodiscard]] PolicySpec complete() const { return complete(policy); }
  // The exit rates of the point with this rule; empty if it has none.
  [[nodiscard]] std::vector<float> exit_rates(const PolicySpec& rule) const;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

struct PolicyFile {
  std::string weights;  // sha256 of the model's
  std::string default_precision;
  std::map<std::string, PolicyEntry> entries;  // by precision

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

[[nodiscard]] const std::vector<std::string>& policy_precisions();  // fp32, bf16, int8, external

// Throws Error (bad_file).
[[nodiscard]] PolicyFile read_policy_file(const std::filesystem::path& path);
[[nodiscard]] PolicyFile parse_policy_file(std::string_view text, const std::string& where);
[[nodiscard]] std::string policy_file_text(const PolicyFile& file);
[[nodiscard]] std::string policy_file_tables();  // every field, as docs/formats.md has them

// Held while a policy.json is read, changed and written. A second holder gets an Error
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
