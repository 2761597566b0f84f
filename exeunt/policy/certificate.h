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

#include "exeunt/policy/loss.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

// How a mean loss is bounded. crc holds in expectation, the others with a confidence.
enum class RiskMethod { ltt_binomial, ltt_hb, wsr, crc };

[[nodiscard]] constexpr std::array<std::string_view, 4> names_of(RiskMethod) noexcept {
  return {"ltt-binomial", "ltt-hb", "wsr", "crc"};
}
[[nodiscard]] constexpr std::string_view name_of(RiskMethod method) noexcept {
  return names_of(method)[static_cast<size_t>(method)];
}
[[nodiscard]] RiskMethod method_named(std::string_view name);  // throws Error (usage) with the nearest name

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

// What a certificate counts: every distinct text once, or requests, of which its rows are a random sample.
enum class CertifiedUnit { texts, requests };
[[nodiscard]] constexpr std::array<std::string_view, 2> names_of(CertifiedUnit) noexcept {
  return {"texts", "requests"};
}

// Where groups go by the exit, no exit's texts lose more than so many times the budget: most of what is lost, a few
// early exits may lose.
inline constexpr double kExitShare = 2;

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
  std::vector<CertifiedGroup> exits = {};   // what texts lost where they left, by layer
  std::vector<int64_t> answers = {};        // of the certify part at full depth, by label; or empty: not known

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit);
};

}  // namespace exeunt
