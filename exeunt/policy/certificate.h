// SPDX-License-Identifier: Apache-2.0
// What a certificate says: which loss was tested against which budget, by which method, on which rows, under which
// conditions. Fields are listed in policy_file.cc.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/policy/trace.h"

namespace exeunt {

// What an early answer loses against the same model at full depth.
enum class RiskLoss {
  disagreement,   // 1 if the labels differ; needs no gold
  zero_one_drop,  // 1 if only the early answer is wrong, -1 if only the full-depth one is
  abs_diff        // regression: |difference| over the range of the labels, at most 1
};
// How its mean is bounded. crc holds in expectation, the others with a confidence.
enum class RiskMethod { ltt_binomial, ltt_hb, wsr, crc };

[[nodiscard]] constexpr std::array<std::string_view, 3> names_of(RiskLoss) noexcept {
  return {"disagreement", "zero_one_drop", "abs_diff"};
}
[[nodiscard]] constexpr std::array<std::string_view, 4> names_of(RiskMethod) noexcept {
  return {"ltt-binomial", "ltt-hb", "wsr", "crc"};
}
[[nodiscard]] constexpr std::string_view name_of(RiskLoss loss) noexcept {
  return names_of(loss)[static_cast<size_t>(loss)];
}
[[nodiscard]] constexpr std::string_view name_of(RiskMethod method) noexcept {
  return names_of(method)[static_cast<size_t>(method)];
}
[[nodiscard]] RiskLoss loss_named(std::string_view name);  // throws Error (usage) with the nearest name
[[nodiscard]] RiskMethod method_named(std::string_view name);

struct DataPart {
  std::string data;  // sha256
  int64_t rows = 0;
  std::string row_hashes = {};  // rows_sha256() of the part; empty = not known

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

// What the loss of a certificate is measured against.
enum class LossReference {
  same_precision,  // full depth in the precision of the entry
  fp32             // full depth in fp32
};
[[nodiscard]] constexpr std::array<std::string_view, 2> names_of(LossReference) noexcept {
  return {"same_precision", "fp32"};
}

// What a certificate counts: every distinct text once, or every request, repeats included.
enum class CertifiedUnit { texts, requests };
[[nodiscard]] constexpr std::array<std::string_view, 2> names_of(CertifiedUnit) noexcept {
  return {"texts", "requests"};
}

// A part of the certify rows that was tested on its own.
struct CertifiedGroup {
  std::string name;
  int64_t rows = 0;
  double losses = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

// What is not known is empty, 0 or null.
struct Certificate {
  RiskLoss loss = RiskLoss::disagreement;
  RiskMethod method = RiskMethod::ltt_binomial;  // crc holds in expectation, the others with probability 1 - delta
  double max_drop = 0, delta = 0;
  int64_t rows = 0;
  double losses = 0;  // summed over the rows, of the default policy
  int budgets = 1, families = 1;
  DataPart fit, certify;
  std::string tool, created;

  LossReference reference = LossReference::same_precision;
  int max_length = 0;                      // of the texts
  std::string tokenizer;                   // sha256
  std::optional<LastHead> last_head = {};  // which head answers at the last layer
  std::vector<double> range = {};          // of a regression's values, least and greatest; or empty
  std::optional<uint64_t> seed = {};       // of the split
  CertifiedUnit unit = CertifiedUnit::texts;
  int64_t distinct = 0;         // texts of the certify part
  int64_t clusters = 0;         // draws of the certify part, where rows are drawn together; 0 = every row is one
  std::string cluster_by = {};  // the column that names them; empty: the first text of pairs
  int tries = 0;                // known uses of these rows to certify, this one included
  std::string ledger = {};      // sha256 over the earlier ones, as the user\'s state folder has them
  std::string group_by = {};    // GroupPlan::by; empty = no groups, or not known
  std::vector<CertifiedGroup> groups = {};  // each keeps the promise on its own
  std::vector<int64_t> answers = {};        // of the certify part at full depth, by label; or empty: not known

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

}  // namespace exeunt
