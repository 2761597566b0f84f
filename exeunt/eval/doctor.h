// SPDX-License-Identifier: Apache-2.0
// What this machine can do, what is missing, and what to do about it.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/engine/engine.h"

namespace exeunt {

enum class Health {
  good,
  note,     // works, and could work better
  missing,  // one thing cannot be done
  broken,   // models cannot run, or would answer wrongly
};
[[nodiscard]] std::string_view name_of(Health health) noexcept;  // "ok", "note", "missing", "broken"

struct Finding {
  std::string name = {};
  Health health = Health::good;
  std::string text = {};
  std::string hint = {};
  OrderedJson details = {};
};

// `trainer` is the program exeunt-train; empty: it is not installed. The kernel's files are those under `root`.
[[nodiscard]] std::vector<Finding> examine_machine(const std::filesystem::path& trainer,
                                                   const std::filesystem::path& root = "/");

// A small random model, a text, and all exits' logits by the reference that the engine is tested against.
struct SelfCheckCase {
  Checkpoint model;
  Encoding text;
  std::span<const float> logits;
};
[[nodiscard]] SelfCheckCase self_check_case();

// The engine on this processor against those logits.
struct SelfCheck {
  Precision precision = Precision::fp32;
  double difference = 0;  // the largest of all exits' logits, as a share of the largest logit
  bool good = false;      // within this precision's rounding error
};
// One row for each precision of these kernels.
[[nodiscard]] std::vector<SelfCheck> check_engine(const Kernels& kernels);

[[nodiscard]] bool any_of(const std::vector<Finding>& findings, Health health);
[[nodiscard]] std::string verdict(const std::vector<Finding>& findings);

}  // namespace exeunt
