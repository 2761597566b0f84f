// SPDX-License-Identifier: Apache-2.0
// The log of shadow runs: the outputs of every exit of a served model, and of the reference, for texts drawn from its
// traffic, as JSON lines, without the texts. `exeunt serve --shadow-log` writes it; `exeunt calibrate --from-server`
// reads it as a trace and certifies anew from what the server really sees.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/policy/trace.h"

namespace exeunt {

// The first line: which model, run how. Each struct lists its fields once, in shadow_log.cc.
struct ShadowLogHead : TraceInfo {
  std::string format = "exeunt.shadows/3";
  int outputs = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

// Every other line: one text.
struct ShadowLogRow {
  std::string time = {};      // "2026-03-01T12:34:56Z", when it was compared
  std::string row_hash = {};  // ExitTrace::row_hash in 16 hex digits: JSON numbers do not keep 64 bits everywhere
  int tokens = 0;
  std::vector<float> logits = {};     // [exits, outputs] in the served precision
  std::vector<float> lte = {};        // [exits], or empty: no such head
  std::vector<float> ramp = {};       // [outputs], or empty: no such head
  std::vector<float> reference = {};  // [outputs] of fp32 at full depth
  uint64_t dropped = 0;               // texts drawn and dropped since the line before

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

// Appends to a log, up to a size. Every line is written whole or not at all; a line that was cut off when an earlier
// server died is removed.
class ShadowLogWriter {
 public:
  static constexpr uint64_t kMostBytes = 256 << 20;

  // Starts a log, or continues one with the same head. Throws Error: usage for one of another model or engine,
  // resources if another server writes to it.
  ShadowLogWriter(const std::filesystem::path& path, const ShadowLogHead& head, uint64_t most_bytes = kMostBytes);
  ~ShadowLogWriter();
  ShadowLogWriter(const ShadowLogWriter&) = delete;
  ShadowLogWriter& operator=(const ShadowLogWriter&) = delete;

  bool write(const ShadowLogRow& row);  // false if there is no room left; its numbers are finite

 private:
  bool append(const std::string& line);

  int descriptor_ = -1;
  uint64_t size_ = 0, most_bytes_;
};

struct ShadowLog {
  ExitTrace trace = {};                 // without gold
  std::vector<std::string> times = {};  // of its rows
  std::vector<uint64_t> dropped =
      {};  // before each row: texts drawn and dropped under load, which it does not represent
};

// "2026-03-01", or "2026-03-01T12:34:56Z".
[[nodiscard]] bool is_time(std::string_view text) noexcept;

// A last line without an end is left out. Throws Error (bad_file) naming the line.
[[nodiscard]] ShadowLog read_shadow_log(const std::filesystem::path& path);
[[nodiscard]] ShadowLog parse_shadow_log(std::string_view text, const std::string& where);
[[nodiscard]] std::string hash_text(uint64_t row_hash);  // as ShadowLogRow has it
[[nodiscard]] std::string shadow_log_tables();           // every field, as docs/formats.md has them

}  // namespace exeunt
