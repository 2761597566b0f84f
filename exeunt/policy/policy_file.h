// SPDX-License-Identifier: Apache-2.0
// policy.json: the policies a model runs by default, one entry for each engine and precision that it was calibrated
// on, with the certificate, the conditions under which that holds, and the test behind it.
// Strict to read, replaced whole by rename, and locked while a process changes it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/policy/certificate.h"
#include "exeunt/policy/policy.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

// Each struct lists its fields once, in policy_file.cc; reader, writer and docs/formats.md follow that list.

// One point of the trade-off, selected by its budget.
struct PolicyPoint {
  PolicySpec policy;  // rule and parameters; exits and temperatures are the entry's
  double max_drop = 0, cost_fraction = 1;
  std::vector<float> exit_rates = {};  // [evaluated exits] fraction of the certify rows that exited there; or empty

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

struct PolicyEntry {
  std::string device = "cpu";
  std::string engine = {};  // "cpu/neon", as Engine::name() has it; empty = not known
  int numerics = 0;         // EngineTraits::numerics; 0 = not known
  std::string precision = {};
  std::optional<std::string> precision_map = {};  // sha256
  std::vector<int> exits = {};
  std::vector<float> decision_temperature = {}, score_temperature = {};  // one per exit of the model
  PolicySpec policy = {};
  std::vector<PolicyPoint> points = {};  // increasing max_drop; the first is `policy`
  std::optional<Certificate> certificate = {};

  // The policy, or a point's, with this entry's temperatures, and with its exits unless it names its own.
  [[nodiscard]] PolicySpec complete(const PolicySpec& rule) const;
  [[nodiscard]] PolicySpec complete() const { return complete(policy); }
  // The exit rates of the point with this rule; empty if it has none.
  [[nodiscard]] std::vector<float> exit_rates(const PolicySpec& rule) const;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

// The kind of device that an engine runs on, by its name: "cpu/neon" is the CPU's, and so is a name without a device.
[[nodiscard]] std::string_view device_of(std::string_view engine) noexcept;

// Writes down what a trace says of the conditions under which an entry was measured: engine, numerics, precision and
// its map, and in its certificate tokenizer, max-length and last head.
void set_origin(PolicyEntry& entry, const TraceInfo& info);

struct PolicyFile {
  std::string weights;  // sha256 of the model's
  std::string default_precision;
  std::vector<PolicyEntry> entries = {};

  // The entry for an engine and precision; else one of its device whose engine is not known; else another engine's, or
  // another device's, whose policy may run without its promise; null if there is none.
  [[nodiscard]] const PolicyEntry* find(std::string_view engine, std::string_view precision) const;
  // Adds an entry, in place of one for the same engine and precision or for an engine that is not known.
  PolicyEntry& put(PolicyEntry entry);

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

[[nodiscard]] const std::vector<std::string>& policy_precisions();  // fp32, bf16, int8, external

// Throws Error (bad_file).
[[nodiscard]] PolicyFile read_policy_file(const ReadPath& path);
[[nodiscard]] PolicyFile parse_policy_file(std::string_view text, const std::string& where);
[[nodiscard]] std::string policy_file_text(const PolicyFile& file);
[[nodiscard]] OrderedJson certificate_json(const Certificate& certificate);
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
