// SPDX-License-Identifier: Apache-2.0
// A trace: the outputs of every exit of a model for every text of a data set, from one full pass. Everything that can
// be computed for exit policies later (scores, sweeps, calibration) comes from it, without the model.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/outputs/output_spec.h"
#include "exeunt/policy/policy.h"

namespace exeunt {

// How a model runs, as far as its logits and certificates depend on it. Hashes are sha256 in hex; empty and 0 are not
// known.
struct RunConditions {
  std::string engine = {};
  int numerics = 0;                               // EngineTraits::numerics
  std::optional<std::string> precision_map = {};  // of the matrices in another precision; "" = none; null: not known
  int max_length = 0;
  std::string tokenizer = {};
  LastHead last_head = LastHead::final;  // as the model has it
};

// What a trace's logits mean, and where they come from.
struct TraceInfo : OutputSpec, RunConditions {
  std::string weights, data;
  std::string task, split;
  std::string precision;
  std::string tool, created;
  std::vector<int> layers;  // of the exits
};

// The precision of logits that other software made: what runs, and how, is not ours.
inline constexpr std::string_view kExternalPrecision = "external";

struct ExitTrace {
  TraceInfo info;
  size_t rows = 0;
  int exits = 0, width = 0;
  std::vector<float> logits;        // [rows, exits, width] raw, before temperature
  std::vector<float> lte;           // [rows, exits], or empty: no such head
  std::vector<float> ramp;          // [rows, width], or empty: the ramp of the last layer
  std::vector<float> gold;          // [rows] label index or value; multi_label: [rows, width] 1 or 0; NaN = none
  std::vector<int32_t> lengths;     // [rows] tokens, or empty: not known
  std::vector<int64_t> index;       // [rows] row in the source
  std::vector<float> reference;     // [rows, width] fp32 at full depth, or empty: not known
  std::vector<uint64_t> row_hash;   // [rows] of the token ids, equal for equal texts (row_hash_of); or empty: not known
  std::vector<uint64_t> text_hash;  // [rows] of the texts themselves (text_hash_of); or empty: not known
  std::vector<uint64_t> cluster;    // [rows] equal for rows that are drawn together (cluster_of); or empty: none are
  std::vector<uint8_t> learned;     // [rows] 0: no overlap with what the model learned, 1: some, 2: equal; or empty

  [[nodiscard]] std::span<const float> at(size_t row, int exit) const noexcept {
    const auto w = static_cast<size_t>(width);
    return {logits.data() + (row * static_cast<size_t>(exits) + static_cast<size_t>(exit)) * w, w};
  }
  // What full_depth() is of: "fp32", "fp32 at full depth".
  [[nodiscard]] std::string reference_precision() const { return reference.empty() ? info.precision : "fp32"; }
  [[nodiscard]] std::string reference_name() const { return reference_precision() + " at full depth"; }
  // What the row is answered at full depth: the reference where it is known, else the last exit.
  [[nodiscard]] std::span<const float> full_depth(size_t row) const noexcept {
    const auto w = static_cast<size_t>(width);
    return reference.empty() ? at(row, exits - 1) : std::span(reference).subspan(row * w, w);
  }
  // An exit's logits as evidence is made of them.
  [[nodiscard]] ExitLogits exit_logits(std::span<const float> z, float temperature = 1,
                                       float lte_score = 0) const noexcept {
    return info.exit_logits(z, temperature, lte_score);
  }
  // Is the answer the gold one? The row has gold.
  [[nodiscard]] bool right(size_t row, std::span<const float> answer) const noexcept;
  [[nodiscard]] size_t gold_width() const noexcept {
    return info.problem == Problem::multi_label ? static_cast<size_t>(width) : 1;
  }
  [[nodiscard]] float lte_at(size_t row, int exit) const noexcept {
    return lte.empty() ? 0.0F : lte[row * static_cast<size_t>(exits) + static_cast<size_t>(exit)];
  }
  [[nodiscard]] bool labelled() const noexcept;  // every row has its gold
  [[nodiscard]] ExitSites sites() const;
};

// Reads and checks all of it. Throws Error (bad_file); a logit that is not a number is reported by row and exit.
[[nodiscard]] ExitTrace read_trace(const std::filesystem::path& path);
// Whether a file names the format of traces, of whatever version; false for what is no safetensors file at all.
[[nodiscard]] bool names_itself_trace(const std::filesystem::path& path);
[[nodiscard]] ExitTrace parse_trace(std::span<const std::byte> safetensors, std::string_view where);
void write_trace(const std::filesystem::path& path, const ExitTrace& trace);

// The checks of read_trace, for traces in memory. `where` prefixes error messages.
void check_trace(const ExitTrace& trace, std::string_view where);

// Of a text's token ids, at the maximum length the trace was made with: FNV-1a over their bytes.
[[nodiscard]] uint64_t row_hash_of(std::span<const int32_t> ids) noexcept;
[[nodiscard]] uint64_t hash_of(std::span<const std::byte> bytes) noexcept;  // the same function, of any bytes
// Of a text, and of the second of a pair, whatever reads it: white space counts once, case not at all.
[[nodiscard]] uint64_t text_hash_of(std::string_view text, std::string_view pair = {});
// sha256 over the sorted row hashes: the same for the same texts in any order. Empty if they are not known.
[[nodiscard]] std::string rows_sha256(const ExitTrace& trace);

// Whether a trace is of the model that `owner` describes: weights, labels, layers, precision; tokenizer, max_length and
// precision_map where both are known. Throws Error (bad_file).
void require_owner(const ExitTrace& trace, const TraceInfo& owner, std::string_view where);

// Concatenates two traces of one model. Throws Error (bad_file) if they belong to different models.
[[nodiscard]] ExitTrace join_rows(const ExitTrace& first, const ExitTrace& second, std::string_view where);

// The rows `rows` of a trace, in that order.
[[nodiscard]] ExitTrace select_rows(const ExitTrace& trace, std::span<const size_t> rows);

}  // namespace exeunt
