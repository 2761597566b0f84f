// SPDX-License-Identifier: Apache-2.0
// What runs: the one place that decides, from a model and what the user asked for, which policy, precision and
// max-length run, and whether a certificate covers that. Every front end, live or in replay, asks here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/engine/engine.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/policy/policy_file.h"
#include "exeunt/policy/promise.h"

namespace exeunt {

// What the user asked for; what is left empty follows from the model.
struct RunRequest {
  std::string policy = {};      // as text, or a policy file (.json), which must be made for these weights
  std::vector<int> exits = {};  // layers whose exits are evaluated
  std::optional<Precision> precision = {};
  std::optional<Exceptions> exceptions = {};  // none: those of precision.json
  int max_length = 0;                         // 0 = the certificate's, else the training's, else the model's own limit
  std::optional<EngineTraits> engine = {};    // none: the CPU's, with choose_kernels()
  bool weights_hashed = true;                 // or will be before the promise is told; false: the promise is none yet
};

struct ResolvedPolicy {
  PolicySpec policy = {};                       // with exits and both temperatures
  std::vector<float> exit_rates = {};           // of calibration; or empty
  std::optional<PolicyEntry> entry = {};        // of the policy file, where its exits and temperatures apply
  std::optional<Certificate> certificate = {};  // of `policy`, if all its conditions hold
  std::string promise = {};                     // in one sentence; "none (WHY)" without a certificate
  std::vector<std::string> notices = {};        // what the user should know, one line each
};

struct Resolved : ResolvedPolicy {
  Precision precision = Precision::fp32;
  Exceptions exceptions = {};
  int max_length = 0;  // at most the model's positions
  int pack_rows = 0;   // as measured on this machine (profile.json); 0 = not measured
};

// Throws Error: usage for a policy that does not fit the model, bad_file for a named file that was not made for it.
[[nodiscard]] Resolved resolve(const Checkpoint& model, const RunRequest& request);

// The same for a replay: engine, precision and max-length are those that made the trace. `model` is null where only the
// trace is at hand; then a policy can come from the request alone.
[[nodiscard]] ResolvedPolicy resolve_replay(const Checkpoint* model, const TraceInfo& trace, const RunRequest& request);

// What each entry of policy.json promises on the engine it was certified on, as the files of `folder` are now: "none
// (WHY)" where weights, tokenizer or precision map are no longer those of its certificate. For what describes a folder
// rather than a run, such as its card.
[[nodiscard]] std::vector<std::string> stored_promises(const PolicyFile& policies, const Checkpoint& model,
                                                       const std::filesystem::path& folder);

// What runs and what it promises as the format exeunt.promise/1, for other programs; docs/formats.md has it.
[[nodiscard]] OrderedJson promise_json(const Resolved& resolved, std::string_view engine,
                                       const std::vector<std::string>& notices);

// `options` with the precision and exceptions that were resolved, and the rows of a pack unless they set them.
[[nodiscard]] EngineOptions engine_options(const Resolved& resolved, EngineOptions options = {});

// The default of the model's policies if the engine supports that precision; else bf16 if it supports it; else fp32.
// Where that default was chosen on another device, it is the precision that was calibrated last on this one. `policies`
// were made for the model's weights; null = there are none.
[[nodiscard]] Precision default_precision(const PolicyFile* policies, const EngineTraits& engine);

// How many texts each row had that the model or its exits were trained on, 1 or 2 (pairs); 0 = not known.
[[nodiscard]] int texts_per_row(const std::filesystem::path& folder);

// The exceptions with which an engine of that name runs the model in `folder`: those of precision.json on the CPU. A
// GPU mixes int8 with bf16 alone: what precision.json keeps out of int8 is bf16 there, and poolers are not int8.
[[nodiscard]] PrecisionMap precision_map_on(std::string_view engine, const std::filesystem::path& folder,
                                            const ModelSpec& spec);

// sha256 of the exceptions with which an engine runs `model` in the precision of that name; nothing if it has none. It
// binds a policy's entry to the precision map it was measured with.
[[nodiscard]] std::optional<std::string> precision_map_of(const Checkpoint& model, std::string_view engine,
                                                          std::string_view precision);

}  // namespace exeunt
